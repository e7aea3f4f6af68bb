"""Curves seen with Gaussian noise at given places."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from refprior._checks import whole_number
from refprior.exact._arrays import Array, as_numbers
from refprior.exact.channels import Channel, NoisyMean


def michaelis_menten(
    concentrations: ArrayLike, *, sigma: ArrayLike, bounds: ArrayLike = ((0.0, 1.0), (0.2, 5.0))
) -> Channel:
    """The speed V c / (K + c) of an enzyme at concentrations c, with noise; w = (V, K).

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
    """The mean of d decays at given times, Σ_i w_i^t / d with w_i = e^(−rate_i) in [0, 1]: the sloppy model.

    Most of its parameters can hardly be told apart, so that the prior lies on edges and corners of the model (Mattingly
    et al., 2018). Terms may be exchanged: atoms are given with w₁ ≤ w₂ ≤ …

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
    steep = (
        power * (power - 1) / d
    )  # the largest second derivative, at 1, unless a power between 1 and 2 is steeper at 0
    curvature = None if np.any((power > 1) & (power < 2)) else steep[:, None, None] * np.eye(d)

    def mean(w: Array) -> Array:
        return np.asarray(np.mean(w[:, :, None] ** power, axis=1))

    return NoisyMean.build(mean, sigma, [(0.0, 1.0)] * d, curvature, exchangeable=True)


def _places(name: str, values: ArrayLike) -> Array:
    places = as_numbers(name, values)
    if places.ndim != 1 or not len(places) or not np.all(np.isfinite(places)) or np.any(places < 0):
        raise ValueError(f"{name} must be a list of finite numbers of at least 0, got {np.asarray(values).tolist()}")
    return places
