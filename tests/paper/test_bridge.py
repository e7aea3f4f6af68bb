"""The bridge: particles of a small torch model approach the certified capacity from below and sit at its atoms."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from refprior.exact import Channel, Coin, Solution, TwoCoins, reference_prior
from refprior.geometry import assign, embedding
from refprior.information import mutual_information
from refprior.particles import Particles

BOUND = 4.0  # the logistic model's weight lies in [-4, 4]
INPUTS = torch.tensor([0.25, 0.5, 1.0, 2.0], dtype=torch.float64).unsqueeze(-1)
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Experiment:
    """One data set: N inputs whose labels are seen, and the exact prior of the same experiment."""

    inputs: Tensor  # (N, D)
    exact: Channel
    bounded: bool = False

    def atoms(self, solution: Solution) -> Tensor:
        """Predictions of the exact atoms on the inputs: (M, N, 2)."""
        w = torch.from_numpy(solution.atoms.reshape(len(solution.weights), -1).copy())  # (M, D)
        p = (w @ self.inputs.T).sigmoid() if self.bounded else w @ self.inputs.T
        return torch.stack([1 - p, p], -1).log()


def logistic_likelihood(w: Array) -> Array:
    """log p of all 2^4 labelings of the inputs: (K,) -> (K, 16)."""
    logits = w[:, None] * INPUTS.numpy()[:, 0]  # (K, 4)
    labels = np.array(list(np.ndindex(2, 2, 2, 2)))  # (16, 4)
    return np.asarray(np.where(labels, -np.logaddexp(0, -logits[:, None]), -np.logaddexp(0, logits[:, None])).sum(-1))


EXPERIMENTS = {
    "coin, 10 tosses": Experiment(torch.ones(10, 1).double(), Coin(10)),
    "two coins, 3 tosses": Experiment(torch.eye(2).double().repeat_interleave(3, 0), TwoCoins(3)),
    "logistic, 4 inputs": Experiment(
        INPUTS, Channel.from_function(logistic_likelihood, (-BOUND, BOUND), np.arange(16.0)), bounded=True
    ),
}


class OneLogit(nn.Module):
    """p(y = 1 | x, w) = sigmoid(w·x), as logits of two classes."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(0.5 * torch.randn(inputs))

    def forward(self, x: Tensor) -> Tensor:
        logit = x @ self.weight
        return torch.stack([torch.zeros_like(logit), logit], -1)


def spread(experiment: Experiment, count: int, steps: int = 1500) -> tuple[Particles, list[float]]:
    """Particles and their weights after ascent of eq:ref_ssl, and the information after each step."""
    particles = Particles(lambda: OneLogit(experiment.inputs.shape[1]), count, seed=0).double()
    optimiser = torch.optim.Adam(particles.parameters(), lr=0.03)
    history = []
    for _ in range(steps):
        information = mutual_information(particles(experiment.inputs).unsqueeze(1), particles.log_prior).mean()
        history.append(information.item())
        optimiser.zero_grad()
        torch.autograd.backward(-information)
        optimiser.step()
        if experiment.bounded:
            particles.network.get_parameter("weight").data.clamp_(-BOUND, BOUND)
    return particles, history


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_particles_approach_the_capacity_from_below_and_sit_at_the_atoms(name: str) -> None:
    experiment = EXPERIMENTS[name]
    solution = reference_prior(experiment.exact, 1e-9)
    particles, history = spread(experiment, 40)
    assert max(history) <= solution.information + solution.gap + 1e-9
    assert history[-1] > solution.information - 2e-3
    with torch.no_grad():
        points, atoms = embedding(particles(experiment.inputs)), embedding(experiment.atoms(solution))
        found = assign(points, atoms, particles.log_prior)
    far = (particles.log_prior.exp() * found.distance).sum().item()
    print(name, history[-1], solution.information, far, found.weights.tolist(), solution.weights.tolist())
    assert far < 2e-3
    np.testing.assert_allclose(found.weights.numpy(), solution.weights, atol=0.02)


def test_too_few_particles_stay_below() -> None:
    """Two particles cannot exceed log 2, whatever the capacity."""
    capacity = reference_prior(Coin(10), 1e-9).information
    _, history = spread(EXPERIMENTS["coin, 10 tosses"], 2, steps=300)
    assert 0.6 < history[-1] <= np.log(2) + 1e-12 < capacity
