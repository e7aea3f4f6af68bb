"""Curves observed with Gaussian noise."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from refprior._checks import whole_number
from refprior.exact._arrays import Array, as_numbers
from refprior.exact.channels import Channel, NoisyMean


def michaelis_menten(
    concentrations: ArrayLike, *, sigma: ArrayLike, bounds: ArrayLike = ((0.0, 1.0), (0.2, 5.0))
) -> Channel:
    """Create the Michaelis–Menten model of an enzyme.

    The reaction rate V c / (K + c) is observed at concentrations c with Gaussian noise; w = (V, K).

    Parameters
    ----------
    concentrations : array_like of shape (P,)
        Concentrations, at least 0.
    sigma : float or array_like of shape (P,)
        Standard deviation of the noise.
    bounds : two pairs of float, default: ((0.0, 1.0), (0.2, 5.0))
        The lowest and highest V and K, with K above 0.

    Returns
    -------
    Channel
        The model of one observation at each concentration.

    Examples
    --------
    >>> from refprior.exact import models, reference_prior
    >>> prior = reference_prior(models.michaelis_menten([0.5, 5.0], sigma=0.2), tolerance=1e-6)
    >>> prior.evidence, len(prior.atoms), round(prior.information, 6)
    ('certified', 5, 0.956796)
    """
    c = _places("concentrations", concentrations)
    box = as_numbers("bounds", bounds)
    if box.shape != (2, 2) or not box[1, 0] > 0:
        raise ValueError(f"bounds must be pairs for V and K, with K above 0, got {np.asarray(bounds).tolist()}")
    return Channel.from_mean(lambda w: w[:, :1] * c / (w[:, 1:] + c), sigma=sigma, bounds=box)


def exponentials(times: ArrayLike, *, terms: int = 2, sigma: ArrayLike) -> Channel:
    """Create the sloppy model: the mean of several exponential decays.

    The mean Σ_i w_i^(t/t₁) / d, with w_i = e^(−rate_i t₁) the share of term i that is left at the earliest time t₁, is
    observed at given times with Gaussian noise. Most
    combinations of its parameters can hardly be distinguished, so that the prior lies on edges and corners of the model
    (Mattingly et al., 2018). Terms may be exchanged: atoms have w₁ ≤ w₂ ≤ …

    Parameters
    ----------
    times : array_like of shape (P,)
        Times of the observations, above 0.
    terms : int, default: 2
        The number d of decays.
    sigma : float or array_like of shape (P,)
        Standard deviation of the noise.

    Returns
    -------
    Channel
        The model of one observation at each time.

    Examples
    --------
    >>> from refprior.exact import ExponentialDecay, models, reference_prior
    >>> ours = reference_prior(models.exponentials([1.0, 2.0], sigma=0.3), tolerance=1e-10)
    >>> theirs = reference_prior(ExponentialDecay((1.0, 2.0), sigma=0.3), tolerance=1e-10)
    >>> ours.evidence, abs(ours.information - theirs.information) < 1e-10
    ('proved', True)
    """
    t = _places("times", times)
    d = whole_number("terms", terms, at_least=1)
    if not t.min() > 0:
        raise ValueError(f"times must be above 0, got {t.tolist()}")
    power = t / t.min()  # in the coordinate w^(earliest time), so that no slope is infinite
    steep = power * (power - 1) / d  # the largest second derivative, at 1; a power between 1 and 2 is steeper at 0
    curvature = None if np.any((power > 1) & (power < 2)) else steep[:, None, None] * np.eye(d)

    def mean(w: Array) -> Array:
        return np.asarray(np.mean(w[:, :, None] ** power, axis=1))

    def slopes(w: Array) -> Array:
        return np.asarray(np.swapaxes(power * w[:, :, None] ** (power - 1) / d, 1, 2))

    return NoisyMean.build(mean, sigma, [(0.0, 1.0)] * d, curvature, exchangeable=True, slopes=slopes)


def _places(name: str, values: ArrayLike) -> Array:
    places = as_numbers(name, values)
    if places.ndim != 1 or not len(places) or not np.all(np.isfinite(places)) or np.any(places < 0):
        raise ValueError(f"{name} must be a list of finite numbers of at least 0, got {np.asarray(values).tolist()}")
    return places
