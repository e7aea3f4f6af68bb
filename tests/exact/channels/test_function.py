"""The user's own model: given derivatives, differences and torch agree, and mistakes are named."""

import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
from scipy.special import gammaln, xlog1py, xlogy

from refprior.exact import Channel, Coin, TwoCoins, reference_prior

HEADS = np.arange(7.0)
VALUES = np.cos(HEADS)
LOG_CHOOSE = gammaln(7) - gammaln(HEADS + 1) - gammaln(7 - HEADS)


def coin(w: np.ndarray) -> np.ndarray:
    """Six tosses, log p(z | w): (K,) -> (K, 7)."""
    return np.asarray(LOG_CHOOSE + xlogy(HEADS, w[:, None]) + xlog1py(6 - HEADS, -w[:, None]))


def test_differences_give_the_built_in_prior() -> None:
    ours = reference_prior(Channel.from_function(coin, bounds=(0.0, 1.0), outcomes=HEADS))
    built_in = reference_prior(Coin(6))
    assert ours.gap < 1e-12
    assert ours.information == pytest.approx(built_in.information, abs=1e-12)
    assert ours.atoms == pytest.approx(built_in.atoms, abs=1e-6)


def test_given_derivatives_and_differences_agree() -> None:
    def derivatives(w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        inside = np.clip(w, 1e-9, 1 - 1e-9)[:, None]
        first = HEADS / inside - (6 - HEADS) / (1 - inside)
        second = -HEADS / inside**2 - (6 - HEADS) / (1 - inside) ** 2
        return first[:, None, :], second[:, None, None, :]

    u = np.linspace(0.02, 0.98, 9)[:, None]
    given = Channel.from_function(coin, bounds=(0.0, 1.0), outcomes=HEADS, derivatives=derivatives).rows(u)
    differences = Channel.from_function(coin, bounds=(0.0, 1.0), outcomes=HEADS).rows(u)
    assert differences.first == pytest.approx(given.first, abs=1e-8)
    assert differences.second(VALUES) == pytest.approx(given.second(VALUES), abs=1e-4)


def test_torch_functions_are_differentiated_by_torch() -> None:
    torch = pytest.importorskip("torch")
    log_choose, heads = torch.as_tensor(LOG_CHOOSE), torch.as_tensor(HEADS)

    def log_likelihood(w):  # type: ignore[no-untyped-def]
        p = w.reshape(-1, 1)
        return log_choose + torch.xlogy(heads, p) + torch.xlogy(6 - heads, 1 - p)

    channel = Channel.from_function(log_likelihood, bounds=(0.0, 1.0), outcomes=HEADS)
    u = np.linspace(0.05, 0.95, 5)[:, None]
    differences = Channel.from_function(coin, bounds=(0.0, 1.0), outcomes=HEADS).rows(u)
    assert channel.rows(u).first == pytest.approx(differences.first, abs=1e-8)
    assert channel.rows(u).second(VALUES) == pytest.approx(differences.second(VALUES), abs=1e-4)


def test_two_parameters_of_ones_own() -> None:
    built_in = TwoCoins(2)

    def log_likelihood(w: np.ndarray) -> np.ndarray:
        return built_in.log_likelihood(built_in.coordinate(w))

    ours = reference_prior(
        Channel.from_function(log_likelihood, bounds=[(0, 1), (0, 1)], outcomes=built_in.outcomes), tolerance=1e-11
    )
    assert ours.information == pytest.approx(2 * np.log(17 / 8), abs=1e-11)
    assert ours.gap < 1e-11


@pytest.mark.parametrize("bounds", [(1.0, 1.0), (1.0, 0.0), (0.0, np.inf), (0.0, np.nan), [(0, 1)] * 31])
def test_empty_or_endless_bounds_are_rejected(bounds: object) -> None:
    with pytest.raises(ValueError, match=r"bounds|up to 30 parameters"):
        Channel.from_function(coin, bounds=bounds, outcomes=HEADS)  # type: ignore[arg-type]


def test_likelihoods_that_do_not_sum_to_one_are_rejected() -> None:
    with pytest.raises(ValueError, match="must sum to one"):
        Channel.from_function(lambda w: coin(w) - 0.1, bounds=(0.0, 1.0), outcomes=HEADS)


def test_nan_is_rejected_with_the_place() -> None:
    with pytest.raises(ValueError, match=r"NaN or \+inf at w = \[0.0\], outcome 3"):
        Channel.from_function(
            lambda w: np.where((w[:, None] < 0.2) & (HEADS == 3), np.nan, coin(w)), bounds=(0.0, 1.0), outcomes=HEADS
        )


def test_wrong_shapes_are_rejected() -> None:
    with pytest.raises(ValueError, match=r"expected \(3, 7\)"):
        Channel.from_function(lambda w: coin(w)[:, :6], bounds=(0.0, 1.0), outcomes=HEADS)


def test_a_hopeless_model_ends_with_a_warning_and_an_honest_gap() -> None:
    """A likelihood with a cliff between any two grid points: no Newton step can find the best side of it."""

    def cliff(w: np.ndarray) -> np.ndarray:
        p = np.where(w < 1 / np.pi, 0.2 + 0.3 * np.sin(40 * w) ** 2, 0.9 - 0.3 * w)[:, None]
        return np.asarray(np.log(np.concatenate([p, 1 - p], axis=1)))

    channel = Channel.from_function(cliff, bounds=(0.0, 1.0), outcomes=[0.0, 1.0])
    with pytest.warns(UserWarning, match="above the tolerance"):
        solution = reference_prior(channel, tolerance=1e-15)
    w = np.linspace(0, 1, 4001)
    assert solution.gain(w).max() <= solution.information + solution.gap + 1e-6


def test_importing_exact_imports_neither_torch_nor_matplotlib() -> None:
    code = "import sys, refprior.exact; sys.exit('torch' in sys.modules or 'matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def two_outcomes(p: Callable[[np.ndarray], np.ndarray]) -> Channel:
    return Channel.from_function(
        lambda w: np.log(np.stack([p(w), 1 - p(w)], axis=1)), bounds=(0.0, 1.0), outcomes=[0.0, 1.0]
    )


def test_sums_are_checked_everywhere_not_only_at_the_bounds() -> None:
    """Normalized at 0, ½ and 1, nowhere else."""

    def unnormalized(w: np.ndarray) -> np.ndarray:
        p = np.maximum(np.stack([w, 1 - w], axis=1), 1e-300)
        return np.asarray(np.log(p) + 0.5 * np.sin(2 * np.pi * w)[:, None] ** 2)

    with pytest.raises(ValueError, match=r"must sum to one over the outcomes: at w = .* it sums to 1."):
        reference_prior(Channel.from_function(unnormalized, bounds=(0.0, 1.0), outcomes=[0.0, 1.0]))


@pytest.mark.filterwarnings("ignore:unfinished")
@pytest.mark.parametrize(
    "p",
    [
        lambda w: 0.5 + 0.45 * np.exp(-(((w - 0.337123) / 1e-3) ** 2)) + 0.04 * w,
        lambda w: np.where(np.abs(w - 0.337123) < 2e-4, 0.99, 0.02 + 0.01 * w),
        lambda w: 0.5 + 0.4 * np.sin(3000 * w) * w,
    ],
    ids=["a narrow bump", "a narrow plateau", "many waves"],
)
def test_narrow_structure_is_seen(p: Callable[[np.ndarray], np.ndarray]) -> None:
    solution = reference_prior(two_outcomes(p))
    assert solution.channel.axes.resolved
    excess = solution.gain(np.linspace(0, 1, 100_001)).max() - solution.information
    assert excess <= 1.2 * solution.gap + 1e-12
    assert solution.information > 0.1  # what the structure tells was found


def test_structure_too_fine_to_follow_is_never_certified() -> None:
    channel = two_outcomes(lambda w: 0.5 + 0.4 * np.sin(3e5 * w) * w)
    with pytest.warns(UserWarning, match="too fine to resolve"):
        solution = reference_prior(channel)
    assert not solution.atoms_certified
    assert solution.gap == pytest.approx(np.log(2) - solution.information)


def torch_functions() -> dict[str, Callable[..., object]]:
    torch = pytest.importorskip("torch")
    heads, log_choose = torch.as_tensor(HEADS), torch.as_tensor(LOG_CHOOSE)

    def plain(w):  # type: ignore[no-untyped-def]
        p = w.unsqueeze(1)  # numpy arrays have no such method
        return log_choose + torch.xlogy(heads, p) + torch.xlogy(6 - heads, 1 - p)

    def distribution(w):  # type: ignore[no-untyped-def]
        return torch.distributions.Binomial(6, w[:, None]).log_prob(heads)

    return {"tensor methods, NaN slopes at the bounds": plain, "looks at its values": distribution}


@pytest.mark.parametrize("which", [0, 1])
def test_torch_functions_of_every_kind(which: int) -> None:
    function = list(torch_functions().values())[which]
    solution = reference_prior(Channel.from_function(function, bounds=(0.0, 1.0), outcomes=HEADS), tolerance=1e-10)
    assert solution.information == pytest.approx(reference_prior(Coin(6)).information, abs=1e-7 if which else 1e-12)


def test_the_first_error_of_a_function_is_the_one_shown() -> None:
    def broken(w: object) -> np.ndarray:
        raise TypeError(f"no {type(w).__module__} today")

    with pytest.raises(ValueError, match=r"shape \(1,\) \(TypeError: no numpy today\)"):
        Channel.from_function(broken, bounds=(0.0, 1.0), outcomes=HEADS)


def test_derivatives_that_are_infinite_at_a_bound_are_replaced() -> None:
    def derivatives(w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        w = w[:, None]
        first, second = HEADS / w - (6 - HEADS) / (1 - w), -HEADS / w**2 - (6 - HEADS) / (1 - w) ** 2
        return first[:, None, :], second[:, None, None, :]

    channel = Channel.from_function(coin, bounds=(0.0, 1.0), outcomes=HEADS, derivatives=derivatives)
    assert np.all(np.isfinite(channel.rows(channel.bounds.T).first))
    assert reference_prior(channel).information == pytest.approx(reference_prior(Coin(6)).information, abs=1e-12)


def test_derivatives_of_a_wrong_shape_are_named() -> None:
    channel = Channel.from_function(coin, bounds=(0.0, 1.0), outcomes=HEADS, derivatives=lambda w: (coin(w), coin(w)))
    with pytest.raises(ValueError, match=r"shapes \(2, 7\) and \(2, 7\), expected \(2, 1, 7\) and \(2, 1, 1, 7\)"):
        channel.rows(channel.bounds.T)
