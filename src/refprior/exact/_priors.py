"""The verbs: reference_prior, two_stage_prior, known_first_stage, certify."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from refprior.exact import _large as large
from refprior.exact._channels import Array, Categorical, Channel
from refprior.exact._models import Coin, positive_integer
from refprior.exact._objective import Objective, require_concave, two_stage_signs
from refprior.exact._search import fisher_grid
from refprior.exact._solution import Solution, judged
from refprior.exact._solver import solve


def reference_prior(channel: Channel, tol: float = 1e-12) -> Solution:
    """π*_n = argmax_π I_π(w; zⁿ), eq:ref_pin, to a gap of `tol` nats over all w, with its certificate."""
    if not (np.isfinite(tol) and tol > 0):
        raise ValueError(f"tol must be a finite number above 0, got {tol!r}")
    if isinstance(channel, Coin) and channel.n >= large.LARGE_FROM:
        u, weights = large.solve_coin(channel, tol)
        return _warned(judged(Objective((channel,)), u, weights), tol)
    objective = Objective((channel,))
    return _warned(judged(objective, *solve(objective, tol)), tol)


def two_stage_prior(
    channel_of_n: Callable[[int], Channel], m: int, n: int, beta: float = 1.0, tol: float = 1e-12
) -> Solution:
    """argmax_π I_π(w; z^{m+n}) − β I_π(w; z^m), eq:ref_pinm_avg; with m = 0 the one-stage prior.

    `channel_of_n(k)` is the channel of k samples, for example `Coin`.
    """
    signs = two_stage_signs(beta)
    n = positive_integer(n, "the number of samples n of the second stage")
    if m == 0 and not isinstance(m, bool):
        return reference_prior(channel_of_n(n), tol)
    m = positive_integer(m, "the number of samples m of the first stage (0 for a single stage)")
    if beta == 0:
        return reference_prior(channel_of_n(m + n), tol)
    objective = Objective((channel_of_n(m + n), channel_of_n(m)), signs)
    if not np.allclose(objective.channels[0].bounds, objective.channels[1].bounds):
        raise ValueError("both stages must share the parameter's range; channel_of_n gave two different boxes")
    grid = _grid(objective.channel)
    require_concave(objective, grid)
    u, weights = solve(objective, tol)
    require_concave(objective, np.vstack([grid, u]), np.concatenate([np.zeros(len(grid)), weights]))
    return _warned(judged(objective, u, weights), tol)


def _grid(channel: Channel) -> Array:
    """Parameters on which to try concavity: a standard deviation apart, or all rows of a table."""
    if isinstance(channel, Categorical):
        return np.arange(channel.bounds[0, 1] + 1)[:, None]
    return fisher_grid(channel, 1.0)[0]


def certify(prior: Solution, proof: bool = False) -> Solution:
    """The same prior, judged afresh; with `proof`, by ball arithmetic (coins; needs the extra `proof`)."""
    solution = judged(prior.objective, prior.coordinates, prior.weights)
    if not proof:
        return solution
    from refprior.exact._proof import prove_coin

    return replace(solution, proof=prove_coin(solution))


def _warned(solution: Solution, tol: float) -> Solution:
    if not solution.objective.resolved:
        warnings.warn(
            "the likelihood changes on scales too fine to follow, so where the gain is largest is not known: the "
            f"gap of {solution.gap:.2g} nats is that to log of the number of outcomes; narrow the bounds",
            stacklevel=3,
        )
    elif not solution.gap <= tol:
        warnings.warn(
            f"the gap is {solution.gap:.2g} nats, above the tolerance {tol:.2g}: the prior is the best "
            "found, the gap still bounds what is missing",
            stacklevel=3,
        )
    return solution


@dataclass(frozen=True, eq=False)
class FirstStage:
    """Priors for a second stage when the outcome of the first is known."""

    atoms: Array
    weights: Array  # π_{n|m}, zero where excluded
    posterior: Array  # after the first stage, what the second starts from
    excluded: NDArray[np.bool_]  # atoms that the first stage rules out


def known_first_stage(prior: Solution, z_m: ArrayLike, beta: float = 1.0, first: Channel | None = None) -> FirstStage:
    """π_{n|m}(w) ∝ π*_n(w) p(z^m | w)^(−β), eq:ref_pinm (β = 1) and eq:ref_pinm_beta.

    `z_m` is an outcome of the channel `first` (by default the prior's own). At β = 1 the posterior after the
    first stage is π*_n again. Atoms with p(z^m | w) = 0 have no finite weight by the formula and none in any
    posterior: they are excluded and the others renormalised.
    """
    if not (np.isfinite(beta) and 0 <= beta <= 1):
        raise ValueError(f"beta must lie between 0 (remember the first stage) and 1 (forget it), got {beta!r}")
    channel = prior.channel if first is None else first
    log_likelihood = channel.column(channel.coordinate(prior.channel.parameter(prior.coordinates)), z_m)
    excluded = np.isneginf(log_likelihood)
    if np.all(excluded):
        raise ValueError(f"z_m = {z_m!r} is impossible under every atom of this prior: use a prior of larger n")
    finite = np.where(excluded, 0.0, log_likelihood)
    with np.errstate(divide="ignore"):
        base = np.where(excluded, -np.inf, np.log(prior.weights))
    return FirstStage(prior.atoms, _normalised(base - beta * finite), _normalised(base + (1 - beta) * finite), excluded)


def _normalised(log: Array) -> Array:
    weights = np.exp(log - log.max())
    return np.asarray(weights / weights.sum())
