"""Snapshots: what all particles predict on a few fixed inputs, now and then while they train.

`snapshots/step-N.safetensors` holds the log-probabilities and the prior's log-weights, `snapshots/probe.safetensors`
the inputs and their labels. A run that kept no snapshots is seen through its checkpoints.
"""

# K particles, n probe inputs, C classes

import hashlib
import json
import logging
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from refprior._checks import number
from refprior._process import check_memory
from refprior._words import in_bytes, in_short
from refprior.data import Examples, Normalizer, Task
from refprior.particles import Particles
from refprior.training._run import recipe_of, same_task
from refprior.training.loop import State, check_loading_fits, log_probabilities, new_particles
from refprior.training.recipe import Recipe
from refprior.training.store import (
    CheckpointError,
    Header,
    checkpoint_steps,
    load_weights,
    read_checkpoint,
    read_header,
    write_tensors,
)

FOLDER, PROBE = "snapshots", "probe.safetensors"
PROBES = 200  # inputs
UNKNOWN = -1  # the label of an unlabeled input
_HEAD = 1 << 20  # bytes of names and shapes in a file, at most
log = logging.getLogger("refprior")


@dataclass(frozen=True)
class Snapshot:
    """The particles at one step."""

    step: int
    log_p: Tensor  # (K, n, C)
    log_prior: Tensor  # (K,)


@dataclass(frozen=True)
class Trajectory:
    """All snapshots of a run in order of steps, and the inputs that they predict."""

    path: Path
    probe: Examples
    classes: tuple[str, ...]
    snapshots: tuple[Snapshot, ...]

    @property
    def known(self) -> bool:
        """Whether the inputs have labels; those of the unlabeled pool have none."""
        return bool((self.probe.labels != UNKNOWN).all())

    def __post_init__(self) -> None:
        if not self.snapshots:
            raise ValueError(f"{self.path}: a trajectory needs at least one snapshot")
        labels, classes = self.probe.labels, len(self.classes)
        known = labels if (labels != UNKNOWN).any() else labels[:0]
        if labels.dtype != torch.int64 or ((known < 0) | (known >= classes)).any():
            path = self.path / FOLDER / PROBE
            raise ValueError(f"{path}: the labels of the inputs must be whole numbers from 0 to {classes - 1}")
        particles = self.snapshots[0].log_p.shape[:1]
        for shot in self.snapshots:
            _check_snapshot(_file(self.path, shot.step), shot, (*particles, len(self.probe), classes))


def _check_snapshot(path: Path, shot: Snapshot, wanted: tuple[int, ...]) -> None:
    """Check that a snapshot has the shape of the run and holds logarithms: -inf is one, NaN is not."""
    if shot.log_p.shape != wanted or shot.log_prior.shape != wanted[:1]:
        raise ValueError(
            f"{path} has predictions {tuple(shot.log_p.shape)} and prior weights {tuple(shot.log_prior.shape)}, "
            f"the run (particles, inputs, classes) {wanted}: not of one run"
        )
    kinds = (shot.log_p, shot.log_prior)
    if not all(values.is_floating_point() and (values < torch.inf).all() for values in kinds):
        raise ValueError(f"{path} has predictions or prior weights that are not numbers: delete that snapshot")


def snapshot_steps(recipe: Recipe) -> set[int]:
    """Return the steps of all snapshots, steps · (i / snapshots)²: the particles spread fastest in the beginning."""
    return {round(recipe.steps * (i / recipe.snapshots) ** 2) for i in range(recipe.snapshots + 1) if recipe.snapshots}


def probe_inputs(task: Task) -> Examples:
    """Return inputs at equal intervals of the test part, or of the unlabeled pool with UNKNOWN labels without one."""
    part = task.labeled if task.test is None else task.test
    if task.test is None and len(task.unlabeled):
        part = Examples(task.unlabeled, torch.full((len(task.unlabeled),), UNKNOWN, device=task.unlabeled.device))
    return part[torch.linspace(0, len(part) - 1, min(PROBES, len(part))).long().to(part.labels.device)]


def save_snapshot(folder: Path, task: Task, state: State) -> None:
    """Write the snapshot of this step. All ranks predict, and the first one writes."""
    taken = take_snapshot(task, state.step, state.particles, state.normalizer)
    if not state.particles.mesh.main:
        return
    examples = probe_inputs(task)
    (folder / FOLDER).mkdir(exist_ok=True)
    if not (folder / FOLDER / PROBE).exists():
        _write_tensors(
            folder / FOLDER / PROBE,
            {"images": examples.inputs, "labels": examples.labels},
            classes=json.dumps(task.classes),
        )
    _write_tensors(_file(folder, taken.step), {"log_p": taken.log_p, "log_prior": taken.log_prior})


def take_snapshot(task: Task, step: int, particles: Particles, normalizer: Normalizer) -> Snapshot:
    """Return the snapshot of this moment."""
    log_p = log_probabilities(particles, normalizer, probe_inputs(task).inputs, len(task.classes))
    return Snapshot(step, log_p, particles.log_prior.detach())


def read_trajectory(path: Path | str, **parts: Any) -> Trajectory:
    """Read the snapshots of a run, or what its checkpoints predict if it has none.

    Parameters
    ----------
    path : Path or str
        The run folder.
    **parts
        Custom parts, as in `load`; only checkpoints need them.

    Returns
    -------
    Trajectory
        ``probe``, the inputs with their labels, ``classes``, and ``snapshots`` with ``step``, ``log_p`` (K, n, C) and
        ``log_prior`` (K,).

    Examples
    --------
    >>> import refprior as rp
    >>> recipe = rp.recipes.override(rp.recipes.digits_ssl(), {"steps": 4, "snapshots": 2})
    >>> run = rp.train(recipe, "runs/seen")
    >>> [shot.step for shot in rp.training.read_trajectory("runs/seen").snapshots]
    [0, 1, 4]
    """
    path = Path(path)
    header = read_header(path)
    found = _read_snapshots(path, header)
    if found is not None:
        return found
    recipe = recipe_of(path, header, parts)
    return _from_checkpoints(path, recipe, same_task(recipe, header, path, torch.device("cpu")))


def _read_snapshots(folder: Path, header: Header) -> Trajectory | None:
    """Read the snapshots of a run folder; None if it has none. A file larger than its kind can be is rejected."""
    names = (re.fullmatch(r"step-([0-9]{8,})\.safetensors", path.name) for path in (folder / FOLDER).glob("step-*"))
    found = sorted(int(match[1]) for match in names if match)
    if not found:
        return None
    examples, classes = _read_probe(folder / FOLDER / PROBE, math.prod(header.data.shape))
    outputs = len(header.data.classes) + 1
    numbers = number("particles", header.recipe.get("particles"), at_least=1) * PROBES * outputs
    parts = [_read_tensors(_file(folder, step), numbers, "log_p", "log_prior")[0] for step in found]
    shots = tuple(Snapshot(step, *part) for step, part in zip(found, parts, strict=True))
    return Trajectory(folder, examples, classes, shots)


def _from_checkpoints(folder: Path, recipe: Recipe, task: Task) -> Trajectory:
    """Predict with the first weights and all checkpoints of a run without snapshots; skip damaged checkpoints."""
    check_loading_fits(recipe.network, recipe.particles)
    raw, ema = (new_particles(recipe) for _ in range(2))
    first = [take_snapshot(task, 0, raw, recipe.inputs.fit(task.training_inputs))] if recipe.start is None else []
    taken = []
    for step in sorted(checkpoint_steps(folder)):
        try:
            normalizer = load_weights(read_checkpoint(folder, step), raw=raw, ema=ema)
        except CheckpointError as error:
            log.warning("%s; continuing without it", error)
        else:
            taken.append(take_snapshot(task, step, raw, normalizer))
    if not taken:
        raise ValueError(f"{folder} holds no snapshot and no checkpoint that can be read: nothing to see yet")
    snapshots = {shot.step: shot for shot in first + taken}
    return Trajectory(folder, probe_inputs(task), task.classes, tuple(snapshots.values()))


def _file(folder: Path, step: int) -> Path:
    return folder / FOLDER / f"step-{step:08}.safetensors"


def _read_probe(path: Path, size: int) -> tuple[Examples, tuple[str, ...]]:
    """Read the inputs with their labels, and the names of the classes."""
    tensors, metadata = _read_tensors(path, PROBES * (size + 1), "images", "labels")
    try:
        names = json.loads(metadata.get("classes", "null"))
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError(f"its classes are {names}")
        return Examples(*tensors), tuple(names)
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {in_short(error)}") from None


def _write_tensors(path: Path, tensors: dict[str, Tensor], **metadata: str) -> None:
    """Write a file of tensors that holds its own checksum."""
    write_tensors(path, tensors, {**metadata, "sha256": _digest(tensors, metadata)})


def _digest(tensors: dict[str, Tensor], metadata: dict[str, str]) -> str:
    digest = hashlib.sha256(json.dumps(metadata, sort_keys=True).encode())
    for name, tensor in tensors.items():
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _read_tensors(path: Path, numbers: float, *names: str) -> tuple[list[Tensor], dict[str, str]]:
    """Read tensors of at most that many numbers together, and the metadata of the file."""
    size = path.stat().st_size if path.exists() else 0
    if size > 8 * numbers + _HEAD:
        raise ValueError(f"{path} has {size:,} bytes, more than a snapshot of this run: not read")
    check_memory(2.0 * size, f"{path}, {in_bytes(size)},")
    try:
        with safe_open(path, "pt") as file:
            tensors, metadata = {name: file.get_tensor(name) for name in names}, file.metadata() or {}
        if metadata.pop("sha256", None) != _digest(tensors, metadata):
            raise ValueError(f"{path} is damaged: its content does not match its checksum")
        return list(tensors.values()), metadata
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{path} cannot be read: {in_short(error)}") from None
