"""Compute reference priors of one and two stages, and certify them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import overload

import numpy as np
from numpy.typing import ArrayLike

from refprior._checks import number, whole_number
from refprior._process import check_memory
from refprior.exact._arrays import Array, Mask
from refprior.exact._nuisance import NuisancePrior, nuisance_prior
from refprior.exact._solution import SearchInterrupted, Solution
from refprior.exact.certificate import Certificate, prove
from refprior.exact.channels import Channel, check_channel, check_instance, share_coordinates
from refprior.exact.oracle import Objective, is_share, require_concave, two_stage_signs
from refprior.exact.solve import check_cost, fisher_grid, recording, solve

# Default tolerances, in nats.
NUISANCE_TOLERANCE = 1e-9  # a prior with nuisances takes tens of conditional searches to this tolerance
TWO_STAGE_TOLERANCE = 1e-12  # as of one stage
COMPARED_TOLERANCE = 1e-9  # comparisons print six decimals


@overload
def reference_prior(channel: Channel, *, tolerance: float | None = None) -> Solution: ...


@overload
def reference_prior(
    channel: Channel,
    *,
    interest: int | Sequence[int],
    nuisance: int | Sequence[int] | None = None,
    tolerance: float | None = None,
) -> NuisancePrior: ...


def reference_prior(
    channel: Channel,
    *,
    interest: int | Sequence[int] | None = None,
    nuisance: int | Sequence[int] | None = None,
    tolerance: float | None = None,
) -> Solution | NuisancePrior:
    """Compute the reference prior of a channel.

    The reference prior maximizes the mutual information between the parameter and the data,
    π*_n = argmax_π I_π(w; zⁿ) (eq:ref_pin, eq:ref_defn). For finite data it consists of finitely many atoms. The
    certificate bounds its distance from the optimum over all w. If the gap stays above the tolerance, the result is
    "unfinished" and a warning says why.

    Parameters
    ----------
    channel : Channel
        The model p(z | w), for example `Coin(10)` or `Channel.from_function(...)`.
    interest : int or sequence of int, optional
        The parameter of interest, counted from 0. The others are nuisance parameters, integrated out with the
        Berger–Bernardo prior for ordered groups.
    nuisance : int or sequence of int, optional
        The nuisance parameters. By default, all parameters but `interest`.
    tolerance : float, optional
        Largest acceptable gap to the optimum, in nats. Default: 1e-12; 1e-9 with nuisance parameters; 1e-3 for
        channels whose gain is sampled; for independent parts, the sum over the parts.

    Returns
    -------
    Solution or NuisancePrior
        Atoms, weights, information, and the gap to the optimum with its evidence. A `NuisancePrior` if `interest` is
        given.

    Raises
    ------
    SearchInterrupted
        After Ctrl-C. Its attribute `best` is the best prior so far.

    Examples
    --------
    >>> from refprior.exact import Coin, reference_prior
    >>> prior = reference_prior(Coin(10))
    >>> len(prior.atoms), round(prior.information, 6)
    (5, 1.232457)
    """
    if tolerance is not None:
        number("tolerance", tolerance, above=0)
    if interest is not None:
        return nuisance_prior(channel, interest, nuisance, tolerance or NUISANCE_TOLERANCE)
    if nuisance is not None:
        raise ValueError("nuisance is given without interest: also pass interest, the parameter of interest")
    tolerance = tolerance or check_channel(channel).default_tolerance
    if channel.factors:
        return _with_warning(_product(channel, _priors_of_factors(channel, tolerance), tolerance))
    objective = Objective((channel,))
    with _interruptible(objective, tolerance):
        solution = Solution.from_coordinates(objective, *solve(objective, tolerance), tolerance)
    return _with_warning(solution)


def prior_to_compare(channel: Channel, tolerance: float | None) -> Solution:
    """Compute a reference prior for comparisons and scans, by default to 1e-9 or what sampled gains allow."""
    if tolerance is None:
        tolerance = max(COMPARED_TOLERANCE, check_channel(channel).default_tolerance)
    return reference_prior(channel, tolerance=tolerance)


@contextmanager
def _interruptible(objective: Objective, tolerance: float) -> Iterator[None]:
    """Turn Ctrl-C into SearchInterrupted if the search inside has found a prior."""
    with recording() as best:
        try:
            yield
        except KeyboardInterrupt as error:
            bounds = objective.channel.bounds
            if best.u is None or best.weights is None or best.u.shape[1] != len(bounds):
                raise
            unknown = Certificate(information=best.information, worst=np.full(len(bounds), math.nan))
            order = np.lexsort(best.u.T[::-1])
            prior = Solution(
                objective=objective,
                coordinates=best.u[order].clip(*bounds.T),
                weights=best.weights[order],
                certificate=unknown,
                tolerance=tolerance,
                stopped=True,
            )
            raise SearchInterrupted(prior) from error


def _priors_of_factors(channel: Channel, tolerance: float) -> tuple[Solution, ...]:
    """Solve the independent parts of a product, identical ones once."""
    solved: dict[int, Solution] = {}
    share = tolerance / sum(part.default_tolerance for part in channel.factors)  # of each part's default tolerance
    for part in channel.factors:
        if id(part) not in solved:
            with warnings.catch_warnings(action="ignore", category=UserWarning):  # the product warns
                solved[id(part)] = reference_prior(part, tolerance=share * part.default_tolerance)
    return tuple(solved[id(part)] for part in channel.factors)


def two_stage_prior(
    channel_of_n: Callable[[int], Channel], *, m: int, n: int, beta: float = 1.0, tolerance: float | None = None
) -> Solution:
    """Compute the reference prior of an experiment in two stages.

    m samples come first, then n. The prior maximizes I_π(w; z^{m+n}) − β I_π(w; z^m) (eq:ref_pinm_avg, with the β of
    eq:pib). The predictive information bottleneck (eq:pib) has I(w; z^n) in place of the first term, and a map from z^m
    to w in place of π.

    Parameters
    ----------
    channel_of_n : callable
        Returns the channel of k samples, for example `Coin`.
    m : int
        Number of samples of the first stage. With 0, the result is the reference prior of n samples.
    n : int
        Number of samples of the second stage.
    beta : float, default: 1.0
        Weight of the first stage, from 0 to 1.
    tolerance : float, default: 1e-12
        Largest acceptable gap to the optimum, in nats.

    Returns
    -------
    Solution
        The prior; its `information` is the value of the objective.

    Raises
    ------
    SearchInterrupted
        After Ctrl-C. Its attribute `best` is the best prior so far.

    Examples
    --------
    >>> from refprior.exact import Coin, two_stage_prior
    >>> prior = two_stage_prior(Coin, m=1, n=1)
    >>> prior.weights.round(6).tolist(), round(prior.information, 6)  # log(5/4)
    ([0.3, 0.4, 0.3], 0.223144)
    """
    signs = two_stage_signs(beta)
    n = whole_number("the number of samples n of the second stage", n, at_least=1)
    m = whole_number("the number of samples m of the first stage", m, at_least=0)
    if not callable(channel_of_n):
        raise ValueError(f"channel_of_n must be a function from a number of samples to a Channel, got {channel_of_n!r}")
    if m == 0 or beta == 0:
        return reference_prior(channel_of_n(m + n), tolerance=tolerance)
    tolerance = TWO_STAGE_TOLERANCE if tolerance is None else number("tolerance", tolerance, above=0)
    channels = tuple(check_channel(channel_of_n(k), f"channel_of_n({k})") for k in (m + n, m))
    channels = (channels[0], share_coordinates(channels[1], channels[0]))
    objective = Objective(channels, signs)
    boxes = [channel.bounds for channel in channels]
    if boxes[0].shape != boxes[1].shape or not np.allclose(boxes[0], boxes[1]):
        raise ValueError("both stages must have the same bounds: channel_of_n returned channels with different ones")
    check_cost(objective)
    grid, cheaper = fisher_grid(objective.channel, 1.0).points, objective.with_fewer_outcomes()
    require_concave(cheaper, grid)
    with _interruptible(objective, tolerance):
        u, weights = solve(objective, tolerance)
        require_concave(cheaper, np.vstack([grid, u]), np.concatenate([np.zeros(len(grid)), weights]))
        solution = Solution.from_coordinates(objective, u, weights, tolerance)
    return _with_warning(solution)


def certify(prior: Solution, *, proof: bool = False, tolerance: float = 1e-12) -> Solution:
    """Compute the certificate of a prior anew, or prove its gap by ball arithmetic.

    A proof shows that the capacity lies within `tolerance` of the prior's information. It is available for coins in one
    or two stages, Poisson counts and tables, and needs the extra `proof`.

    Parameters
    ----------
    prior : Solution
        A prior, for example the `best` of a `SearchInterrupted`.
    proof : bool, default: False
        Whether to prove the gap by ball arithmetic.
    tolerance : float, default: 1e-12
        Largest gap that the proof may leave, in nats. Not used without `proof`.

    Returns
    -------
    Solution
        The same prior with its new certificate.

    Examples
    --------
    >>> from refprior.exact import Coin, certify, reference_prior
    >>> prior = reference_prior(Coin(2))
    >>> certify(prior).gap == prior.gap
    True
    """
    check_instance("prior", prior, Solution, "reference_prior")
    if prior.parts:
        parts = tuple(certify(part, proof=proof, tolerance=tolerance / len(prior.parts)) for part in prior.parts)
        return _product(prior.channel, parts, prior.tolerance)
    solution = Solution.from_coordinates(prior.objective, prior.coordinates, prior.weights, prior.tolerance)
    if not proof:
        return solution
    number("tolerance", tolerance, above=0)
    further = solution.objective.channels[1:]
    first = (further[0], -solution.objective.signs[1]) if further else None
    enclosed = prove(solution.channel, solution.atoms, solution.weights, tolerance=tolerance, first=first)
    gap = enclosed.upper - enclosed.lower
    return replace(solution, proof=enclosed, tolerance=max(gap, solution.tolerance))


def _with_warning(solution: Solution) -> Solution:
    """Warn if a solution is unfinished, and return it."""
    if solution.shortfall is not None:
        warnings.warn(f"unfinished: {solution.shortfall}", stacklevel=3)
    return solution


@dataclass(frozen=True, eq=False, kw_only=True)
class FirstStage:
    """Prior for a second stage when the outcome of the first is known."""

    atoms: Array  # (K,) or (K, d)
    weights: Array  # (K,) π_{n|m}, zero where excluded
    posterior: Array  # (K,) after the first stage, with which the second starts
    excluded: Mask  # (K,) atoms that the first stage rules out
    information: float  # that the second stage gives about w, under the posterior, in nats
    loss: float  # of it, against the reference prior of the second stage

    def __str__(self) -> str:
        lost = f"{int(self.excluded.sum())} of {len(self.excluded)} atoms excluded"
        return f"{self.information:.4f} nats after the first stage, {self.loss:.4f} lost, {lost}"


def known_first_stage(
    prior: Solution, z_m: ArrayLike, *, beta: float = 1.0, first: Channel | None = None, inward: float = 0.0
) -> FirstStage:
    """Compute the prior of the second stage when the outcome of the first is known.

    π_{n|m}(w) ∝ π*_n(w) p(z^m | w)^(−β) (eq:ref_pinm for β = 1, eq:ref_pinm_beta). Atoms with p(z^m | w) = 0 have no
    finite weight by this formula and no weight in any posterior, so they are excluded, and their information is lost:
    `loss` says how much. With `inward` they move away from the bounds and are kept. At β = 1 the posterior after the
    first stage is π*_n on the atoms that are left.

    Parameters
    ----------
    prior : Solution
        The reference prior π*_n of the second stage.
    z_m : array_like
        The outcome of the first stage.
    beta : float, default: 1.0
        From 0 (remember the first stage) to 1 (forget it).
    first : Channel, optional
        The channel of the first stage. By default, the prior's channel.
    inward : float, default: 0.0
        Share of the way to the middle of the box by which excluded atoms move, for example 1e-6.

    Returns
    -------
    FirstStage
        `atoms` (K,) or (K, d); their `weights` (K,), zero where `excluded` (K,) is true; `posterior` (K,), the weights
        after the first stage; the `information` that the second stage gives under the posterior; and its `loss` against
        the reference prior, in nats.

    Examples
    --------
    >>> from refprior.exact import Coin, known_first_stage, reference_prior
    >>> stage = known_first_stage(reference_prior(Coin(2)), 0, first=Coin(1))
    >>> stage.weights.round(6).tolist()  # ∝ (15/34) / 1, (4/34) / (1/2)
    [0.652174, 0.347826, 0.0]
    >>> stage.posterior.round(6).tolist()  # ∝ 15/34, 4/34
    [0.789474, 0.210526, 0.0]
    >>> stage.excluded.tolist()
    [False, False, True]
    >>> print(known_first_stage(reference_prior(Coin(10)), 2, first=Coin(3)))
    0.6131 nats after the first stage, 0.6193 lost, 2 of 5 atoms excluded
    >>> print(known_first_stage(reference_prior(Coin(10)), 2, first=Coin(3), inward=1e-6))
    1.2324 nats after the first stage, 0.0000 lost, 0 of 5 atoms excluded
    """
    check_instance("prior", prior, Solution, "reference_prior")
    if not is_share(beta):
        raise ValueError(f"beta must lie between 0 (remember the first stage) and 1 (forget it), got {beta!r}")
    if not 0 <= number("inward", inward) < 1:
        raise ValueError(f"inward must be a share of the way to the middle, at least 0 and below 1, got {inward!r}")
    channel = prior.channel if first is None else check_channel(first, "first")
    if channel.dimension != prior.channel.dimension:
        raise ValueError(f"expected a first stage of {prior.channel.dimension} parameters, got {channel.dimension}")
    w = prior.channel.parameter(prior.coordinates)
    excluded = np.isneginf(channel.log_likelihood_of(channel.coordinate(w), z_m))
    if inward > 0:
        middle = prior.channel.parameter(prior.channel.bounds.mean(axis=1)[None])
        w = np.where(excluded[:, None], w + inward * (middle - w), w)
    log_likelihood = channel.log_likelihood_of(channel.coordinate(w), z_m)
    excluded = np.isneginf(log_likelihood)
    if np.all(excluded):
        raise ValueError(f"z_m = {z_m!r} is impossible under every atom of this prior: use a prior of larger n")
    finite = np.where(excluded, 0.0, log_likelihood)
    with np.errstate(divide="ignore"):
        base = np.where(excluded, -np.inf, np.log(prior.weights))
    posterior = _normalized(base + (1 - beta) * finite)
    u = prior.coordinates if inward == 0 else prior.channel.coordinate(w)
    left, shares = u[~excluded], posterior[~excluded]
    information = float(shares @ prior.objective.gain_under(left, left, shares))
    return FirstStage(
        atoms=w[:, 0] if channel.dimension == 1 else w,
        weights=_normalized(base - beta * finite),
        posterior=posterior,
        excluded=excluded,
        information=information,
        loss=prior.information - information,
    )


def _normalized(log: Array) -> Array:
    """Exponentiate and normalize: (K,) -> (K,)."""
    weights = np.exp(log - log.max())
    return np.asarray(weights / weights.sum())


def _product(channel: Channel, parts: tuple[Solution, ...], tolerance: float) -> Solution:
    """Multiply the priors of independent parts; their information and gaps add up."""
    sizes = [len(part.weights) for part in parts]
    check_memory(
        16.0 * math.prod(sizes) * (1 + channel.dimension), f"a prior of {math.prod(sizes):,} atoms", "take fewer parts"
    )
    numbers = np.stack(np.meshgrid(*map(np.arange, sizes), indexing="ij"), axis=-1).reshape(-1, len(parts))
    weights = np.prod([part.weights[k] for part, k in zip(parts, numbers.T, strict=True)], axis=0)
    judged = [part.certificate for part in parts]
    certificate = Certificate(
        information=sum(part.information for part in parts),
        gap=sum(part.gap for part in parts),
        error=sum(part.error for part in judged),
        proved=all(part.proved for part in judged),
        searched=any(part.searched for part in judged),
        spread=max(part.spread for part in judged),
        worst=np.concatenate([part.worst for part in judged]),
        atoms_certified=all(part.atoms_certified for part in judged),
        sampled=any(part.sampled for part in judged),
    )
    return Solution(
        objective=Objective((channel,)),
        coordinates=np.hstack([part.coordinates[k] for part, k in zip(parts, numbers.T, strict=True)]),
        weights=weights / weights.sum(),
        certificate=certificate,
        tolerance=tolerance,
        parts=parts,
    )
