"""Binary responses with logistic probabilities: regression, doses, test items.

Given w, the answers y_i at inputs x_i are independent, with log-odds η_i = x_i · w + offset_i. The sum s = Σ x_i y_i is
sufficient:  log p(s | w) = s · w − A(w) + log h(s),  A = Σ_i n_i log(1 + e^η_i).  Answers with the same s are one
outcome.

Shapes: P inputs, d weights, S sums, K points.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, gammaln

from refprior._checks import whole_number
from refprior._process import check_memory
from refprior.exact._arrays import Array, as_numbers, grid_of
from refprior.exact.channels import Channel, FunctionChannel

DIGITS = 9  # decimals to which two sums s must agree to be one outcome
ANSWER_BYTES = 100.0  # to list one combination of answers


def logistic_regression(inputs: ArrayLike, *, bounds: ArrayLike, trials: int = 1, offset: ArrayLike = 0.0) -> Channel:
    """Create logistic regression at given inputs.

    The log-odds of a yes at input x are x · w + offset. An outcome is s = Σ x_i y_i, the sum of the inputs that were
    answered with yes.

    Parameters
    ----------
    inputs : array_like of shape (P, d)
        The inputs.
    bounds : sequence of d pairs of float
        The lowest and highest value of each weight.
    trials : int, default: 1
        Number of answers at each input.
    offset : float or array_like of shape (P,), default: 0.0
        A known part of the log-odds.

    Returns
    -------
    Channel
        The model of all answers.

    Examples
    --------
    >>> import numpy as np
    >>> from refprior.exact import models, reference_prior
    >>> channel = models.logistic_regression([[1, -1], [1, 0], [1, 1]], bounds=[(-2, 2), (-2, 2)])
    >>> prior = reference_prior(channel, tolerance=1e-9)
    >>> prior.evidence, len(prior.atoms), round(prior.information, 6)
    ('certified', 4, 0.780224)
    """
    x = np.atleast_2d(as_numbers("inputs", inputs))
    box = np.atleast_2d(as_numbers("bounds", bounds))
    if x.ndim != 2 or not np.all(np.isfinite(x)) or x.shape[1] != len(box):
        raise ValueError(f"inputs must be finite, one column for each of {len(box)} weights, got shape {x.shape}")
    n = whole_number("trials", trials, at_least=1)
    shift = np.broadcast_to(as_numbers("offset", offset), (len(x),))
    sums, log_count = _sums(x, shift, n)

    def log_likelihood(w: Array) -> Array:
        odds = w @ x.T + shift
        return np.asarray(w @ sums.T + log_count - n * np.logaddexp(0, odds).sum(axis=1, keepdims=True))

    def derivatives(w: Array) -> tuple[Array, Array]:
        """Return s − A', and −A'' for every outcome."""
        yes = expit(w @ x.T + shift)
        first = sums.T - n * (yes @ x)[:, :, None]
        second = -n * np.einsum("kp,pi,pj->kij", yes * (1 - yes), x, x)
        return first, np.repeat(second[..., None], len(sums), axis=-1)

    channel = FunctionChannel.build(log_likelihood, box, sums, derivatives)
    return replace(channel, samples=lambda k: logistic_regression(x, bounds=box, trials=k * n, offset=shift))


def _sums(x: Array, offset: Array, n: int) -> tuple[Array, Array]:
    """Return all values of Σ x_i y_i, and the log of Σ C(n, y) e^(offset · y) over the answers: (S, d), (S,)."""
    many = float(n + 1) ** len(x)
    check_memory(ANSWER_BYTES * many, f"{n} answers at each of {len(x)} inputs", "take fewer inputs or fewer trials")
    answers = grid_of([np.arange(n + 1.0)] * len(x))
    ways = gammaln(n + 1) - gammaln(answers + 1) - gammaln(n - answers + 1)
    log_count = ways.sum(axis=1) + answers @ offset
    every = answers @ x
    _, index, place = np.unique(every.round(DIGITS) + 0.0, axis=0, return_index=True, return_inverse=True)
    place = place.ravel()
    top = np.full(len(index), -np.inf)
    np.maximum.at(top, place, log_count)
    return every[index], top + np.log(np.bincount(place, np.exp(log_count - top[place])))


def dose_response(doses: ArrayLike, *, subjects: int = 1, bounds: ArrayLike = ((-2.0, 2.0), (0.5, 4.0))) -> Channel:
    """Create a logistic dose–response curve.

    The log-odds of a response are slope · (dose − midpoint); w = (midpoint, slope). If doses are logs of amounts, the
    midpoint is log ED50.

    Parameters
    ----------
    doses : array_like of shape (P,)
        The doses.
    subjects : int, default: 1
        Number of subjects at each dose.
    bounds : two pairs of float, default: ((-2.0, 2.0), (0.5, 4.0))
        The lowest and highest midpoint and slope.

    Returns
    -------
    Channel
        The model of all subjects.

    Examples
    --------
    >>> from refprior.exact import models, reference_prior
    >>> prior = reference_prior(models.dose_response([-1.0, 0.0, 1.0], subjects=3), tolerance=1e-9)
    >>> prior.evidence, len(prior.atoms), round(prior.information, 6)
    ('certified', 10, 1.468176)
    """
    x = as_numbers("doses", doses)
    if x.ndim != 1 or not len(x) or not np.all(np.isfinite(x)):
        raise ValueError(f"doses must be a list of finite numbers, got {np.asarray(doses).tolist()}")
    inputs = np.column_stack([np.ones(len(x)), x])
    n = whole_number("subjects", subjects, at_least=1)
    sums, log_count = _sums(inputs, np.zeros(len(x)), n)

    def log_likelihood(w: Array) -> Array:
        weights = np.column_stack([-w[:, 1] * w[:, 0], w[:, 1]])
        odds = weights @ inputs.T
        return np.asarray(weights @ sums.T + log_count - n * np.logaddexp(0, odds).sum(axis=1, keepdims=True))

    channel = FunctionChannel.build(log_likelihood, bounds, sums, None)
    return replace(channel, samples=lambda k: dose_response(x, subjects=k * n, bounds=bounds))


def rasch(difficulties: ArrayLike, *, bounds: ArrayLike = (-4.0, 4.0)) -> Channel:
    """Create the Rasch model of test items.

    The log-odds of a right answer are w − difficulty, where w is the ability. An outcome is the number of right
    answers.

    Parameters
    ----------
    difficulties : array_like of shape (P,)
        The difficulty of each item.
    bounds : pair of float, default: (-4.0, 4.0)
        The lowest and highest ability.

    Returns
    -------
    Channel
        The model of one person who answers all items.

    Examples
    --------
    >>> from refprior.exact import models, reference_prior
    >>> item = models.rasch([0.0], bounds=(-2, 2))  # one item is a coin with bias between 0.119 and 0.881
    >>> prior = reference_prior(item)
    >>> prior.atoms.tolist(), round(prior.information, 6)  # log 2 − h(1 / (1 + e²))
    ([-2.0, 2.0], 0.327813)
    """
    places = np.atleast_1d(as_numbers("difficulties", difficulties))
    return two_parameter_logistic(places, np.ones(len(places)), bounds=bounds)


def two_parameter_logistic(
    difficulties: ArrayLike, discriminations: ArrayLike, *, bounds: ArrayLike = (-4.0, 4.0)
) -> Channel:
    """Create the two-parameter logistic model (2PL) of test items.

    The log-odds of a right answer are a_i (w − b_i), with discriminations a, difficulties b and ability w. An outcome
    is Σ a_i y_i.

    Parameters
    ----------
    difficulties : array_like of shape (P,)
        The difficulty of each item.
    discriminations : array_like of shape (P,)
        The discrimination of each item, above 0.
    bounds : pair of float, default: (-4.0, 4.0)
        The lowest and highest ability.

    Returns
    -------
    Channel
        The model of one person who answers all items.

    Examples
    --------
    >>> from refprior.exact import models, reference_prior
    >>> prior = reference_prior(models.two_parameter_logistic([-1.0, 0.0, 1.0], [0.8, 1.0, 1.5]))
    >>> prior.evidence, prior.atoms.round(3).tolist()
    ('certified', [-4.0, 0.046, 4.0])
    """
    b, a = (
        np.atleast_1d(as_numbers(name, v))
        for name, v in (("difficulties", difficulties), ("discriminations", discriminations))
    )
    if a.shape != b.shape or a.ndim != 1 or not np.all(np.isfinite(b)) or not np.all((a > 0) & np.isfinite(a)):
        raise ValueError(f"need as many difficulties as discriminations above 0, got {b.tolist()} and {a.tolist()}")
    return logistic_regression(a[:, None], bounds=np.atleast_2d(as_numbers("bounds", bounds)), offset=-a * b)
