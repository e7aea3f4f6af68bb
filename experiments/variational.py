"""Exact, particles and variational: three ways to a reference prior, on models whose capacity is certified.

    python experiments/variational.py variational.png

Every prior is judged in the same way: its information by the exact channel, never by its own objective; its modes; and
how much of it lies at the exact atoms. `--study` prints instead what the bound and its gradient do on one coin,
`--repeat` how far its priors differ from seed to seed, and after more steps.
"""

# K particles or atoms, M draws of a variational prior, Z outcomes

import argparse
import io
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from scipy.signal import find_peaks
from torch import Tensor, nn

import refprior as rp
from refprior._style import BLUE, GREEN, INK, PURPLE, SOFT, VERMILION, styled
from refprior.exact import Channel, Coin, Gaussian, Poisson, Solution, reference_prior
from refprior.exact.channels import to_coordinates
from refprior.exact.oracle import divergence, log_marginal
from refprior.methods import InformationOnly
from refprior.variational import Implicit, LogitNormal, discretize, fit

NEAR = 0.25  # standard deviations of the data: this near, a prior is at an atom
PROMINENT = 0.05  # of the highest peak: lower bumps of the smoothed density are no modes
COLORS = {
    "exact": VERMILION,
    "particles": BLUE,
    "Jeffreys": SOFT,
    "explicit, VR-max": PURPLE,
    "implicit, VR-max": GREEN,
    "implicit, α = 0": INK,
}
DASHES = {"Jeffreys": ":", "explicit, VR-max": "--", "implicit, VR-max": "-.", "implicit, α = 0": (0, (1, 1))}


@dataclass(frozen=True)
class Model:
    """A channel of the exact half, and the same likelihood for torch."""

    name: str
    channel: Channel
    log_likelihood: Callable[[Tensor], Tensor]  # (n,) -> (n, Z)
    low: float
    high: float


def coin(n: int) -> Model:
    heads = torch.arange(n + 1, dtype=torch.float64)
    constant = math.lgamma(n + 1) - (heads + 1).lgamma() - (n - heads + 1).lgamma()

    def log_likelihood(w: Tensor) -> Tensor:
        w = w.unsqueeze(-1)
        return constant.to(w) + heads.to(w) * w.log() + (n - heads.to(w)) * (-w).log1p()

    return Model(f"coin, {n} toss{'es' if n > 1 else ''}", Coin(n), log_likelihood, 0.0, 1.0)


def gaussian(amplitude: float) -> Model:
    channel = Gaussian(amplitude)
    nodes = torch.from_numpy(channel.outcomes)
    constant = math.log(float(nodes[1] - nodes[0])) - 0.5 * math.log(2 * math.pi)
    return Model(
        f"Gaussian, |w| ≤ {amplitude:g}",
        channel,
        lambda w: constant - 0.5 * (nodes.to(w) - w.unsqueeze(-1)).square(),
        -amplitude,
        amplitude,
    )


def poisson(amplitude: float) -> Model:
    channel = Poisson(amplitude)
    counts = torch.from_numpy(channel.outcomes)

    def log_likelihood(w: Tensor) -> Tensor:
        w, z = w.unsqueeze(-1), counts.to(w)
        return z * w.log() - w - (z + 1).lgamma()

    return Model(f"Poisson, w ≤ {amplitude:g}", channel, log_likelihood, 0.0, amplitude)


def models() -> list[Model]:
    return [coin(1), coin(10), coin(50), gaussian(5.0), gaussian(10.0), poisson(20.0)]


@dataclass(frozen=True)
class Prior:
    """A prior on finitely many parameters: atoms, particles, or the draws of a sampler."""

    name: str
    channel: Channel
    w: np.ndarray  # (K,)
    weights: np.ndarray  # (K,)

    @property
    def coordinates(self) -> np.ndarray:
        return to_coordinates(self.channel, self.w)

    @property
    def information(self) -> float:
        """I(w; z) = Σ_k π_k KL(p(z | w_k), p(z)), by the exact channel."""
        marginal = log_marginal(self.channel, self.coordinates, self.weights)
        return float(self.weights @ divergence(self.channel, self.coordinates, marginal))

    @property
    def positions(self) -> np.ndarray:
        """In standard deviations of the data (Fisher length) from the lower end: (K,)."""
        (low, high), (length,) = self.channel.bounds[0], self.channel.axes.lengths
        return np.asarray((self.coordinates[:, 0] - low) * length / (high - low))

    def modes(self) -> int:
        """Peaks of the density over Fisher length, smoothed by a Gaussian of standard deviation `NEAR`."""
        grid = np.arange(-4 * NEAR, self.channel.axes.lengths[0] + 4 * NEAR, NEAR / 10)
        density = np.exp(-0.5 * ((grid[:, None] - self.positions) / NEAR) ** 2) @ self.weights
        density = np.round(density / density.max(), 6)  # rounding errors on a plateau would count as peaks
        return len(find_peaks(density, prominence=PROMINENT)[0])

    def near(self, others: "Prior") -> float:
        """The share of this prior within `NEAR` of the other's atoms."""
        distance = np.abs(self.positions[:, None] - others.positions).min(axis=1)
        return float(self.weights[distance <= NEAR].sum())


class Outcomes(nn.Module):
    """A particle of a model: one parameter, whose prediction for the only input is p(z | w), Z classes.

    It starts as a draw of the Jeffreys prior.
    """

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model
        low, high = model.channel.bounds[0]
        w = model.channel.parameter(low + (high - low) * torch.rand(1, 1).double().numpy())
        share = torch.from_numpy((w[0] - model.low) / (model.high - model.low))
        self.weight = nn.Parameter(share.logit(eps=1e-6).float())

    def forward(self, x: Tensor) -> Tensor:
        return self.model.log_likelihood(inside(self.weight, self.model)).expand(len(x), -1)


def inside(logit: Tensor, model: Model) -> Tensor:
    """Into the model's interval; in single precision its ends are 1e-6 away."""
    return model.low + (model.high - model.low) * (13.8 * (logit / 13.8).tanh()).sigmoid()


def particles(model: Model, count: int, steps: int, seed: int) -> Prior:
    """Particles and their weights maximize I_π(w; z), eq:ref_ssl, in the loop that trains every network."""
    outcomes = len(model.channel.outcomes)
    some = torch.zeros(outcomes, 1), torch.arange(outcomes)
    recipe = rp.Recipe(
        task=rp.data.task_from_arrays(some, torch.zeros(1, 1), some),
        network=partial(Outcomes, model),
        method=InformationOnly(order=1, trainable_prior=True),
        inputs=rp.data.Identity(),
        particles=count,
        steps=steps,
        unlabeled_batch=1,
        optimizer=rp.Optimizer(kind="adam", learning_rate=0.03, decay=0, schedule="constant"),
        ema=0.0,
        evaluate_every=steps,
        seed=seed,
    )
    found = rp.train(recipe).particles
    w = inside(found.network.get_parameter("weight").detach(), model).double().flatten().numpy()
    weights = found.log_prior.detach().double().softmax(0).numpy()
    return Prior("particles", model.channel, w, weights)


def from_family(name: str, model: Model, family: nn.Module) -> Prior:
    w = discretize(family).numpy()
    return Prior(name, model.channel, w, np.full(len(w), 1 / len(w)))


def jeffreys(model: Model, count: int = 4000) -> Prior:
    """The limit of much data, for comparison: even in Fisher length, as the coordinates of these channels are."""
    u = model.channel.bounds[0, 0] + np.ptp(model.channel.bounds[0]) * (np.arange(count) + 0.5) / count
    return Prior("Jeffreys", model.channel, model.channel.parameter(u[:, None])[:, 0], np.full(count, 1 / count))


def variational(model: Model, steps: int, seed: int) -> list[Prior]:
    """The families with the bound of the source; the implicit one also with the plain estimate of the marginal."""
    found = []
    for name, make, alpha, samples in (
        ("explicit, VR-max", LogitNormal, -math.inf, 10),
        ("implicit, VR-max", partial(Implicit, seed=seed), -math.inf, 10),
        ("implicit, α = 0", partial(Implicit, seed=seed), 0.0, 64),
    ):
        family = make(model.low, model.high)
        fit(model.log_likelihood, family, alpha=alpha, samples=samples, steps=steps, seed=seed)
        found.append(from_family(name, model, family))
    return found


@dataclass(frozen=True)
class Comparison:
    """All priors of one model; the first is the exact one."""

    model: Model
    solution: Solution
    priors: list[Prior]

    def shortfall(self, prior: Prior) -> float:
        """How far the prior stays below the certified capacity, in nats."""
        return self.solution.information - prior.information


def compare(model: Model, count: int = 40, steps: int = 2000, seed: int = 0) -> Comparison:
    solution = reference_prior(model.channel)
    exact = Prior("exact", model.channel, solution.atoms, solution.weights)
    others = [particles(model, count, steps, seed), jeffreys(model), *variational(model, steps, seed)]
    return Comparison(model, solution, [exact, *others])


def table(found: Comparison) -> str:
    """One line per prior."""
    exact = found.priors[0]
    lines = []
    for prior in found.priors:
        missing = f"gap {found.solution.gap:.0e}" if prior is exact else f"{found.shortfall(prior):.5f}"
        lines.append(
            f"{found.model.name:18} {prior.name:18} {prior.information:11.6f}  {missing:>9}  "
            f"{prior.modes():5}  {100 * prior.near(exact):8.1f}"
        )
    return "\n".join(lines)


HEADING = "model              prior              information  shortfall  modes  at atoms"


def study(steps: int, seed: int) -> None:
    """The implicit family on one coin: bound, number of draws, and gradient through the marginal or not."""
    model = coin(10)
    capacity = reference_prior(model.channel).information
    print(f"{model.name}: capacity {capacity:.6f}")
    print("marginal  gradient    S    bound  information  shortfall  modes")
    for alpha in (-math.inf, 0.0):
        for coupled in (False, True):
            for samples in (1, 2, 5, 10, 50):
                family = Implicit(model.low, model.high, seed=seed)
                history = fit(
                    model.log_likelihood,
                    family,
                    alpha=alpha,
                    samples=samples,
                    coupled=coupled,
                    steps=steps,
                    seed=seed,
                )
                prior = from_family("implicit", model, family)
                print(
                    f"{'VR-max' if alpha else 'α = 0':8}  {'coupled' if coupled else 'decoupled':9}  {samples:3}  "
                    f"{float(history[-200:].mean()):7.3f}  {prior.information:11.6f}  "
                    f"{capacity - prior.information:9.5f}  {prior.modes():5}",
                    flush=True,
                )


def repeat(steps: int) -> None:
    """One coin with three seeds; then the implicit family with five times as many steps."""
    print(HEADING)
    for seed in (0, 1, 2):
        print(f"seed {seed}\n{table(compare(coin(10), steps=steps, seed=seed))}", flush=True)
    longer(5 * steps)


def longer(steps: int) -> None:
    """The implicit family alone, on two coins."""
    print(f"{steps} steps, seed 0")
    for model in (coin(10), coin(50)):
        solution = reference_prior(model.channel)
        exact = Prior("exact", model.channel, solution.atoms, solution.weights)
        found = Comparison(model, solution, [exact, *variational(model, steps, 0)[1:]])
        print(table(found), flush=True)


@styled
def draw(comparisons: Sequence[Comparison]) -> Figure:
    """Above: the distribution functions, a step for each atom. Below: what is missing to the capacity. Three a row."""
    columns = min(3, len(comparisons))
    bands = -(-len(comparisons) // columns)
    figure = Figure(figsize=(3.1 * columns, 6.2 * bands), layout="constrained")
    grid = figure.subplots(2 * bands, columns, squeeze=False, gridspec_kw={"height_ratios": [3, 2] * bands})
    for number, found in enumerate(comparisons):
        band, column = divmod(number, columns)
        above, below = grid[2 * band : 2 * band + 2, column]
        for prior in found.priors:
            order = np.argsort(prior.w)
            ends = [found.model.low, *prior.w[order], found.model.high]
            share = np.minimum([0, *np.cumsum(prior.weights[order]), 1], 1)
            wide = {"lw": 5, "alpha": 0.35} if prior.name == "exact" else {"lw": 1.3}
            line = wide | {"ls": DASHES.get(prior.name, "-")}
            above.step(ends, share, where="post", color=COLORS[prior.name], label=prior.name, **line)
        above.set(title=f"{found.model.name}\n{len(found.solution.atoms)} atoms", xlabel="w")
        others = found.priors[1:]
        below.barh(
            [p.name for p in others],
            [max(found.shortfall(p), 1e-7) for p in others],
            color=[COLORS[p.name] for p in others],
        )
        below.invert_yaxis()
        below.set(xscale="log", xlim=(1e-5, 1), xlabel="capacity − information (nats)")
        below.grid(visible=False, axis="y")
        if column:
            below.set_yticklabels([])
        else:
            above.set_ylabel("share of the prior up to w")
    grid[0, 0].legend(loc="upper left")
    return figure


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python experiments/variational.py", description=__doc__.splitlines()[0])
    parser.add_argument("figure", type=Path, nargs="?", help="the picture to write (.png)")
    parser.add_argument("--study", action="store_true", help="compare bounds and gradients on one coin instead")
    parser.add_argument("--repeat", action="store_true", help="three seeds, and more steps, on one coin instead")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args(arguments)
    if asked.study:
        study(asked.steps, asked.seed)
        return
    if asked.repeat:
        repeat(asked.steps)
        return
    if asked.figure is None:
        parser.error("name the picture to write, or use --study or --repeat")
    print(HEADING)
    comparisons = []
    for model in models():
        comparisons.append(compare(model, steps=asked.steps, seed=asked.seed))
        print(table(comparisons[-1]), flush=True)
    picture = io.BytesIO()
    draw(comparisons).savefig(picture, format="png", dpi=140)
    asked.figure.write_bytes(picture.getvalue())


if __name__ == "__main__":
    main(sys.argv[1:])
