"""The bridge between the two halves: particles of a small torch model against the exact prior of the same experiment.

    python experiments/bridge.py bridge.png

An experiment shows the labels of N inputs. The exact half gives its reference prior with a certificate; the deep half
trains particles and their weights to maximize the same information. They must approach the certified capacity from
below and come to rest at the atoms.
"""

# K particles, M atoms, N inputs, D numbers per input

import argparse
import io
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from torch import Tensor, nn

import refprior as rp
from refprior._style import BLUE, INK, VERMILION, styled
from refprior.exact import Channel, Coin, Solution, TwoCoins, reference_prior
from refprior.geometry import Assignment, assign, embedding
from refprior.methods import InformationOnly

BOUND = 4.0  # the logistic model's weight is in [-4, 4]
PARTICLES: dict[str, Any] = {"color": BLUE, "alpha": 0.6, "label": "particles (discs)"}
LOGISTIC_INPUTS = (0.25, 0.5, 1.0, 2.0)


@dataclass(frozen=True)
class Experiment:
    """The labels of N inputs are seen; `exact` is the same experiment as a channel."""

    name: str
    inputs: Tensor  # (N, D)
    exact: Channel
    bound: float | None = None  # of the weights; None: the exact parameters are probabilities

    def predictions(self, solution: Solution) -> Tensor:
        """log p(y | x, w) of the exact atoms: (M, N, 2)."""
        w = torch.from_numpy(solution.atoms.reshape(len(solution.weights), -1).copy()).to(self.inputs)  # (M, D)
        p = w @ self.inputs.T if self.bound is None else (w @ self.inputs.T).sigmoid()
        return torch.stack([1 - p, p], -1).log()


def logistic_likelihood(w: np.ndarray) -> np.ndarray:
    """log p of all 2^4 labelings of the four inputs: (K,) -> (K, 16)."""
    logits = np.asarray(w)[:, None, None] * np.array(LOGISTIC_INPUTS)  # (K, 1, 4)
    labels = np.array(list(np.ndindex(*[2] * len(LOGISTIC_INPUTS))))  # (16, 4)
    return np.asarray(np.where(labels, -np.logaddexp(0, -logits), -np.logaddexp(0, logits)).sum(-1))


def experiments() -> list[Experiment]:
    """A coin, two coins, and a logistic model on four inputs."""
    logistic = Channel.from_function(logistic_likelihood, bounds=(-BOUND, BOUND), outcomes=np.arange(16.0))
    return [
        Experiment("coin, 10 tosses", torch.ones(10, 1), Coin(10)),
        Experiment("two coins, 3 tosses each", torch.eye(2).repeat_interleave(3, 0), TwoCoins(3)),
        Experiment("logistic, 4 inputs", torch.tensor(LOGISTIC_INPUTS).unsqueeze(-1), logistic, BOUND),
    ]


class OneLogit(nn.Module):
    """p(y = 1 | x, w) = sigmoid(w·x), as logits of two classes; with a bound, w = bound · tanh(v / bound)."""

    def __init__(self, inputs: int, bound: float | None = None) -> None:
        super().__init__()
        self.bound = bound
        self.weight = nn.Parameter(0.5 * torch.randn(inputs))

    def forward(self, x: Tensor) -> Tensor:
        w = self.weight if self.bound is None else self.bound * (self.weight / self.bound).tanh()
        logit = x @ w
        return torch.stack([torch.zeros_like(logit), logit], -1)


@dataclass(frozen=True)
class Comparison:
    """Both halves of one experiment."""

    experiment: Experiment
    solution: Solution
    run: rp.Run

    @property
    def history(self) -> list[float]:
        """The information of the particles, every ten steps."""
        return [record.terms["information"] or 0.0 for record in self.run.history]

    @property
    def log_prior(self) -> Tensor:
        """The learned weights of the particles: (K,)."""
        return self.run.particles.log_prior.detach()

    @property
    def parameters(self) -> np.ndarray:
        """Of the particles, as the exact half has them: (K, D)."""
        w, bound = self.run.particles.network.get_parameter("weight").detach(), self.experiment.bound
        return np.asarray(w.sigmoid() if bound is None else bound * (w / bound).tanh())

    def at_atoms(self) -> Assignment:
        """Where the particles came to rest."""
        points = embedding(self.run.log_probabilities(self.experiment.inputs, ema=False))
        return assign(points, embedding(self.experiment.predictions(self.solution)), self.log_prior)


def compare(experiment: Experiment, count: int = 40, steps: int = 1500, seed: int = 0) -> Comparison:
    """Solve exactly, and train particles and their weights to maximize I_π(w; y^n | x^n), eq:ref_ssl."""
    count_of_inputs, dimension = experiment.inputs.shape
    some = experiment.inputs[:2], torch.arange(2)
    recipe = rp.Recipe(
        task=rp.data.task_from_arrays(some, experiment.inputs, some),
        network=partial(OneLogit, dimension, experiment.bound),
        method=InformationOnly(order=count_of_inputs, trainable_prior=True),
        inputs=rp.data.Identity(),
        particles=count,
        steps=steps,
        unlabeled_batch=count_of_inputs,  # one tuple of all inputs
        optimizer=rp.Optimizer(kind="adam", learning_rate=0.03, decay=0, schedule="constant"),
        ema=0.0,
        evaluate_every=steps,
        seed=seed,
    )
    return Comparison(experiment, reference_prior(experiment.exact, tolerance=1e-9), rp.train(recipe))


@styled
def bridge_figure(comparisons: Sequence[Comparison]) -> Figure:
    """Above: what is missing to the capacity over time. Below: particles and atoms."""
    figure = Figure(figsize=(4 * len(comparisons), 5.6), layout="constrained")
    grid = figure.subplots(2, len(comparisons), squeeze=False)
    for column, found in enumerate(comparisons):
        _gap(grid[0, column], found)
        (_plane if found.experiment.inputs.shape[1] == 2 else _line)(grid[1, column], found)
    return figure


def _gap(axes: Axes, found: Comparison) -> None:
    steps = [record.step for record in found.run.history]
    axes.semilogy(steps, found.solution.information - np.array(found.history), color=BLUE)
    axes.set(title=found.experiment.name, xlabel="step", ylabel="capacity − information (nats)")


def _line(axes: Axes, found: Comparison) -> None:
    solution, at_atoms, w = found.solution, found.at_atoms(), found.parameters[:, 0]
    axes.vlines(solution.atoms, 0, solution.weights, color=VERMILION, lw=6, alpha=0.35, label="atoms (bars)")
    axes.plot(solution.atoms, at_atoms.weights.numpy(), "x", color=INK, label="particles at the atom, together")
    axes.scatter(w, np.full_like(w, -0.025), s=_sizes(found), **PARTICLES)
    axes.set(xlabel="w", ylabel="weight", ylim=(-0.05, 1.35 * solution.weights.max()))  # room for the legend
    _legend(axes)


def _plane(axes: Axes, found: Comparison) -> None:
    x, y = found.solution.atoms.T
    areas = 4000 * found.solution.weights
    axes.scatter(x, y, s=areas, marker="s", facecolors="none", edgecolors=VERMILION, lw=1.5, label="atoms (squares)")
    x, y = found.parameters.T
    axes.scatter(x, y, s=_sizes(found), **PARTICLES)
    axes.set(xlabel="$w_1$", ylabel="$w_2$", xlim=(-0.2, 1.2), ylim=(-0.2, 1.5), aspect="equal")
    _legend(axes)


def _legend(axes: Axes) -> None:
    """What is what, in marks of one size."""
    for handle in axes.legend(loc="upper center").legend_handles:
        if isinstance(handle, PathCollection):
            handle.set_sizes([40])


def _sizes(found: Comparison) -> np.ndarray:
    """Area of a particle's mark by its weight; those that lost theirs are specks."""
    return np.asarray(2 + 1000 * found.log_prior.exp())


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python experiments/bridge.py", description=__doc__.splitlines()[0])
    parser.add_argument("figure", type=Path, help="the picture to write (.png)")
    out = parser.parse_args(arguments).figure
    comparisons = [compare(experiment) for experiment in experiments()]
    print(
        "experiment                capacity  certified gap  particles  information  mean d² to atom  weights differ by"
    )
    for found in comparisons:
        at_atoms, solution = found.at_atoms(), found.solution
        far = (found.log_prior.exp() * at_atoms.distance).sum().item()
        apart = np.abs(at_atoms.weights.numpy() - solution.weights).max()
        print(
            f"{found.experiment.name:25} {solution.information:.6f}  {solution.gap:13.1e}  "
            f"{found.run.particles.count:9}  {found.history[-1]:11.6f}  {far:15.1e}  {apart:17.1e}"
        )
    picture = io.BytesIO()
    bridge_figure(comparisons).savefig(picture, format="png", dpi=140)
    out.write_bytes(picture.getvalue())


if __name__ == "__main__":
    main(sys.argv[1:])
