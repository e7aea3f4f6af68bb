"""The bound by enumeration, its direction, gradients by finite differences, and priors below the capacity."""

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from refprior.exact import Coin, reference_prior
from refprior.information import mutual_information, uniform
from refprior.variational import Implicit, LogitNormal, bound, discretize, fit, log_marginal

TOSSES = 4
PRIOR = torch.tensor([0.05, 0.4, 0.9], dtype=torch.float64)  # three equally probable parameters


def coin(w: Tensor, n: int = TOSSES) -> Tensor:
    """log p of all n + 1 numbers of heads, written plainly: (K,) -> (K, n + 1)."""
    columns = [math.log(math.comb(n, z)) + z * w.log() + (n - z) * (1 - w).log() for z in range(n + 1)]
    return torch.stack(columns, -1)


def information(w: Tensor, n: int = TOSSES) -> Tensor:
    """I(w; z) of equally probable parameters: (K,) -> ()."""
    log_p = coin(w, n)[:, None, None]
    return mutual_information(log_p, uniform(len(w), log_p))[0]


def expected_bound(samples: int, alpha: float) -> float:
    """E over w, z and all S-tuples of other draws, in plain sums."""
    p = coin(PRIOR).exp().tolist()
    total = 0.0
    for others in itertools.product(range(len(p)), repeat=samples):
        for own in p:
            for z, share in enumerate(own):
                seen = [p[s][z] for s in others]
                if alpha == -math.inf:
                    marginal = max(seen)
                else:
                    marginal = (sum(x ** (1 - alpha) for x in seen) / samples) ** (1 / (1 - alpha))
                total += share * math.log(share / marginal)
    return total / float(len(p) ** (samples + 1))


def over_the_prior(alpha: float) -> float:
    """The bound when the marginal's draws are the whole prior."""
    log_p = coin(PRIOR)
    return float(bound(log_p, log_p, alpha).mean())


@pytest.mark.parametrize("alpha", [-math.inf, -3.0, -0.5, 0.0])
@pytest.mark.parametrize("samples", [1, 2, 4])
def test_the_bound_is_the_plain_sum_over_all_draws(alpha: float, samples: int) -> None:
    log_p = coin(PRIOR)
    every = [bound(log_p, log_p[list(others)], alpha).mean() for others in itertools.product(range(3), repeat=samples)]
    assert float(torch.stack(every).mean()) == pytest.approx(expected_bound(samples, alpha), abs=1e-12)


def test_over_the_whole_prior_it_is_a_lower_bound_and_tight_at_alpha_0() -> None:
    exact = float(information(PRIOR))
    values = [over_the_prior(alpha) for alpha in (-math.inf, -100.0, -3.0, -0.5, 0.0)]
    assert values == sorted(values)
    assert values[-2] < exact - 1e-3
    assert values[-1] == pytest.approx(exact, abs=1e-12)


def test_the_maximum_is_never_above_0_and_a_point_attains_it() -> None:
    assert over_the_prior(-math.inf) < -1e-3
    point = coin(torch.full((3,), 0.4, dtype=torch.float64))
    assert bound(point, point).abs().max() == 0


@pytest.mark.parametrize("alpha", [-math.inf, -0.5, 0.0])
def test_from_few_draws_it_starts_above_the_information_and_falls(alpha: float) -> None:
    exact = float(information(PRIOR))
    values = [expected_bound(samples, alpha) for samples in (1, 2, 3, 4, 5)]
    assert values[0] > exact
    assert all(more < less for less, more in itertools.pairwise(values))
    if alpha == 0:
        assert values[-1] > exact  # Jensen: an upper bound for every S
    else:
        assert over_the_prior(alpha) < exact
    if alpha == -math.inf:
        assert values[-1] < exact  # on the other side already


def test_alpha_above_0_is_rejected() -> None:
    for alpha in (0.5, math.nan):
        with pytest.raises(ValueError, match="alpha must be at most 0"):
            log_marginal(coin(PRIOR), alpha)


def test_outcomes_that_no_draw_allows_are_finite_in_value_and_gradient() -> None:
    log_p = torch.tensor([[0.0, -math.inf], [-math.inf, 0.0]], dtype=torch.float64, requires_grad=True)
    for alpha in (-math.inf, -1.0, 0.0):
        value = bound(log_p, log_p, alpha, coupled=True).sum()
        (gradient,) = torch.autograd.grad(value, log_p)
        assert value.isfinite()
        assert gradient.isfinite().all()


NOISE = torch.randn(12, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def differences(function: Callable[[], Tensor], family: LogitNormal) -> list[float]:
    """Central differences in mean and log-scale."""
    found = []
    for parameter in (family.mean, family.log_scale):
        values = []
        for step in (1e-6, -1e-6):
            with torch.no_grad():
                parameter.add_(step)
                values.append(float(function()))
                parameter.sub_(step)
        found.append((values[0] - values[1]) / 2e-6)
    return found


def gradients(value: Tensor, family: LogitNormal) -> list[float]:
    return [float(g) for g in torch.autograd.grad(value, (family.mean, family.log_scale))]


@pytest.mark.parametrize("alpha", [-math.inf, -2.0, 0.0])
def test_gradients_agree_with_finite_differences(alpha: float) -> None:
    family = LogitNormal(0.0, 1.0)
    fixed = coin(family(NOISE[8:])).detach()

    def coupled() -> Tensor:
        log_p = coin(family(NOISE))
        return bound(log_p[:8], log_p[8:], alpha, coupled=True).mean()

    def decoupled() -> Tensor:
        return bound(coin(family(NOISE[:8])), fixed, alpha).mean()

    assert gradients(coupled(), family) == pytest.approx(differences(coupled, family), abs=1e-7)
    log_p = coin(family(NOISE))
    own = gradients(bound(log_p[:8], log_p[8:], alpha).mean(), family)
    assert own == pytest.approx(differences(decoupled, family), abs=1e-7)
    assert own != pytest.approx(differences(coupled, family), abs=1e-3)


def test_at_the_exact_marginal_the_decoupled_gradient_is_that_of_the_information() -> None:
    family = LogitNormal(0.0, 1.0)
    log_p = coin(family(NOISE))
    own = gradients(bound(log_p, log_p, alpha=0).mean(), family)
    assert own == pytest.approx(differences(lambda: information(family(NOISE)), family), abs=1e-7)


@pytest.mark.parametrize("make", [LogitNormal, Implicit])
def test_families_stay_inside_and_discretize_converges(make: type[LogitNormal] | type[Implicit]) -> None:
    family = make(-2.0, 3.0)
    extreme = family(torch.tensor([-1e6, 1e6], dtype=torch.float64))
    assert ((extreme > -2) & (extreme < 3)).all()
    unit = make(0.0, 1.0)
    few, many = (float(information(discretize(unit, count))) for count in (1000, 4000))
    assert few == pytest.approx(many, abs=1e-3)
    with pytest.raises(ValueError, match="high must be above 3"):
        make(3.0, 3.0)


def test_discretize_is_the_quantile_function() -> None:
    w = discretize(LogitNormal(0.0, 1.0), 999).numpy()
    np.testing.assert_allclose(np.median(w), 0.5, atol=1e-12)
    assert np.all(np.diff(w) > 0)
    inside = np.mean((w > 1 / (1 + math.e)) & (w < math.e / (1 + math.e)))  # one standard deviation of the logit
    assert inside == pytest.approx(0.6827, abs=2e-3)


def test_training_raises_the_information_and_never_above_the_capacity() -> None:
    capacity = reference_prior(Coin(TOSSES)).information
    for make, least in ((LogitNormal, 0.15), (Implicit, 0.1)):
        family = make(0.0, 1.0)
        before = float(information(discretize(family)))
        history = fit(coin, family, alpha=0.0, samples=32, batch=32, steps=150, learning_rate=0.03)
        after = float(information(discretize(family)))
        assert before + 0.2 < after <= capacity
        assert after > capacity - least
        assert history.shape == (150,)


def test_with_the_gradient_through_the_maximum_the_prior_shrinks_and_without_it_does_not() -> None:
    found = {}
    for coupled in (True, False):
        family = LogitNormal(0.0, 1.0)
        fit(coin, family, samples=10, batch=32, steps=200, learning_rate=0.03, coupled=coupled)
        found[coupled] = float(information(discretize(family)))
    assert found[True] < 0.05
    assert found[False] > 0.5


def test_the_same_seed_gives_the_same_prior_and_the_global_generator_is_left_alone() -> None:
    state = torch.get_rng_state()
    first, again = (Implicit(0.0, 1.0, seed=3) for _ in range(2))
    for family in (first, again):
        fit(coin, family, steps=5, seed=4)
    assert torch.equal(discretize(first, 50), discretize(again, 50))
    assert torch.equal(torch.get_rng_state(), state)
    other = Implicit(0.0, 1.0, seed=3)
    fit(coin, other, steps=5, seed=5)
    assert not torch.equal(discretize(other, 50), discretize(first, 50))


def test_settings_out_of_range_are_rejected() -> None:
    family = LogitNormal(0.0, 1.0)
    for wrong in ({"samples": 0}, {"batch": 0}, {"steps": 0}):
        with pytest.raises(ValueError, match="whole number of at least 1"):
            fit(coin, family, **wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="learning_rate must be above 0"):
        fit(coin, family, learning_rate=0.0)
