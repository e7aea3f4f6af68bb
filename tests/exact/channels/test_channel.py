"""A channel made by subclassing alone goes through solver, certificate and Jeffreys prior like the built-in ones."""

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from refprior.exact import (
    Categorical,
    Channel,
    Coin,
    ExponentialDecay,
    Gaussian,
    Poisson,
    Rows,
    TwoCoins,
    blahut_arimoto,
    certify,
    fisher_information,
    jeffreys_prior,
    known_first_stage,
    reference_prior,
    two_stage_prior,
)
from refprior.exact.certificate import _maxima
from refprior.exact.certificate._maxima import CertificateGrid
from refprior.exact.channels import is_long, to_coordinates
from refprior.exact.geometry import ListedAxes
from refprior.exact.oracle import Objective
from refprior.exact.solve._long import shorter


class Geometric(Channel):
    """The number of failures before the first success, or six and more; w is the probability of failure."""

    bounds = np.array([[0.05, 0.9]])
    outcomes = np.arange(7.0)

    def log_likelihood(self, u: np.ndarray) -> np.ndarray:
        return np.asarray(self.outcomes * np.log(u) + np.log(1 - u) * (self.outcomes < 6))

    def rows(self, u: np.ndarray) -> Rows:
        last = self.outcomes < 6
        first = self.outcomes / u - last / (1 - u)
        second = -self.outcomes / u**2 - last / (1 - u) ** 2
        return Rows.from_log_derivatives(self.log_likelihood(u), first[:, None], second[:, None, None])


class Rowwise(Channel):
    """The table of `Categorical` as a user's own finite channel, on parameters that are not 0, 1, 2."""

    continuous = False
    bounds = np.array([[-1.0, 1.0]])
    outcomes = np.array([0.0, 1.0])
    matrix = np.array([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]])

    def log_likelihood(self, u: np.ndarray) -> np.ndarray:
        return np.asarray(np.log(self.matrix[np.round(u[:, 0]).astype(int) + 1]))

    def rows(self, u: np.ndarray) -> Rows:
        zero = np.zeros((len(u), 1, 2))
        return Rows.from_derivatives(self.log_likelihood(u), zero, zero[:, None])

    @property
    def axes(self) -> ListedAxes:
        return ListedAxes(np.array([-1.0, 0.0, 1.0]))


def test_a_subclass_with_two_methods_is_solved_and_certified() -> None:
    solution = reference_prior(Geometric())
    assert solution.gap <= 1e-12
    same = Channel.from_function(
        lambda w: Geometric().log_likelihood(w[:, None]), bounds=(0.05, 0.9), outcomes=np.arange(7.0)
    )
    assert solution.information == pytest.approx(reference_prior(same).information, abs=1e-12)
    assert jeffreys_prior(Geometric()).information < solution.information
    assert solution.posterior(3).weights.sum() == pytest.approx(1.0)


def test_a_subclass_is_checked_as_closely_as_a_function() -> None:
    """Lengths are measured, and the certificate adds even points, unless the channel knows its lengths."""
    assert Geometric().axes.resolved
    assert len(CertificateGrid.of(Geometric()).points) > 4000
    assert len(CertificateGrid.of(Gaussian(1.0)).points) == _maxima.GRIDS[1][1]


def test_a_finite_subclass_is_solved_as_a_table() -> None:
    ours, table = reference_prior(Rowwise()), reference_prior(Categorical(Rowwise.matrix))
    assert ours.information == table.information
    assert (ours.atoms + 1).tolist() == table.atoms.tolist()
    assert ours.atoms_certified == table.atoms_certified
    with pytest.raises(ValueError, match="no Jeffreys prior"):
        jeffreys_prior(Rowwise())


def test_only_long_experiments_are_summed_in_windows() -> None:
    for channel, long in ((Coin(616), False), (Coin(617), True), (Geometric(), False)):
        assert is_long(channel) is long
        assert (shorter(Objective((channel,))) is not None) is long


NAN, INF = math.nan, math.inf
HEADS = np.arange(3)
PRIOR = reference_prior(Coin(2))
GAUSSIAN = reference_prior(Gaussian(1.0))
RAGGED: Any = [[1], [0.5, 0.5]]
ANY: Any = Coin  # called with what its type forbids


def even(w: Any) -> Any:
    return np.log(np.full((len(w), 3), 1 / 3))


def from_function(
    function: Any = even, bounds: Any = (0, 1), outcomes: Any = HEADS, derivatives: Any = None
) -> Channel:
    return Channel.from_function(function, bounds=bounds, outcomes=outcomes, derivatives=derivatives)


class Unnormalized(Channel):
    bounds, outcomes = np.array([[0.0, 1.0]]), np.array([0.0, 1.0])

    def log_likelihood(self, u: Any) -> Any:
        with np.errstate(divide="ignore"):
            return np.log(np.hstack([1 - u / 2, u]))

    def rows(self, u: Any) -> Rows:
        first, second = np.tile([-0.5, 1.0], (len(u), 1, 1)), np.zeros((len(u), 1, 1, 2))
        return Rows.from_derivatives(self.log_likelihood(u), first, second)


class ManyColumns(Unnormalized):
    def log_likelihood(self, u: Any) -> Any:
        return np.log(np.full((len(u), 3), 1 / 3))


class OneNumber(Unnormalized):
    def log_likelihood(self, u: Any) -> Any:
        return 0.0


class NotANumber(Unnormalized):
    def log_likelihood(self, u: Any) -> Any:
        return np.full((len(u), 2), NAN)


class FlatBounds(Unnormalized):
    bounds = np.array([0.0, 1.0])


class NoOutcomes(Unnormalized):
    outcomes = np.array([])


class WrongInPlaces(Unnormalized):
    """Normalized where a channel is tried first, and not in between."""

    def log_likelihood(self, u: Any) -> Any:
        p = np.hstack([0.5 - u / 4, 0.5 + u / 4])
        return np.log(np.where((u > 0.5) & (u < 0.6), 1.1, 1.0) * p)


CASES: dict[str, tuple[Callable[[], Any], str]] = {
    "no tosses": (lambda: Coin(0), "n must be a whole number of at least 1, got 0"),
    "tosses as text": (lambda: ANY("3"), "whole number of at least 1, got '3'"),
    "tosses as an array": (lambda: ANY(np.array([3, 4])), "whole number of at least 1, got array"),
    "too many tosses": (lambda: Coin(10**30), "tosses needs about 1.2e+20 TB of memory"),
    "too many pairs": (lambda: TwoCoins(10**6), "needs about 64 TB of memory"),
    "NaN amplitude": (lambda: Gaussian(NAN), "the amplitude must be above 0, got nan"),
    "huge sigma": (lambda: Gaussian(1e300, 1e300), "sigma must be at least 1e-100 and at most 1e+100"),
    "amplitude that shows nothing": (lambda: Gaussian(1e-300), "amplitude / sigma = 1e-300; at least 1e-06"),
    "infinite ratio": (lambda: Gaussian(1.0, 1e-320), "sigma must be at least 1e-100"),
    "rate that shows nothing": (lambda: Poisson(1e-20, 10.0), "amplitude of 1e-20 over a dark current of 10"),
    "huge rate": (lambda: Poisson(1e300), "at most 1e5 is supported"),
    "times that are none": (lambda: ExponentialDecay(None), "need two different times, got None"),  # type: ignore[arg-type]
    "one time": (lambda: ExponentialDecay(3.0), "need two different times, got 3.0"),  # type: ignore[arg-type]
    "huge time": (lambda: ExponentialDecay((1.0, 1e300)), "at most 1e+06, got 1e+300"),
    "huge decay noise": (lambda: ExponentialDecay(sigma=1e300), "sigma must be at most 10000"),
    "no nodes": (lambda: ExponentialDecay(nodes=0), "nodes must be a whole number of at least 1"),
    "table of text": (lambda: Categorical([["a", "b"]]), "the table must be numbers in an array, got [['a', 'b']]"),
    "ragged table": (lambda: Categorical(RAGGED), "the table must be numbers in an array"),
    "complex table": (lambda: Categorical([[1j, 1]]), "the table must be numbers in an array"),
    "empty table": (lambda: Categorical([]), "got shape (0,)"),
    "sums of a table": (lambda: Categorical([[0.5, 0.6]]), "row 0 sums to 1.1"),
    "no function": (lambda: from_function(None), "log_likelihood must be a function of the parameters, got None"),
    "function of a number": (
        lambda: from_function(lambda w: math.log(w.tolist())),
        "array of parameters of shape (1,)",
    ),
    "scalar likelihood": (lambda: from_function(lambda w: 0.0), "returned shape (), expected (3, 3): one row per"),
    "scalar likelihood in a class": (lambda: reference_prior(OneNumber()), "returned shape (), expected (5, 2)"),
    "text likelihood": (lambda: from_function(lambda w: "a"), "what log_likelihood returns must be numbers"),
    "ragged bounds": (lambda: from_function(bounds=((0, 1), (0,))), "bounds must be numbers in an array"),
    "NaN bounds": (lambda: from_function(bounds=(0, NAN)), "with low < high and finite, got [0.0, nan]"),
    "no outcomes": (lambda: from_function(outcomes=[]), "outcomes must be an array with one number per outcome"),
    "outcomes as a number": (
        lambda: from_function(outcomes=3),
        "outcomes must be an array with one number per outcome",
    ),
    "NaN outcomes": (lambda: from_function(outcomes=[0, 1, NAN]), "and no NaN"),
    "derivatives that are none": (lambda: from_function(derivatives=3), "derivatives must be a function"),
    "derivatives as a number": (
        lambda: reference_prior(from_function(derivatives=lambda w: 0.0)),
        "derivatives must return first and second derivatives",
    ),
    "no channel": (lambda: reference_prior(None), "channel must be a Channel such as Coin(10), got None"),  # type: ignore[call-overload]
    "a class": (lambda: reference_prior(ANY), "did you mean Coin(…)?"),
    "infinite tolerance": (lambda: reference_prior(Coin(2), tolerance=INF), "tolerance must be above 0, got inf"),
    "rows that do not sum to one": (lambda: reference_prior(Unnormalized()), "at w = [1.0] it sums to 1.5"),
    "rows wrong in places": (lambda: reference_prior(WrongInPlaces()), "it sums to 1.1"),
    "rows in jeffreys": (lambda: jeffreys_prior(Unnormalized()), "at w = [1.0] it sums to 1.5"),
    "rows in blahut_arimoto": (lambda: blahut_arimoto(Unnormalized(), 11), "at w = [1.0] it sums to 1.5"),
    "rows in fisher_information": (lambda: fisher_information(Unnormalized(), [0.5]), "it sums to 1.5"),
    "columns": (
        lambda: reference_prior(ManyColumns()),
        "log_likelihood returned shape (5, 3), expected (5, 2)",
    ),
    "NaN rows": (lambda: reference_prior(NotANumber()), "NotANumber.log_likelihood is NaN or +inf"),
    "flat bounds": (lambda: reference_prior(FlatBounds()), "FlatBounds.bounds must be an array of shape (d, 2)"),
    "a channel without outcomes": (lambda: reference_prior(NoOutcomes()), "NoOutcomes.outcomes must be an array"),
    "shapes of derivatives": (lambda: Rows.from_derivatives(*[np.zeros(3)] * 3), "(K, Z), (K, d, Z) and (K, d, d, Z)"),
    "stages of nothing": (lambda: two_stage_prior(None, m=1, n=1), "channel_of_n must be a function"),  # type: ignore[arg-type]
    "stages that are none": (lambda: two_stage_prior(lambda k: ANY, m=1, n=1), "channel_of_n(2) must be a Channel"),
    "text beta": (lambda: two_stage_prior(Coin, m=1, n=1, beta="x"), "beta = 'x'"),  # type: ignore[arg-type]
    "huge first stage": (lambda: two_stage_prior(Coin, m=10**12, n=1), "take fewer tosses n"),
    "stages of other dimensions": (
        lambda: two_stage_prior(lambda k: Coin(k) if k == 1 else TwoCoins(k), m=1, n=1),
        "both stages must have the same bounds",
    ),
    "certify nothing": (lambda: certify(None), "prior must be a Solution as reference_prior returns it, got None"),  # type: ignore[arg-type]
    "first stage of nothing": (lambda: known_first_stage(None, 0), "prior must be a Solution"),  # type: ignore[arg-type]
    "heads as text": (lambda: known_first_stage(PRIOR, "a"), "the number of heads must be numbers"),
    "NaN heads": (lambda: PRIOR.posterior(NAN), "nan is not an outcome"),
    "first of other dimension": (
        lambda: known_first_stage(PRIOR, 0, first=TwoCoins(1)),
        "expected a first stage of 1 parameters, got 2",
    ),
    "first that is none": (lambda: known_first_stage(PRIOR, 0, first=3), "first must be a Channel"),  # type: ignore[arg-type]
    "NaN noise": (lambda: known_first_stage(GAUSSIAN, NAN), "an outcome must be a finite number, got nan"),
    "two outcomes for one": (lambda: GAUSSIAN.posterior([0, 1]), "an outcome must be a finite number, got [0, 1]"),
    "one outcome for two": (lambda: ExponentialDecay().log_likelihood_of(np.zeros((1, 2)), 1.0), "two finite numbers"),
    "gain out of bounds": (lambda: PRIOR.gain([2.0]), "[2.0] is out of bounds: from [0.0] to [1.0]"),
    "gain of nothing": (lambda: PRIOR.gain([]), "shape (M, 1) with M > 0, got shape (0,)"),
    "gain of text": (lambda: PRIOR.gain("a"), "parameters must be numbers in an array, got 'a'"),
    "odd parameters": (lambda: to_coordinates(TwoCoins(1), [0.1, 0.2, 0.3]), "shape (M, 2) with M > 0, got shape (3,)"),
    "density of nothing": (lambda: jeffreys_prior(Coin(2)).density([]), "with M > 0"),
    "jeffreys of nothing": (lambda: jeffreys_prior(None), "channel must be a Channel"),  # type: ignore[arg-type]
    "axes": (lambda: PRIOR.plot(3), "ax must be the axes of a matplotlib figure, got 3"),  # type: ignore[arg-type]
    "empty grid": (lambda: blahut_arimoto(Coin(2), []), "the grid must have shape (G, 1) with G > 0"),
    "text grid": (lambda: blahut_arimoto(Coin(2), "a"), "the grid must be numbers in an array, got 'a'"),
    "huge grid": (lambda: blahut_arimoto(Coin(2), 10**12), "a grid of 1000000000000 parameters needs about 144 TB"),
}


@pytest.mark.parametrize(("call", "message"), [pytest.param(*case, id=name) for name, case in CASES.items()])
def test_one_line_says_what_was_wrong(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as raised:
        call()
    assert "\n" not in str(raised.value)
