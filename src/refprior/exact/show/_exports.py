"""A prior for other programs: code for Stan, PyMC and NumPyro, and draws for ArviZ.

The prior becomes a finite mixture: Stan sums over the atoms, the other two have a categorical variable. The likelihood
is included for coins, Gaussian noise and Poisson counts; for other models a TODO marks its place.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from refprior._checks import whole_number
from refprior.exact._arrays import Array
from refprior.exact.channels import Channel, Coin, Gaussian, Poisson

if TYPE_CHECKING:
    from refprior.exact._solution import Solution

LANGUAGES = ("stan", "pymc", "numpyro")


def as_code(prior: Solution, language: str) -> str:
    """Write the model with this prior in a language."""
    if language not in LANGUAGES:
        raise ValueError(f"language must be one of {', '.join(LANGUAGES)}, got {language!r}")
    return {"stan": _stan, "pymc": _pymc, "numpyro": _numpyro}[language](prior)


def _heading(prior: Solution, comment: str) -> str:
    return f"{comment} reference prior of {len(prior.weights)} atoms; {str(prior).splitlines()[0]}"


def _likelihood(channel: Channel) -> dict[str, str] | None:
    """Return the data and the likelihood of z given w in each language; None for other models."""
    if isinstance(channel, Coin):
        return {
            "data": f"int<lower=0, upper={channel.n}> z;",
            "stan": f"binomial_lpmf(z | {channel.n}, w[k])",
            "pymc": f'pm.Binomial("z", n={channel.n}, p=w, observed=z)',
            "numpyro": f'numpyro.sample("z", dist.Binomial({channel.n}, probs=w), obs=z)',
        }
    if isinstance(channel, Gaussian):
        return {
            "data": "real z;",
            "stan": f"normal_lpdf(z | w[k], {channel.sigma!r})",
            "pymc": f'pm.Normal("z", mu=w, sigma={channel.sigma!r}, observed=z)',
            "numpyro": f'numpyro.sample("z", dist.Normal(w, {channel.sigma!r}), obs=z)',
        }
    if isinstance(channel, Poisson):
        rate = f"{channel.samples} * ({channel.dark!r} + w{{}})"
        return {
            "data": "int<lower=0> z;",
            "stan": f"poisson_lpmf(z | {rate.format('[k]')})",
            "pymc": f'pm.Poisson("z", mu={rate.format("")}, observed=z)',
            "numpyro": f'numpyro.sample("z", dist.Poisson({rate.format("")}), obs=z)',
        }
    return None


def _numbers(values: Array) -> str:
    return "[" + ", ".join(repr(float(x)) for x in values) + "]"


def _table(values: Array) -> str:
    """Write nested lists in the syntax that Python and Stan share."""
    return _numbers(values) if np.ndim(values) == 1 else "[" + ", ".join(map(_numbers, values)) + "]"


def _stan(prior: Solution) -> str:
    known, count, dimension = _likelihood(prior.channel), len(prior.weights), prior.channel.dimension
    table = _table(prior.atoms)
    kind = f"vector[{count}] w = {table}';" if dimension == 1 else f"matrix[{count}, {dimension}] w = {table};"
    drawn = "real drawn = w[number];" if dimension == 1 else f"row_vector[{dimension}] drawn = w[number];"
    term = known["stan"] if known else "0 /* TODO: that of your data */"
    data = known["data"] if known else "// TODO: your data"
    return f"""{_heading(prior, "//")}
data {{
  {data}
}}
transformed data {{
  int K = {count};
  {kind}
  vector[{count}] log_weight = log({_numbers(prior.weights)}');
  vector[{count}] log_joint;
  for (k in 1:K) {{
    // the log-likelihood at w[k]:
    log_joint[k] = log_weight[k] + {term};
  }}
}}
model {{
  target += log_sum_exp(log_joint);
}}
generated quantities {{
  vector[{count}] posterior = softmax(log_joint);
  int number = categorical_rng(posterior);
  {drawn}
}}
"""


def _pymc(prior: Solution) -> str:
    known = _likelihood(prior.channel)
    line = known["pymc"] if known else "...  # TODO: the likelihood of your data z, given w"
    return f"""{_heading(prior, "#")}
import numpy as np
import pymc as pm
import pytensor.tensor as pt

atoms = np.array({_table(prior.atoms)})
weights = np.array({_numbers(prior.weights)})


def model(z):
    with pm.Model() as built:
        k = pm.Categorical("k", p=weights)
        w = pm.Deterministic("w", pt.as_tensor(atoms)[k])
        {line}
    return built
"""


def _numpyro(prior: Solution) -> str:
    known = _likelihood(prior.channel)
    line = known["numpyro"] if known else "...  # TODO: the likelihood of your data z, given w"
    return f"""{_heading(prior, "#")}
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from refprior._files import Json

atoms = jnp.array({_table(prior.atoms)})
weights = jnp.array({_numbers(prior.weights)})


def model(z=None):
    k = numpyro.sample("k", dist.Categorical(probs=weights), infer={{"enumerate": "parallel"}})
    w = numpyro.deterministic("w", atoms[k])
    {line}
"""


def as_arviz(prior: Solution, z: ArrayLike | None, draws: int, rng: np.random.Generator) -> Any:
    """Create InferenceData with draws of w and of the data from the prior and, given z, from the posterior."""
    try:
        with warnings.catch_warnings(action="ignore", category=FutureWarning):  # about its next version
            import arviz
    except ImportError as error:
        raise ValueError("to_arviz needs ArviZ: install refprior[arviz]") from error
    whole_number("draws", draws, at_least=1)
    p, outcomes = np.exp(prior.channel.log_likelihood(prior.coordinates)), prior.channel.outcomes
    weights = {"prior": prior.weights}
    groups: dict[str, Any] = {}
    if z is not None:
        weights["posterior"] = prior.posterior(z).weights
        groups["observed_data"] = {"z": np.asarray(z, dtype=float)}
    for name, mass in weights.items():
        atom = rng.choice(len(mass), draws, p=mass)
        data = np.empty((draws, *np.shape(outcomes)[1:]))  # one outcome for each drawn atom
        for k in np.unique(atom):
            own = atom == k
            data[own] = outcomes[rng.choice(p.shape[1], int(own.sum()), p=p[k] / p[k].sum())]
        groups[name] = {"w": prior.atoms[atom][None]}
        groups[f"{name}_predictive"] = {"z": data[None]}
    return arviz.from_dict(**groups)
