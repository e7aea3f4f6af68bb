"""Waiting for successes: counts without an end."""

from __future__ import annotations

from dataclasses import replace

from numpy.typing import ArrayLike
from scipy import stats

from refprior._checks import whole_number
from refprior.exact.channels import Channel, from_family


def negative_binomial(successes: int, *, bounds: ArrayLike = (0.1, 1.0)) -> Channel:
    """Failures before the r-th success, p(z | w) = C(z + r − 1, z) w^r (1 − w)^z; w is the probability of a success.

    n samples tell as much as one that waits for n r successes.

    >>> from refprior.exact import models, reference_prior
    >>> prior = reference_prior(models.negative_binomial(3, bounds=(0.2, 1)))
    >>> prior.evidence, prior.atoms.round(4).tolist(), round(prior.information, 6)
    ('certified', [0.2, 0.5665, 1.0], 0.73935)
    """
    r = whole_number("successes", successes, at_least=1)
    channel = from_family(lambda w: stats.nbinom(r, w), bounds, None)
    return replace(channel, samples=lambda n: negative_binomial(n * r, bounds=bounds))


def geometric(*, bounds: ArrayLike = (0.1, 1.0)) -> Channel:
    """Failures before the first success, p(z | w) = w (1 − w)^z.

    >>> from refprior.exact import models, reference_prior
    >>> round(reference_prior(models.geometric(bounds=(0.1, 0.9))).information, 6)
    0.453268
    """
    return negative_binomial(1, bounds=bounds)
