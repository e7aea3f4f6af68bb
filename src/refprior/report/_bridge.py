"""The bridge between the two halves: particles of a small torch model against the exact prior of the same experiment.

    python -m refprior.report._bridge bridge.png

An experiment shows the labels of N inputs. The exact half gives its reference prior with a certificate; the deep half
lets particles and their weights ascend the same information. They must approach the certified capacity from below and
come to rest at the atoms.
"""

# K particles, M atoms, N inputs, D numbers an input

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

from refprior.exact import Channel, Coin, Solution, TwoCoins, reference_prior
from refprior.geometry import Assignment, assign, embedding
from refprior.information import mutual_information
from refprior.particles import Particles
from refprior.report._figures import as_png

BOUND = 4.0  # the logistic model's weight lies in [-4, 4]
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
        w = torch.from_numpy(solution.atoms.reshape(len(solution.weights), -1).copy())  # (M, D)
        p = w @ self.inputs.T if self.bound is None else (w @ self.inputs.T).sigmoid()
        return torch.stack([1 - p, p], -1).log()


def logistic_likelihood(w: np.ndarray) -> np.ndarray:
    """log p of all 2^4 labelings of the four inputs: (K,) -> (K, 16)."""
    logits = np.asarray(w)[:, None, None] * np.array(LOGISTIC_INPUTS)  # (K, 1, 4)
    labels = np.array(list(np.ndindex(*[2] * len(LOGISTIC_INPUTS))))  # (16, 4)
    return np.asarray(np.where(labels, -np.logaddexp(0, -logits), -np.logaddexp(0, logits)).sum(-1))


def experiments() -> list[Experiment]:
    """A coin, two coins, and a logistic model on four inputs."""
    logistic = Channel.from_function(logistic_likelihood, (-BOUND, BOUND), np.arange(16.0))
    return [
        Experiment("coin, 10 tosses", torch.ones(10, 1).double(), Coin(10)),
        Experiment("two coins, 3 tosses each", torch.eye(2).double().repeat_interleave(3, 0), TwoCoins(3)),
        Experiment("logistic, 4 inputs", torch.tensor(LOGISTIC_INPUTS).double().unsqueeze(-1), logistic, BOUND),
    ]


class OneLogit(nn.Module):
    """p(y = 1 | x, w) = sigmoid(w·x), as logits of two classes."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(0.5 * torch.randn(inputs))

    def forward(self, x: Tensor) -> Tensor:
        logit = x @ self.weight
        return torch.stack([torch.zeros_like(logit), logit], -1)


@dataclass(frozen=True)
class Crossing:
    """Both halves of one experiment."""

    experiment: Experiment
    solution: Solution
    particles: Particles
    history: list[float]  # information of the particles before each step

    def at_atoms(self) -> Assignment:
        """Where the particles came to rest."""
        with torch.no_grad():
            points = embedding(self.particles(self.experiment.inputs))
            atoms = embedding(self.experiment.predictions(self.solution))
            return assign(points, atoms, self.particles.log_prior)


def cross(experiment: Experiment, count: int = 40, steps: int = 1500, seed: int = 0) -> Crossing:
    """Solve exactly, and let particles and their weights ascend I_π(w; y^n | x^n), eq:ref_ssl."""
    particles = Particles(lambda: OneLogit(experiment.inputs.shape[1]), count, seed).double()
    optimiser = torch.optim.Adam(particles.parameters(), lr=0.03)
    history = []
    for _ in range(steps):
        information = mutual_information(particles(experiment.inputs).unsqueeze(1), particles.log_prior).mean()
        history.append(information.item())
        optimiser.zero_grad()
        torch.autograd.backward(-information)
        optimiser.step()
        if experiment.bound is not None:
            particles.network.get_parameter("weight").data.clamp_(-experiment.bound, experiment.bound)
    return Crossing(experiment, reference_prior(experiment.exact, 1e-9), particles, history)


def bridge_figure(crossings: Sequence[Crossing]) -> Figure:
    """Above: what is missing to the capacity over time. Below: particles and atoms."""
    figure = Figure(figsize=(4 * len(crossings), 5.6), layout="constrained")
    grid = figure.subplots(2, len(crossings), squeeze=False)
    for column, crossing in enumerate(crossings):
        _gap(grid[0, column], crossing)
        (_plane if crossing.experiment.inputs.shape[1] == 2 else _line)(grid[1, column], crossing)
    return figure


def _gap(axes: Axes, crossing: Crossing) -> None:
    missing = crossing.solution.information - np.array(crossing.history)
    axes.semilogy(missing, color="#1f6f8b")
    axes.set(title=crossing.experiment.name, xlabel="step", ylabel="capacity − information (nats)")
    axes.grid(alpha=0.25)


def _parameters(crossing: Crossing) -> np.ndarray:
    """Of the particles, as the exact half has them: (K, D)."""
    w = crossing.particles.network.get_parameter("weight").detach()
    return np.asarray(w.sigmoid() if crossing.experiment.bound is None else w)


def _line(axes: Axes, crossing: Crossing) -> None:
    found = crossing.at_atoms()
    axes.vlines(crossing.solution.atoms, 0, crossing.solution.weights, color="#b03a2e", lw=6, alpha=0.35)
    axes.plot(crossing.solution.atoms, found.weights.numpy(), "o", color="#309450", label="weight of particles at it")
    w = _parameters(crossing)[:, 0]
    axes.scatter(w, np.full_like(w, -0.025), s=_sizes(crossing), color="#3163b2", alpha=0.6, label="particles")
    axes.set(xlabel="w", ylabel="weight of the atom (red)", ylim=(-0.05, None))
    axes.legend(frameon=False, fontsize=8, loc="upper center")


def _plane(axes: Axes, crossing: Crossing) -> None:
    x, y = crossing.solution.atoms.T
    axes.scatter(x, y, s=4000 * crossing.solution.weights, color="#b03a2e", alpha=0.3, lw=0)
    x, y = _parameters(crossing).T
    axes.scatter(x, y, s=_sizes(crossing), color="#3163b2", alpha=0.6)
    axes.set(xlabel="$w_1$", ylabel="$w_2$ (red: atoms, blue: particles)", aspect="equal")


def _sizes(crossing: Crossing) -> np.ndarray:
    """Area of a particle's mark by its weight; those that lost theirs are specks."""
    return np.asarray(2 + 1000 * crossing.particles.log_prior.detach().exp())


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m refprior.report._bridge", description=__doc__.splitlines()[0])
    parser.add_argument("figure", type=Path, help="the picture to write (.png)")
    out = parser.parse_args(arguments).figure
    crossings = [cross(experiment) for experiment in experiments()]
    print(
        "experiment                capacity  certified gap  particles  information  mean d² to atom  weights differ by"
    )
    for crossing in crossings:
        found, solution = crossing.at_atoms(), crossing.solution
        far = (crossing.particles.log_prior.exp() * found.distance).sum().item()
        apart = np.abs(found.weights.numpy() - solution.weights).max()
        print(
            f"{crossing.experiment.name:25} {solution.information:.6f}  {solution.gap:13.1e}  "
            f"{crossing.particles.count:9}  {crossing.history[-1]:11.6f}  {far:15.1e}  {apart:17.1e}"
        )
    out.write_bytes(as_png(bridge_figure(crossings)))


if __name__ == "__main__":
    main(sys.argv[1:])
