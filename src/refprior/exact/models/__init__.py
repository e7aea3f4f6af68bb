"""Ready-made models, each a function that returns a `Channel`.

    import refprior as rp
    channel = rp.exact.models.rasch([-1.0, 0.0, 1.0])  # three test items
    prior = rp.exact.reference_prior(channel)

Most models are a formula on top of `Channel.from_function`, `from_scipy` or `from_mean`. `channel.repeat(n)` is the
channel of n independent samples.

>>> from refprior.exact import models, reference_prior
>>> prior = reference_prior(models.rasch([-1.0, 0.0, 1.0]))
>>> prior.evidence, len(prior.atoms)
('certified', 3)
"""

from refprior.exact.models._counts import geometric, hardy_weinberg, multinomial, negative_binomial
from refprior.exact.models._curves import exponentials, michaelis_menten
from refprior.exact.models._lifetimes import exponential_lifetime, inspected_lifetime, weibull_lifetime
from refprior.exact.models._normal import normal
from refprior.exact.models._responses import dose_response, logistic_regression, rasch, two_parameter_logistic

__all__ = [
    "dose_response",
    "exponential_lifetime",
    "exponentials",
    "geometric",
    "hardy_weinberg",
    "inspected_lifetime",
    "logistic_regression",
    "michaelis_menten",
    "multinomial",
    "negative_binomial",
    "normal",
    "rasch",
    "two_parameter_logistic",
    "weibull_lifetime",
]
