"""Scores without a test set and the probability that labels are right, against plain computations."""

import math

import numpy as np
import pytest
import torch

from refprior.information import uniform
from refprior.posterior import (
    LabelQuality,
    ensemble_temperature,
    held_out_weights,
    label_posterior,
    log_temperature_ratio,
    out_of_fold_mixture,
    predictive,
    score_out_of_fold,
)
from refprior.posterior._held_out import _at_temperature, log_slope, wilson_interval


def predictions(n: int = 40, classes: int = 5, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    log_p = (3 * torch.randn(n, classes, generator=draw, dtype=torch.float64)).log_softmax(-1)
    y = torch.where(torch.rand(n, generator=draw) < 0.3, torch.arange(n) % classes, log_p.argmax(-1))
    return log_p, y


def test_the_mixture_is_of_the_particles_that_held_the_label_out() -> None:
    p = torch.tensor([[[0.9, 0.1], [0.6, 0.4]], [[0.5, 0.5], [0.2, 0.8]], [[0.1, 0.9], [0.3, 0.7]]])
    prior = torch.tensor([0.5, 0.3, 0.2])
    out = torch.tensor([[True, False], [False, True], [True, True]])
    mixed = out_of_fold_mixture(p.log(), out, prior.log()).exp()
    wanted = [(0.5 * 0.9 + 0.2 * 0.1) / 0.7, (0.3 * 0.2 + 0.2 * 0.3) / 0.5]
    torch.testing.assert_close(mixed[:, 0], torch.tensor(wanted))
    torch.testing.assert_close(mixed.sum(-1), torch.ones(2))


def test_wilson_of_a_textbook() -> None:
    """42 of 50: Wilson's interval as statsmodels computes it."""
    low, high = wilson_interval(0.84, 50)
    assert (round(low, 4), round(high, 4)) == (0.7149, 0.9166)
    assert wilson_interval(0.0, 10)[0] == 0
    assert wilson_interval(1.0, 10)[1] == pytest.approx(1)


def test_scores_by_hand() -> None:
    log_p = torch.tensor([[0.9, 0.1], [0.3, 0.7], [0.6, 0.4], [0.9, 0.1]]).log()
    found = score_out_of_fold(log_p, torch.tensor([0, 0, 0, 1]))
    assert (found.labels, found.accuracy) == (4, 0.5)
    assert found.negative_log_likelihood == pytest.approx(-sum(map(math.log, (0.9, 0.3, 0.6, 0.1))) / 4)
    # Bins hold 0.9 twice (one right), 0.7 (wrong) and 0.6 (right).
    assert found.calibration_error == pytest.approx((abs(1 - 1.8) + 0.7 + 0.4) / 4)
    low, high = found.calibration_error_interval
    assert low < found.calibration_error < high


def test_intervals_are_those_of_a_plain_bootstrap_and_do_not_change() -> None:
    log_p, y = predictions(200)
    found = score_out_of_fold(log_p, y)
    assert found == score_out_of_fold(log_p, y)
    random, nll, errors = np.random.RandomState(1), [], []
    for _ in range(2000):
        chosen = torch.from_numpy(random.randint(0, 200, 200))
        again = score_plainly(log_p[chosen], y[chosen])
        nll.append(again[0])
        errors.append(again[1])
    for values, interval in (
        (nll, found.negative_log_likelihood_interval),
        (errors, found.calibration_error_interval),
    ):
        assert interval == pytest.approx(np.percentile(values, [2.5, 97.5]), abs=float(0.1 * np.std(values) + 0.01))


def score_plainly(log_p: torch.Tensor, y: torch.Tensor) -> tuple[float, float]:
    confidence, guess = log_p.exp().max(-1)
    right = (guess == y).double()
    error = 0.0
    for b in range(15):
        inside = (confidence > b / 15) & (confidence <= (b + 1) / 15)
        error += abs((right - confidence)[inside].sum().item()) / len(y)
    return -log_p[torch.arange(len(y)), y].mean().item(), error


def test_scores_read_like_a_sentence() -> None:
    log_p = torch.full((50, 2), 0.5).log()
    log_p[:, 0] += 0.01
    text = str(score_out_of_fold(log_p.log_softmax(-1), (torch.arange(50) >= 42).long()))
    assert text.startswith("out of fold, 50 labels: 84 % (71–92), NLL 0.69 (")


def test_the_error_rate_and_the_temperature_maximize_their_posterior() -> None:
    log_p, y = predictions()
    right, rate = label_posterior(log_p, y)
    rates, best = np.linspace(0, 1, 20_001)[1:-1], (-math.inf, 0.0, 0.0)
    for log_t in np.linspace(-2, 2, 41):
        p = (log_p / math.exp(log_t)).softmax(-1)[torch.arange(40), y].numpy()
        likelihood = np.log((1 - rates)[:, None] * p + rates[:, None] * (1 - p) / 4).sum(1)
        posterior = likelihood + 0.5 * np.log(rates) + 0.5 * np.log(1 - rates) - 0.5 * log_t**2
        best = max(best, (posterior.max(), rates[posterior.argmax()], log_t))
    assert rate == pytest.approx(best[1], abs=1e-4)
    assert rate == pytest.approx(((1 - right).sum().item() + 0.5) / 41)


def test_expectation_maximization_ends_at_the_same_rate() -> None:
    log_p, y = predictions(seed=3)
    p, rate = log_p.exp()[torch.arange(40), y], 0.3
    for _ in range(5000):
        r = (1 - rate) * p / ((1 - rate) * p + rate * (1 - p) / 4)
        rate = float(((1 - r).sum() + 0.5) / 41)
    _, found, at = _at_temperature(log_p, y, 0.0)
    assert at == pytest.approx(rate)
    torch.testing.assert_close(found, r)


def test_the_posterior_enumerates_the_true_class() -> None:
    """P(truth = y | y), summed over all classes that the truth may have."""
    log_p, y = predictions(8)
    _, right, rate = _at_temperature(log_p, y, 0.0)
    for i in range(8):
        joint = [log_p[i, t].exp().item() * (1 - rate if t == y[i] else rate / 4) for t in range(5)]
        assert right[i].item() == pytest.approx(joint[y[i]] / sum(joint))


def test_mistakes_of_overconfident_particles_are_not_taken_for_wrong_labels() -> None:
    """All labels are right, drawn from calibrated predictions; the particles are three times too confident."""
    draw = torch.Generator().manual_seed(0)
    log_p = torch.randn(400, 5, generator=draw, dtype=torch.float64).log_softmax(-1)
    y = torch.multinomial(log_p.exp(), 1, generator=draw)[:, 0]
    too_sure = (3 * log_p).log_softmax(-1)
    assert _at_temperature(too_sure, y, 0.0)[2] > 0.2
    assert label_posterior(too_sure, y)[1] < 0.1


@pytest.mark.parametrize("certain", [True, False])
def test_saturated_predictions_have_finite_posteriors(certain: bool) -> None:
    log_p = torch.tensor([[0.0, -torch.inf, -torch.inf]]).repeat(4, 1)
    y = torch.zeros(4, dtype=torch.int64) if certain else torch.tensor([0, 0, 0, 2])
    right, rate = label_posterior(log_p, y)
    assert right.isfinite().all()
    assert right.tolist() == [1, 1, 1, 1 if certain else 0]
    assert 0 < rate < 0.5


def test_the_labels_to_check_first_come_first() -> None:
    quality = LabelQuality(
        right=np.array([0.9, 0.1, 0.4, *np.full(9, 0.9)]),
        given=np.array(["cat", "dog", "cat", *["cat", "dog", "owl"] * 3]),
        suggested=np.array(["cat", "cat", "dog", *["cat", "dog", "owl"] * 3]),
        index=np.arange(5, 17),
        error_rate=0.17,
    )
    assert quality.order.tolist() == [1, 2, 0, *range(3, 12)]
    assert repr(quality) == "12 labels, about 17 % wrong; check first: 6 (dog, not cat?), 7 (cat, not dog?)"


def test_particles_that_know_nothing_find_no_wrong_labels() -> None:
    """Random predictions of ten classes agree by chance, and so does a single class that 90 % of the labels have."""
    draw = np.random.default_rng(0)
    given, random, usual = draw.integers(0, 10, 50), draw.integers(0, 10, 50), np.repeat([0, 1], [45, 5])
    constant = np.zeros(50, dtype=int)

    def quality(given: np.ndarray, suggested: np.ndarray) -> LabelQuality:
        return LabelQuality(np.full(50, 0.4), given, suggested, np.arange(50), error_rate=0.6)

    assert not quality(given, random).informative
    assert not quality(usual, constant).informative
    assert repr(quality(given, random)) == "50 labels, predicted no better than chance: wrong ones cannot be found"
    assert quality(given, np.where(np.arange(50) % 2, given, random)).informative  # about half of the labels
    assert quality(usual, usual).informative


def noisy(particles: int, noise: float, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Particles whose log-odds are a common signal and noise of their own, and true classes by the signal."""
    draw = torch.Generator().manual_seed(seed)
    signal = 2 * torch.randn(20_000, 4, generator=draw, dtype=torch.float64)
    y = torch.multinomial(signal.softmax(-1), 1, generator=draw)[:, 0]
    own = noise * torch.randn(particles, 20_000, 4, generator=draw, dtype=torch.float64)
    return (signal + own).log_softmax(-1), y


def best_temperature(log_p: torch.Tensor, y: torch.Tensor) -> float:
    def nll(t: float) -> float:
        return -(log_p / t).log_softmax(-1)[torch.arange(len(y)), y].mean().item()

    return min((math.exp(t) for t in np.linspace(-1, 1, 201)), key=nll)


@pytest.mark.parametrize(("particles", "noise"), [(2, 1.0), (4, 1.0), (4, 2.0), (16, 1.5)])
def test_the_temperature_of_the_ensemble_follows_from_that_of_a_particle(particles: int, noise: float) -> None:
    """The labels know a particle only; the pool's disagreement tells how far the ensemble is from it."""
    log_p, y = noisy(particles, noise)
    single = best_temperature(log_p[0], y)
    whole = best_temperature(predictive(log_p, uniform(particles, log_p)), y)
    found = single * math.exp(log_temperature_ratio(torch.eye(particles, dtype=torch.bool), log_p))
    assert abs(math.log(found / whole)) < 0.5 * abs(math.log(single / whole))
    assert single > whole


def test_identical_particles_have_the_temperature_of_one() -> None:
    log_p, _ = noisy(1, 1.0)
    same = log_p.expand(4, -1, -1)
    assert log_temperature_ratio(torch.eye(4, dtype=torch.bool), same) == pytest.approx(0, abs=1e-12)
    assert log_slope(log_p) == 0
    assert log_slope(torch.full((3, 5, 2), 0.5).log()) == 0


def test_a_fold_of_all_particles_has_the_temperature_of_the_ensemble() -> None:
    log_p, _ = noisy(4, 1.0)
    assert log_temperature_ratio(torch.ones(4, 9, dtype=torch.bool), log_p) == 0


@pytest.mark.parametrize("log_ratio", [0.0, -0.3])
def test_the_temperature_maximizes_its_posterior(log_ratio: float) -> None:
    log_p, y = predictions(30, seed=1)
    log_p = (3 * log_p).log_softmax(-1)
    rates, best = np.linspace(0, 1, 2001)[1:-1], (-math.inf, 0.0)
    for log_t in np.linspace(-2, 2, 41):
        p = (log_p / math.exp(log_t)).softmax(-1)[torch.arange(30), y].numpy()
        likelihood = np.log((1 - rates)[:, None] * p + rates[:, None] * (1 - p) / 4).sum(1)
        posterior = likelihood + 0.5 * np.log(rates * (1 - rates)) - 0.5 * ((log_t + log_ratio) / 0.25) ** 2
        best = max(best, (posterior.max(), math.exp(log_t + log_ratio)))
    assert ensemble_temperature(log_p, y, log_ratio) == pytest.approx(max(1, best[1]))


def test_wrong_labels_do_not_make_the_ensemble_unsure() -> None:
    """Calibrated predictions; a fifth of the labels is wrong."""
    draw = torch.Generator().manual_seed(0)
    log_p = (3 * torch.randn(2000, 5, generator=draw, dtype=torch.float64)).log_softmax(-1)
    y = torch.multinomial(log_p.exp(), 1, generator=draw)[:, 0]
    noisy_y = torch.where(torch.rand(2000, generator=draw) < 0.2, (y + 1) % 5, y)
    assert ensemble_temperature(log_p, y) == pytest.approx(1, abs=0.11)
    assert ensemble_temperature(log_p, noisy_y) == pytest.approx(1, abs=0.11)
    assert ensemble_temperature(2 * log_p, noisy_y) == pytest.approx(2, abs=0.25)
    assert ensemble_temperature(log_p / 2, noisy_y) == 1


def test_saturated_predictions_have_a_finite_slope() -> None:
    log_p = torch.tensor([[[0.0, -torch.inf]], [[-torch.inf, 0.0]], [[0.0, -torch.inf]]])
    assert math.isfinite(log_slope(log_p))


def test_weights_are_bayes_law_within_a_fold() -> None:
    """Particles 0 and 2 left out the first 20 labels, 1 and 3 the others, which say little between the folds."""
    draw = torch.Generator().manual_seed(0)
    log_p = torch.randn(4, 40, 3, generator=draw, dtype=torch.float64).log_softmax(-1)
    y = torch.where(torch.arange(40) < 30, log_p[2].argmax(-1), log_p[0].argmax(-1))
    out = (torch.arange(4) % 2).unsqueeze(1) == (torch.arange(40) >= 20).long()
    prior = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64).log()
    found = held_out_weights(log_p, y, out, prior).exp()
    torch.testing.assert_close(found[[0, 2]].sum(), prior[[0, 2]].exp().sum())
    torch.testing.assert_close(found.sum(), torch.tensor(1.0, dtype=torch.float64))
    rate = label_posterior(out_of_fold_mixture(log_p, out, prior), y)[1]
    noise = rate * 3 / 2
    p = (1 - noise) * log_p[[0, 2], :20].exp()[:, torch.arange(20), y[:20]] + noise / 3  # (2, 20)
    own = prior[[0, 2]].softmax(0)
    select, averaged = own * p.prod(1), (own @ p).prod()  # one of them is right, or their mixture
    right = select.sum() / (select.sum() + averaged)
    expected = right * select / select.sum() + (1 - right) * own
    torch.testing.assert_close(found[[0, 2]] / found[[0, 2]].sum(), expected)
    learned = torch.where(out.unsqueeze(-1), log_p, log_p.flip(-1))  # other predictions of what each has learned
    torch.testing.assert_close(held_out_weights(learned, y, out, prior), held_out_weights(log_p, y, out, prior))


def test_as_many_folds_as_particles_leave_the_prior() -> None:
    log_p, y = predictions()
    out = torch.arange(4).unsqueeze(1) == torch.arange(40) % 4
    prior = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64).log()
    particles = log_p + torch.randn(4, 40, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    torch.testing.assert_close(held_out_weights(particles.log_softmax(-1), y, out, prior), prior)
