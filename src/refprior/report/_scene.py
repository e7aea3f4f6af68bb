"""Runs in the space of predictions: snapshots → coordinates and properties of every particle, as plain arrays."""

# S snapshots, K particles, n probe inputs, m shown inputs, C classes

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from refprior._progress import Progress, no_progress
from refprior.geometry import Components, embedding, information_of_tuples, is_constant, principal_components, truth
from refprior.information import average, entropy, mixture, uniform
from refprior.posterior import accuracy, cluster, match, output_code
from refprior.training import Snapshot, Trajectory

SHOWN = 8  # inputs whose predictions are shown for a single particle
MOST_PROBABILITIES = 10**8  # of labelings per snapshot; more would take minutes
Array = np.ndarray


@dataclass(frozen=True)
class Particle:
    """Properties of each particle at each snapshot, (S, K) each, that a color can show."""

    accuracy: Array  # NaN where the inputs have no labels
    entropy: Array  # mean over inputs, as a share of log C
    balance: Array  # entropy of the mean prediction as a share of log C: 0 is a constant particle


@dataclass(frozen=True)
class InputMap:
    """The inputs by the predictions of all particles together, and their clusters."""

    coordinates: Array  # (S, n, 2) along the axes of the last snapshot
    clusters: Array  # (n,) of the last snapshot, named by the class that they match best, if the labels are known
    accuracy: float | None  # share of inputs whose cluster is their class; None if the labels are not known


@dataclass(frozen=True)
class Cloud:
    """The particles of one run at every snapshot."""

    name: str
    trained_order: int  # of the method's tuples
    order: int  # of the tuples whose information is measured: lower where those have too many labelings
    steps: list[int]
    coordinates: Array  # (S, K, 3)
    particle: Particle
    predictions: Array  # (S, K, m, C) probabilities on the shown inputs
    information: list[float]  # of tuples of probe inputs, in nats, one value per snapshot
    conditional_entropy: list[float]
    constant: list[float]  # share of constant particles
    consensus: InputMap

    @property
    def marginal_entropy(self) -> list[float]:
        """The first term of eq:ref_ssl."""
        return [a + b for a, b in zip(self.information, self.conditional_entropy, strict=True)]

    @property
    def middle(self) -> int | None:
        """The snapshot nearest to a tenth of the steps, as in the paper; None without one between first and last."""
        between = range(1, len(self.steps) - 1)
        return min(between, key=lambda i: abs(self.steps[i] - self.steps[-1] / 10), default=None)


@dataclass(frozen=True)
class Scene:
    """Runs along the same three axes, those of their last snapshots."""

    clouds: list[Cloud]
    explained: list[float]  # share of the variance of the last snapshots along each axis
    classes: tuple[str, ...]
    outputs: tuple[str, ...]  # names of the particles' outputs: the classes', or numbers where no label named them
    inputs: Tensor  # (m, *shape)
    labels: list[int]  # (m,) of the shown inputs
    all_labels: list[int]  # (n,) of the probe inputs
    known: bool  # whether the inputs have labels
    landmarks: dict[str, list[float]]  # models that are certain: of the truth, and of one class for all inputs
    distances: dict[str, float]  # Hellinger distance of each from the space of the axes

    @property
    def named(self) -> bool:
        """Whether outputs are classes and the inputs have labels, so that a particle can be right."""
        return self.known and self.outputs == self.classes


def scene(
    films: Sequence[Trajectory],
    names: Sequence[str],
    orders: Sequence[int],
    named: bool = True,
    progress: Progress = no_progress,
) -> Scene:
    """Place films of the same inputs along common axes. With `named`, the particles' outputs are the classes."""
    for one, other in pairwise(films):
        if one.classes != other.classes or not torch.equal(one.probe.inputs, other.probe.inputs):
            raise ValueError(
                f"{one.path} ({len(one.probe)} inputs, classes {', '.join(one.classes)}) and {other.path} "
                f"({len(other.probe)} inputs, classes {', '.join(other.classes)}) are predictions on different inputs: "
                "embed them separately"
            )
    last = [film.snapshots[-1] for film in films]
    log_prior = torch.cat([shot.log_prior for shot in last]).log_softmax(0)  # every run has the same weight
    axes = principal_components(torch.cat([embedding(shot.log_p) for shot in last]), log_prior)
    probe = films[0].probe
    shown = _shown(probe.labels)
    classes = films[0].classes
    outputs = classes if named else tuple(f"output {c + 1}" for c in range(len(classes)))
    certain = {"truth": probe.labels} if named and films[0].known else {}
    certain |= {f"always {name}": torch.full_like(probe.labels, c) for c, name in enumerate(outputs)}
    points = torch.stack([truth(y, len(classes)) for y in certain.values()])
    clouds = [
        _cloud(f, name, order, axes, shown, progress) for f, name, order in zip(films, names, orders, strict=True)
    ]
    return Scene(
        clouds,
        axes.explained.tolist(),
        classes,
        outputs,
        probe.inputs[shown],
        probe.labels[shown].tolist(),
        probe.labels.tolist(),
        films[0].known,
        dict(zip(certain, axes.project(points).tolist(), strict=True)),
        dict(zip(certain, axes.distance(points).tolist(), strict=True)),
    )


def _shown(labels: Tensor) -> Tensor:
    """Choose a few inputs, of all classes in turn."""
    order = sorted(range(len(labels)), key=lambda i: (int((labels[:i] == labels[i]).sum()), int(labels[i])))
    return torch.tensor(order[:SHOWN])


def _cloud(film: Trajectory, name: str, order: int, axes: Components, shown: Tensor, progress: Progress) -> Cloud:
    shots = film.snapshots
    trained, order = order, affordable_order(order, *shots[0].log_p.shape)
    inputs = shots[0].log_p.shape[1] // order * order  # in tuples
    information, conditional = [], []
    for number, shot in enumerate(shots):
        progress(f"measuring snapshots of {name}", number, len(shots))
        information.append(information_of_tuples(shot.log_p, shot.log_prior, order).mean().item())
        conditional.append(order * average(entropy(shot.log_p[:, :inputs]).mean(-1), shot.log_prior).item())
    return Cloud(
        name,
        trained,
        order,
        [s.step for s in shots],
        np.stack([axes.project(embedding(s.log_p)).numpy() for s in shots]),
        _particle(shots, film.probe.labels, film.known),
        np.stack([s.log_p[:, shown].exp().numpy() for s in shots]),
        information,
        conditional,
        [is_constant(s.log_p).double().mean().item() for s in shots],
        _consensus(shots, film.probe.labels, film.known),
    )


def _particle(shots: Sequence[Snapshot], labels: Tensor, known: bool) -> Particle:
    most = float(np.log(shots[0].log_p.shape[-1]))
    unknown = 0.0 if known else math.nan
    each = [
        (
            accuracy(s.log_p, labels.clamp(min=0)).mean(-1) + unknown,
            entropy(s.log_p).mean(-1) / most,
            entropy(mixture(s.log_p.transpose(0, 1), uniform(s.log_p.shape[1], s.log_p))) / most,
        )
        for s in shots
    ]
    return Particle(*(np.stack([values.numpy() for values in column]) for column in zip(*each, strict=True)))


def affordable_order(order: int, particles: int, inputs: int, classes: int) -> int:
    """Return the order, or the largest below it whose labelings can be enumerated."""
    while order > 1 and (order > inputs or particles * (inputs // order) * classes**order > MOST_PROBABILITIES):
        order -= 1
    return order


def _consensus(shots: Sequence[Snapshot], labels: Tensor, known: bool) -> InputMap:
    """Map the inputs by the predictions of all particles, an output code, and cluster them into C clusters."""
    points = [output_code(s.log_p, s.log_prior) for s in shots]  # (n, K·C) each
    axes = principal_components(points[-1], count=2)
    last, classes = shots[-1].log_p, shots[-1].log_p.shape[-1]
    found = cluster(last, classes, shots[-1].log_prior).clusters(last)
    names = match(found, labels, classes)[found] if known else found
    right = (names == labels).double().mean().item() if known else None
    return InputMap(np.stack([axes.project(p).numpy() for p in points]), names.numpy(), right)
