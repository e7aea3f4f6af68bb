"""A prior for other programs: a finite mixture as text for Stan, PyMC and NumPyro, draws for ArviZ, a table as HTML.

A discrete parameter is summed out in Stan, and a categorical variable in the other two. The likelihood is written out
for coins, Gaussian noise and Poisson counts; for other models a line says where it goes.
"""

from __future__ import annotations

import warnings
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from refprior._checks import whole_number
from refprior.exact.channels import Channel, Coin, Gaussian, Poisson

if TYPE_CHECKING:
    from refprior.exact._solution import Solution

LANGUAGES = ("stan", "pymc", "numpyro")


def as_code(prior: Solution, language: str) -> str:
    """The model with this prior, in the language asked for."""
    if language not in LANGUAGES:
        raise ValueError(f"language must be one of {', '.join(LANGUAGES)}, got {language!r}")
    return {"stan": _stan, "pymc": _pymc, "numpyro": _numpyro}[language](prior)


def _heading(prior: Solution, comment: str) -> str:
    return f"{comment} reference prior of {len(prior.weights)} atoms; {str(prior).splitlines()[0]}"


def _likelihood(channel: Channel) -> dict[str, str] | None:
    """The likelihood of z given w in each language, with what the data are; None if only the user knows it."""
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


def _numbers(values: Any) -> str:
    return "[" + ", ".join(repr(float(x)) for x in values) + "]"


def _table(values: Any) -> str:
    """Nested lists, as Python and Stan both write them."""
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

atoms = jnp.array({_table(prior.atoms)})
weights = jnp.array({_numbers(prior.weights)})


def model(z=None):
    k = numpyro.sample("k", dist.Categorical(probs=weights), infer={{"enumerate": "parallel"}})
    w = numpyro.deterministic("w", atoms[k])
    {line}
"""


def as_arviz(prior: Solution, z: ArrayLike | None, draws: int, rng: np.random.Generator) -> Any:
    """InferenceData with draws of w and of the data, before and, given z, after them."""
    try:
        with warnings.catch_warnings(action="ignore", category=FutureWarning):  # of its next version, once a day
            import arviz
    except ImportError as error:
        raise ValueError("this needs ArviZ: install refprior[arviz]") from error
    whole_number("draws", draws, at_least=1)
    groups: dict[str, Any] = {}
    for name, weights in (
        ("prior", prior.weights),
        *([("posterior", prior.posterior(z).weights)] if z is not None else []),
    ):
        number = rng.choice(len(weights), draws, p=weights)
        groups[name] = {"w": prior.atoms[number][None]}
        groups[f"{name}_predictive"] = {"z": _drawn_data(prior, number, rng)[None]}
    if z is not None:
        groups["observed_data"] = {"z": np.asarray(z, dtype=float)}
    return arviz.from_dict(**groups)


def _drawn_data(prior: Solution, number: Any, rng: np.random.Generator) -> Any:
    """One outcome for each drawn atom: (N,) -> (N,) or (N, t)."""
    p = np.exp(prior.channel.log_likelihood(prior.coordinates))
    outcomes = np.empty((len(number), *np.shape(prior.channel.outcomes)[1:]))
    for k in np.unique(number):
        own = number == k
        outcomes[own] = prior.channel.outcomes[rng.choice(p.shape[1], int(own.sum()), p=p[k] / p[k].sum())]
    return outcomes


def as_html(prior: Solution) -> str:
    """The headline, and the atoms with bars for their weights: for notebooks."""
    head, *rest = str(prior).splitlines()
    word, _, words = head.partition(": ")
    found = f"<p><b>{escape(word)}</b>: {escape(words)}</p>"
    table = [line for line in rest if line[:1] in " -0123456789." and not line.startswith("...")]
    if not prior.decimals or len(table) != len(prior.weights):
        return found + "".join(f"<pre>{escape(line)}</pre>" for line in ["\n".join(rest)] if line)
    columns = [f"w<sub>{i + 1}</sub>" for i in range(prior.channel.dimension)]
    columns = ["w"] if len(columns) == 1 else columns
    rows = []
    for line, weight in zip(table, prior.weights, strict=True):
        bar = f'<div style="background:#1f5fa8;height:0.7em;width:{8 * weight / prior.weights.max():.2f}em"></div>'
        rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in [*line.split(), bar]) + "</tr>")
    heads = "".join(f"<th>{name}</th>" for name in [*columns, "weight", ""])
    return f"{found}<table><tr>{heads}</tr>{''.join(rows)}</table>"
