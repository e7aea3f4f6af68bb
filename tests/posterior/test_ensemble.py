"""The posterior predictive and its scores, against independent versions."""

import json
import math

import numpy as np
import pytest
import torch
from sklearn import metrics
from sklearn.metrics import brier_score_loss, log_loss
from torch import Tensor

from refprior.posterior._ensemble import (
    Bins,
    brier_score,
    change_class_prior,
    confusion_matrix,
    expected_calibration_error,
    group_accuracy,
    likelihood_weights,
    negative_log_likelihood,
    per_class,
    predictive,
    reliability,
    score,
    transferability,
    uncertainty,
)


@pytest.fixture
def log_p() -> Tensor:
    return (3 * torch.randn(4, 50, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)).log_softmax(-1)


@pytest.fixture
def y() -> Tensor:
    return torch.randint(0, 3, (50,), generator=torch.Generator().manual_seed(1))


def uniform(count: int) -> Tensor:
    return torch.zeros(count, dtype=torch.float64).log_softmax(0)


def test_another_class_prior_is_bayes_law_on_a_mixture() -> None:
    """Three normal classes at known places: the prediction under other shares is that of the other mixture."""
    x, places = torch.linspace(-4, 6, 41, dtype=torch.float64), torch.tensor([-1.0, 0.5, 2.0], dtype=torch.float64)
    density = torch.distributions.Normal(places, 1.0).log_prob(x.unsqueeze(1))  # (n, C)
    trained, target = (torch.tensor(q, dtype=torch.float64) for q in ((0.7, 0.25, 0.05), (0.1, 0.3, 0.6)))
    before, after = ((density.exp() * q) / (density.exp() @ q).unsqueeze(1) for q in (trained, target))
    torch.testing.assert_close(change_class_prior(before.log(), trained, target).exp(), after)
    torch.testing.assert_close(change_class_prior(before.log(), 20 * trained, target / 3).exp(), after)


def test_impossible_classes_stay_so_under_another_prior() -> None:
    found = change_class_prior(torch.tensor([[0.0, -math.inf]]), torch.tensor([9.0, 1.0]), torch.tensor([1.0, 9.0]))
    torch.testing.assert_close(found.exp(), torch.tensor([[1.0, 0.0]]))
    with pytest.raises(ValueError, match=r"target must be 2 shares above 0, one per class, got \[1.0, 0.0\]"):
        change_class_prior(torch.zeros(1, 2), torch.ones(2), torch.tensor([1.0, 0.0]))
    with pytest.raises(ValueError, match="trained must be 2 shares above 0"):
        change_class_prior(torch.zeros(1, 2), torch.ones(3), torch.ones(2))


def test_likelihood_weights_are_bayes_law(log_p: Tensor, y: Tensor) -> None:
    prior = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    likelihood = torch.stack([math_prod(log_p[k].exp()[range(5), y[:5]]) for k in range(4)])
    expected = prior * likelihood / (prior * likelihood).sum()
    torch.testing.assert_close(likelihood_weights(log_p[:, :5], y[:5], prior.log()).exp(), expected)


def math_prod(values: Tensor) -> Tensor:
    return torch.prod(values)


def test_likelihood_weights_survive_many_examples() -> None:
    log_p = torch.tensor([[-1000.0, 0.0], [-1001.0, 0.0]]).unsqueeze(1).expand(2, 5000, 2)
    weights = likelihood_weights(log_p, torch.zeros(5000, dtype=torch.int64), torch.zeros(2).log_softmax(0))
    assert weights.isfinite().all()
    assert weights[0] == 0


def test_predictive_averages_probabilities_or_logits(log_p: Tensor) -> None:
    weights = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    arithmetic = predictive(log_p, weights.log())
    torch.testing.assert_close(arithmetic.exp(), torch.einsum("k,knc->nc", weights, log_p.exp()))
    logits = 5 + log_p  # any constant may be added to logits
    geometric = predictive(log_p, weights.log(), average="logits")
    torch.testing.assert_close(geometric, torch.einsum("k,knc->nc", weights, logits).log_softmax(-1))


def test_uncertainty_splits_into_two_nonnegative_parts(log_p: Tensor) -> None:
    total, within, between = uncertainty(log_p, uniform(4))
    torch.testing.assert_close(total, within + between)
    assert (between >= -1e-12).all()
    torch.testing.assert_close(uncertainty(log_p[:1], uniform(1)).between, torch.zeros(50, dtype=torch.float64))


def test_scores_equal_scikit_learns(log_p: Tensor, y: Tensor) -> None:
    ensemble = predictive(log_p, uniform(4))
    assert negative_log_likelihood(ensemble, y).mean().item() == pytest.approx(log_loss(y, ensemble.exp()))
    truth = np.eye(3)[y]
    columns = sum(brier_score_loss(truth[:, c], ensemble.exp()[:, c]) for c in range(3))
    assert brier_score(ensemble, y).mean().item() == pytest.approx(columns)
    result = score(log_p, y, uniform(4))
    assert result.accuracy == pytest.approx((ensemble.argmax(-1) == y).double().mean().item())
    assert result.particle_accuracies == pytest.approx([(p.argmax(-1) == y).double().mean().item() for p in log_p])


def test_the_accuracy_of_groups_is_that_of_their_examples(log_p: Tensor, y: Tensor) -> None:
    groups = torch.arange(len(y)) % 3 * 5 - 2
    found = group_accuracy(log_p, y, groups)
    assert found.shape == (len(log_p), 3)
    for group, mine in zip((-2, 3, 8), found.unbind(-1), strict=True):
        its = groups == group
        torch.testing.assert_close(mine, (log_p.argmax(-1) == y)[:, its].to(mine.dtype).mean(-1))
    with pytest.raises(ValueError, match=r"expected a group for each of \d+ examples, got \(1,\)"):
        group_accuracy(log_p, y, groups[:1])
    many = log_p[:, :1].half().expand(-1, 100_000, -1)  # more than the largest half
    zeros = torch.zeros(100_000, dtype=torch.int64)
    assert torch.equal(group_accuracy(many, zeros, zeros)[:, 0], (log_p[:, 0].argmax(-1) == 0).half())
    assert group_accuracy(log_p[:, :0], y[:0], groups[:0]).shape == (len(log_p), 0)


def test_scores_are_plain_numbers(log_p: Tensor, y: Tensor) -> None:
    result = score(log_p, y, uniform(4))
    ensemble = predictive(log_p, uniform(4))
    bins = reliability(ensemble, y)
    assert result.reliability == Bins(*(tuple(values.tolist()) for values in bins))
    assert result.calibration_error == pytest.approx(expected_calibration_error(ensemble, y).item())
    assert result.information == pytest.approx(uncertainty(log_p, uniform(4)).between.mean().item())
    record = result.to_dict()
    assert json.loads(json.dumps(record)) == record
    assert record["accuracy"] == result.accuracy
    assert record["particle_accuracies"] == list(result.particle_accuracies)
    assert record["reliability"]["counts"] == list(result.reliability.counts)


def test_scores_of_averaged_logits_are_those_of_that_prediction(log_p: Tensor, y: Tensor) -> None:
    ensemble = predictive(log_p, uniform(4), average="logits")
    result = score(log_p, y, uniform(4), average="logits")
    assert result.negative_log_likelihood == pytest.approx(negative_log_likelihood(ensemble, y).mean().item())
    assert result.negative_log_likelihood != score(log_p, y, uniform(4)).negative_log_likelihood


def test_another_average_is_rejected(log_p: Tensor) -> None:
    with pytest.raises(ValueError, match="average must be 'probabilities' or 'logits', got 'weights'"):
        predictive(log_p, uniform(4), average="weights")  # type: ignore[arg-type]


def test_calibration_error_equals_a_loop_over_bins(log_p: Tensor, y: Tensor) -> None:
    ensemble = predictive(log_p, uniform(4))
    confidence, predicted = ensemble.exp().max(-1)
    expected = 0.0
    for b in range(10):
        inside = (confidence > b / 10) & (confidence <= (b + 1) / 10)
        if inside.any():
            gap = (predicted[inside] == y[inside]).double().mean() - confidence[inside].mean()
            expected += inside.double().mean().item() * abs(gap.item())
    assert expected_calibration_error(ensemble, y, bins=10).item() == pytest.approx(expected)
    assert reliability(ensemble, y, bins=10).counts.sum() == 50


def test_certain_and_right_is_perfectly_calibrated() -> None:
    sure = torch.tensor([[0.0, -math.inf], [-math.inf, 0.0]])
    truth = torch.tensor([0, 1])
    assert expected_calibration_error(sure, truth) == 0
    assert brier_score(sure, truth).sum() == 0
    assert expected_calibration_error(sure, 1 - truth) == 1


def test_impossible_labels_give_numbers() -> None:
    log_p = torch.tensor([[[0.0, -math.inf]], [[math.log(0.5), math.log(0.5)]]])
    weights = torch.zeros(2).log_softmax(0)
    assert predictive(log_p, weights, average="logits").isfinite().all()
    assert likelihood_weights(log_p[:1].expand(2, -1, -1), torch.tensor([1]), weights).exp().tolist() == [0.5, 0.5]


def test_transferability_is_the_plain_sum() -> None:
    log_p = torch.randn(3, 8, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).log_softmax(-1)
    y, prior = torch.tensor([0, 1, 1, 0, 2, 2, 1, 0]), torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    total = 0.0
    for k in range(3):
        p = log_p[k].exp()
        for i in range(8):
            told = 0.0
            for z in range(4):
                seen = sum(float(p[j, z]) for j in range(8))
                told += float(p[i, z]) * sum(float(p[j, z]) for j in range(8) if y[j] == y[i]) / seen
            total += float(prior[k]) * math.log(told) / 8
    assert float(transferability(log_p, y, 3, prior.log())) == pytest.approx(total)


def test_renamed_classes_are_told_in_full_and_noise_not_at_all() -> None:
    y = torch.arange(60) % 3
    renamed = (100.0 * torch.nn.functional.one_hot((y + 1) % 3, 5)).log_softmax(-1).expand(2, 60, 5)
    constant = torch.zeros(2, 60, 5).log_softmax(-1)
    assert float(transferability(renamed, y, 3, uniform(2))) == pytest.approx(0, abs=1e-6)
    assert float(transferability(constant, y, 3, uniform(2))) == pytest.approx(-math.log(3))


def test_transferability_needs_labels() -> None:
    log_p = torch.zeros(1, 0, 2)
    with pytest.raises(ValueError, match="at least one labeled target example"):
        transferability(log_p, torch.zeros(0, dtype=torch.int64), 2, uniform(1))


@pytest.mark.parametrize("classes", [2, 10, 100])
def test_counts_and_scores_are_those_of_scikit_learn(classes: int) -> None:
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(classes, (500,), generator=generator)
    log_p = torch.randn(500, classes, generator=generator).log_softmax(-1)
    log_p[torch.arange(0, 500, 2), y[::2]] += 5
    counts = confusion_matrix(log_p, y)
    assert counts.dtype == torch.int64
    predicted, names = log_p.argmax(-1), np.arange(classes)
    assert (counts.numpy() == metrics.confusion_matrix(y, predicted, labels=names)).all()
    found = per_class(counts)
    mine = (found.precision, found.recall, found.f1, found.count)
    theirs = metrics.precision_recall_fscore_support(y, predicted, labels=names, zero_division=np.nan)
    for ours, expected in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(ours, expected, atol=1e-6)


def test_a_class_that_is_never_predicted_has_no_precision_and_one_without_inputs_no_recall() -> None:
    found = per_class(torch.tensor([[2, 0, 0], [3, 0, 0], [0, 0, 0]]))
    assert found.precision.isnan().tolist() == [False, True, True]
    assert found.recall.isnan().tolist() == [False, False, True]
    assert found.f1[:2].tolist() == pytest.approx([4 / 7, 0])
    assert found.f1.isnan().tolist() == [False, False, True]
