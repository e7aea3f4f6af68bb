"""Information and gap of a prior from samples of the noise, with three standard errors in the gap."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from refprior.exact._arrays import Array
from refprior.exact.channels import SampledMean
from refprior.exact.oracle import Mixture, fresh_noise, sampled_maxima

JUDGED_STARTS = 120  # of the search for the largest gain
ERRORS = 3.0  # standard errors of the information and of the largest gain that the gap holds


class Estimate(NamedTuple):
    """Information and gap of a prior, from samples of the outcomes."""

    information: float
    gap: float  # the error included
    error: float  # three standard errors, of the information and of the largest gain
    worst: Array  # (d,) coordinates of the largest gain that was found
    evaluations: int


def estimate(channel: SampledMean, u: Array, weights: Array) -> Estimate:
    """Estimate information and gap with their standard errors from noise that the search has not seen."""
    means, (first, *others) = channel.at(u), fresh_noise(channel)
    found, _ = sampled_maxima(
        channel, Mixture.of(means, weights, first), u, seed=1000 + channel.seed, starts=JUDGED_STARTS
    )
    places = np.vstack([found, u])
    at_places = channel.at(places)
    gains = np.stack([Mixture.of(means, weights, noise).gain(at_places) for noise in others])
    gain, gain_error = _mean_and_error(gains)
    information, information_error = _mean_and_error(gains[:, -len(u) :] @ weights)
    top = int(np.argmax(gain + ERRORS * gain_error))
    error = ERRORS * float(gain_error[top] + information_error) + channel.tail
    gap = max(0.0, float(gain[top] - information)) + error
    return Estimate(float(information), gap, error, places[top], len(places) * len(others))


def _mean_and_error(values: Array) -> tuple[Array, Array]:
    """The mean over scrambles and its standard error: (N, …) -> (…), (…)."""
    return values.mean(axis=0), values.std(axis=0, ddof=1) / math.sqrt(len(values))
