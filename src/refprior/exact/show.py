"""Text, plots and exports of results; knows no question and computes no prior.

matplotlib is imported inside the functions, so that computing a prior does not load it. Figures are objects without
pyplot: drawing changes no backend and opens no window.
"""

from __future__ import annotations

import math
import warnings
from html import escape
from itertools import cycle
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from refprior._checks import whole_number
from refprior._style import ATOM, SERIES, SOFT, VERMILION, styled
from refprior.exact._arrays import Array
from refprior.exact.channels import Channel, Coin, Gaussian, Poisson

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from refprior.exact._posterior import Posterior
    from refprior.exact._solution import Solution
    from refprior.exact.ask import CapacityCurve, DesignSearch, PriorComparison, PriorScan

NEAR_ROUNDING = 1e-13  # smaller gaps are printed as a power of ten: their digits depend on the machine
MOST_DECIMALS = 12  # that are printed
SHOWN = 24  # atoms of a printed table; the middle of a longer one is left out
BAR = 8  # em: width of the bar of the largest weight in HTML


def gap_in_words(gap: float) -> str:
    """Format a gap, or, near rounding, the power of ten above it: "gap 3.1e-05", "gap below 1e-14"."""
    if 0 < gap < NEAR_ROUNDING:
        return f"gap below {10.0 ** math.ceil(math.log10(gap)):.0e}"
    return f"gap {gap:.1e}"


def decimals_within(error: float) -> int:
    """Return the number of decimals that an error leaves, at most 12: 3e-5 leaves 4, 2 leaves none."""
    if error <= 0:
        return MOST_DECIMALS
    return min(max(0, math.floor(-math.log10(error))), MOST_DECIMALS) if math.isfinite(error) else 0


def atom_lines(atoms: Array, weights: Array, digits: int) -> list[str]:
    """Format a heading and a line for each atom: (K,) or (K, d), (K,)."""
    columns = np.atleast_2d(atoms.T).T
    rows = [
        [f"{round(x, digits) + 0.0:.{digits}f}" for x in (*atom, weight)]
        for atom, weight in zip(columns, weights, strict=True)
    ]
    width = max(len(cell) for row in rows for cell in row)
    lines = ["  ".join(f"{cell:>{width}}" for cell in row) for row in rows]
    if len(lines) > SHOWN:
        half = SHOWN // 2
        lines = [*lines[:half], f"... {len(lines) - SHOWN} more ...", *lines[-half:]]
    return [f"{'atom':{columns.shape[1] * (width + 2)}}weight", *lines]


def as_html(prior: Solution) -> str:
    """Format the headline and a table of atoms with bars for their weights, for notebooks."""
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
        width = BAR * weight / prior.weights.max()
        bar = f'<div style="background:{ATOM};height:0.7em;width:{width:.2f}em"></div>'
        rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in [*line.split(), bar]) + "</tr>")
    heads = "".join(f"<th>{name}</th>" for name in [*columns, "weight", ""])
    return f"{found}<table><tr>{heads}</tr>{''.join(rows)}</table>"


DASHES = ("-", "--", "-.", ":")  # lines differ by more than their color
CURVE_POINTS = 1201  # of the gain's curve: smooth at the size of a page
MAP_SIDE = 121  # points of the gain's map along each parameter
MAP_DEPTH = 1.5  # nats below the information at which the map's darkest level ends


def _axes(ax: Axes | None, width: float = 4.6, height: float = 3.2) -> Axes:
    """Return the given axes, or those of a new figure."""
    from matplotlib.figure import Figure

    if ax is not None and not hasattr(ax, "twinx"):
        raise ValueError(f"ax must be the axes of a matplotlib figure, got {ax!r}")
    return Figure(figsize=(width, height), layout="constrained").subplots() if ax is None else ax


@styled
def plot_solution(solution: Solution, ax: Axes | None = None) -> Axes:
    """Draw atoms as stems, the gain as a gray line on the right axis, and the information as a dotted line."""
    ax = _axes(ax, 4.2, 3.0)
    ax = {1: _plot_line, 2: _plot_map}.get(solution.channel.dimension, _plot_space)(solution, ax)
    title = f"{solution.evidence}: {solution.information:.4g} nats, {gap_in_words(solution.gap)}"
    ax.set_title(title, fontsize=8, loc="left")
    return ax


def _plot_line(solution: Solution, ax: Axes) -> Axes:
    channel = solution.channel
    w = channel.parameter(channel.axes.points(0, CURVE_POINTS)[:, None])[:, 0]
    right = ax.twinx()
    right.plot(w, solution.gain(w), color=SOFT, linewidth=1.0, label="gain")
    right.axhline(solution.information, color=SOFT, linewidth=0.9, linestyle=":", label="information")
    right.set_ylabel("gain (nats)", color=SOFT)
    right.tick_params(axis="y", colors=SOFT)
    right.spines["right"].set_visible(True)
    right.grid(visible=False)
    right.set_ylim(0, 1.3 * solution.information)
    right.legend(loc="upper center", ncols=2, fontsize=8, borderaxespad=0.1, frameon=False)
    ax.vlines(solution.atoms, 0, solution.weights, color=ATOM, linewidth=1.6)
    ax.plot(solution.atoms, solution.weights, "o", color=ATOM, markersize=3.5)
    ax.set_ylim(0, 1.2 * float(solution.weights.max()))  # room for the legend of the gain
    ax.set_xlabel("w")
    ax.set_ylabel("weight of the atom", color=ATOM)
    ax.set_zorder(right.get_zorder() + 1)
    ax.patch.set_visible(False)
    ax.grid(visible=False)  # grid lines of one axis would not fit the other
    return ax


def _plot_map(solution: Solution, ax: Axes) -> Axes:
    ends = solution.channel.parameter(solution.channel.bounds.T)
    x, y = (np.linspace(ends[0, i], ends[1, i], MAP_SIDE) for i in (0, 1))
    table = solution.gain(np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)).reshape(MAP_SIDE, MAP_SIDE)
    ax.grid(visible=False)
    ax.contourf(x, y, np.maximum(table, solution.information - MAP_DEPTH), levels=20, cmap="Greys", alpha=0.6)
    area = 900 * solution.weights / solution.weights.max() / math.sqrt(len(solution.weights))
    ax.scatter(solution.atoms[:, 0], solution.atoms[:, 1], s=area, color=ATOM, zorder=3, clip_on=False)
    ax.set(xlabel="$w_1$", ylabel="$w_2$")
    return ax


def _plot_space(solution: Solution, ax: Axes) -> Axes:
    """Draw three or more parameters: the first two as position, the third as color."""
    area = 900 * solution.weights / solution.weights.max() / math.sqrt(len(solution.weights))
    first, second, third = solution.atoms.T[:3]
    shown = ax.scatter(first, second, s=area, c=third, cmap="cividis", zorder=3, clip_on=False, alpha=0.8)
    if ax.figure is not None:
        ax.figure.colorbar(shown, ax=ax, label="$w_3$")
    ax.set(xlabel="$w_1$", ylabel="$w_2$")
    return ax


@styled
def plot_posterior(posterior: Posterior, ax: Axes | None = None) -> Axes:
    """Draw posterior weights as stems next to the prior's; two parameters as areas."""
    ax = _axes(ax)
    if posterior.atoms.ndim > 1:
        for weights, color in ((posterior.before, "0.8"), (posterior.weights, ATOM)):
            area = 300 * weights / posterior.before.max()
            ax.scatter(posterior.atoms[:, 0], posterior.atoms[:, 1], s=area, color=color, zorder=3)
        ax.set(xlabel="$w_1$", ylabel="$w_2$")
    else:
        shift = 0.006 * float(np.ptp(posterior.atoms))
        ax.vlines(posterior.atoms - shift, 0, posterior.before, color="0.75", linewidth=3, label="prior")
        ax.vlines(posterior.atoms + shift, 0, posterior.weights, color=ATOM, linewidth=3, label="posterior")
        ax.set(ylim=(0, None), xlabel="w", ylabel="probability")
        ax.legend()
    ax.set_title(f"after {posterior.outcome!r}", fontsize=9, loc="left")
    return ax


@styled
def plot_comparison(comparison: PriorComparison) -> Figure:
    """Draw regret and coverage against w."""
    from matplotlib.figure import Figure

    if not len(comparison[0].parameters):
        raise ValueError("the figure is for one parameter whose outcomes can be listed; print the comparison instead")
    figure = Figure(figsize=(6.8, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for prior, color, dash in zip(comparison, cycle(SERIES), cycle(DASHES), strict=False):
        left.plot(prior.parameters, prior.regret, dash, color=color, linewidth=1.2, label=prior.name)
        right.plot(prior.parameters, prior.coverage, dash, color=color, linewidth=1.0, label=prior.name)
    left.axhline(comparison.capacity, color=SOFT, linewidth=0.8, linestyle=":")
    left.set_ylabel("regret KL(p(z | w), p(z)), nats")
    left.set_title(f"{comparison.evidence}: least worst regret {comparison.capacity:.4g} nats", fontsize=9, loc="left")
    left.set_ylim(bottom=0)
    right.axhline(0.95, color=SOFT, linewidth=0.8, linestyle=":")
    right.set(ylabel="coverage of 95% intervals", ylim=(-0.02, 1.02))
    for ax in (left, right):
        ax.set_xlabel("w")
    left.legend()
    return figure


@styled
def plot_designs(found: DesignSearch, ax: Axes | None = None) -> Axes:
    """Draw all designs that were tried, the best one, and the front if there are costs."""
    ax = _axes(ax)
    pairs = zip(found.places, found.tried, strict=True)
    x = [place[0] if design.cost is None else design.cost for place, design in pairs]
    ax.plot(x, [design.information for design in found.tried], ".", color="0.6", markersize=5)
    if found.cost is not None:
        front = found.front()
        ax.plot([d.cost or 0.0 for d in front], [d.information for d in front], "-", color=ATOM, linewidth=1.0)
    ax.plot(x[0], found.information, "o", color=ATOM, markersize=6)
    ax.set(xlabel="first setting" if found.cost is None else "cost", ylabel="information (nats)")
    ax.set_title(str(found).splitlines()[0], fontsize=8, loc="left")
    return ax


@styled
def plot_capacity(curve: CapacityCurve, ax: Axes | None = None) -> Axes:
    """Draw the capacity and its asymptotic law against the number of samples."""
    ax = _axes(ax)
    ax.semilogx(curve.samples, curve.law, "--", color=SOFT, linewidth=1.0, label="law")
    ax.semilogx(curve.samples, curve.information, "o-", color=ATOM, markersize=3.5, label="capacity")
    ax.set(xlabel="samples n", ylabel="information (nats)")
    ax.set_title(f"{curve.evidence}: gaps of at most {curve.gap:.0e} nats", fontsize=9, loc="left")
    ax.legend()
    return ax


@styled
def plot_scan(scan: PriorScan, ax: Axes | None = None) -> Axes:
    """Draw atoms against the setting, with areas by weight, and the forks."""
    ax = _axes(ax, 6.4, 4.2)
    for fork in scan.forks:
        ax.axvline(fork.value, color=SOFT, linewidth=0.6, linestyle=":", zorder=0)
        if fork.place is not None:
            ax.plot(fork.value, fork.place, "o", color=VERMILION, markersize=4.5, markerfacecolor="none", zorder=4)
    for value, prior in zip(scan.values, scan.priors, strict=True):
        area = 60 * prior.weights**0.7
        ax.scatter(np.full(len(prior.weights), value), prior.atoms, s=area, color=ATOM, linewidth=0, zorder=3)
    ax.set(xlabel=scan.setting, ylabel="atoms w")
    ax.set_title(fill(str(scan).splitlines()[0], 44), fontsize=9, loc="left")
    return ax


LANGUAGES = ("stan", "pymc", "numpyro")


def as_code(prior: Solution, language: str) -> str:
    """Write the model with this prior in a language.

    The prior becomes a finite mixture: Stan sums over the atoms, the other two have a categorical variable.
    """
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
