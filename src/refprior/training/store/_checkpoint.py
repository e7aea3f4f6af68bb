"""Checkpoints: everything that changes while training, in files that are safe to open and whole or absent.

A checkpoint is two files in `checkpoints/`: `step-N.safetensors` holds every tensor, `step-N.json` its checksum and
the rest. Each is written to the side, synced and renamed, the JSON last: it makes the checkpoint exist. The last two
are kept, so that a damaged one does no harm. Nothing is ever unpickled.
"""

import logging
import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

import msgspec
import torch
from torch import Tensor

from refprior._files import Json, read_record, write_record
from refprior._words import in_short
from refprior.data import Normalizer
from refprior.particles import Execution, Particles
from refprior.training.loop import FIRST_SCALE, Precision, Record, State, Trouble, load_randomness, randomness_state
from refprior.training.recipe import is_custom_optimizer
from refprior.training.store._folder import (
    METRICS,
    Entry,
    Metrics,
    Own,
    Written,
    digest,
    read_records,
    read_tensors,
    tensors_of,
    write_stream,
    write_tensors,
)

FORMAT = 3
FOLDER = "checkpoints"
KEPT = 2
Tensors = dict[str, Tensor]
T = TypeVar("T")
_KEPT_NUMBERS = ("seconds", "skipped", "precision", "execution", "overflows", "scale", "since_scaled")
_NUMBERS = {"bool": torch.bool, "int": torch.int64, "float": torch.float64, "none": torch.bool}
log = logging.getLogger("refprior")


class CheckpointError(ValueError):
    """A checkpoint that cannot be used; the message names the file."""


@dataclass(frozen=True)
class Summary:
    """The content of `step-N.json`."""

    step: int
    size: int  # of the file of tensors, in bytes
    sha256: str  # of that file
    metrics: Written  # metrics.jsonl at this step
    seconds: float  # spent training
    skipped: int
    precision: Precision | None = None  # that "auto" was found to be
    execution: Execution | None = None  # the same
    overflows: int = 0
    scale: float = FIRST_SCALE
    since_scaled: int = 0


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that was read."""

    path: Path  # of the tensors
    summary: Summary
    tensors: Tensors


def save_checkpoint(folder: Path, state: State, metrics: Written) -> Path:
    """Write the checkpoint of this step, then forget all but the last two.

    The first rank writes, and the others give it their particles block by block. It holds no more of them at a time
    than one block, and the file does not know how many ranks there were.
    """
    mesh, path = state.particles.mesh, folder / FOLDER / f"step-{state.step:08}.safetensors"
    tensors = dict(sorted(state_tensors(state).items(), key=lambda item: -item[1].element_size()))
    pieces = _pieces(state, tensors)
    error: OSError | None = None
    if mesh.main:
        try:
            _save(path, state, metrics, tensors, pieces)
        except OSError as caught:  # a full disk; the others must not wait
            error = caught
    for _ in pieces:  # what the other ranks give, or still want to
        pass
    with mesh.together():
        if error is not None:
            raise error
    return path


def _save(path: Path, state: State, metrics: Written, tensors: Tensors, pieces: Iterator[Tensor]) -> None:
    """Write both files of a checkpoint, and remove all but the last two checkpoints."""
    path.parent.mkdir(exist_ok=True)
    write_stream(path, entries(state, tensors), pieces)
    size, sha256 = path.stat().st_size, digest(path)
    kept = {name: getattr(state, name) for name in _KEPT_NUMBERS}
    summary = Summary(step=state.step, size=size, sha256=sha256, metrics=metrics, **kept)
    write_record(path.with_suffix(".json"), FORMAT, asdict(summary))
    newest = {f"step-{step:08}" for step in checkpoint_steps(path.parents[1])[:KEPT]}
    for old in path.parent.glob("step-*"):
        if old.name.partition(".")[0] not in newest:
            old.unlink(missing_ok=True)


def _pieces(state: State, tensors: Tensors) -> Iterator[Tensor]:
    """Yield everything that a file holds, in order."""
    for name, tensor in tensors.items():
        if is_shared(state, name, tensor.dim()):
            yield from state.particles.mesh.blocks(tensor)
        else:
            yield tensor


def is_shared(state: State, name: str, dimensions: int) -> bool:
    """Return whether ranks hold different particles of a tensor: weights, and the optimizer's state of them."""
    part, _, rest = name.partition(".")
    if part != "optimizer":
        return part in ("particles", "teacher") and rest.startswith("network.")
    number = rest.partition(".")[0]
    parameters = [p for group in state.optimizer.param_groups for p in group["params"]]
    return dimensions > 0 and number != "group" and parameters[int(number)] is not state.particles.prior_logits


def entries(state: State, tensors: Tensors) -> dict[str, Entry]:
    """Return types and shapes of the tensors in a file, which holds all particles."""
    found, ranks = {}, state.particles.mesh.particle
    for name, tensor in tensors.items():
        shape = tuple(tensor.shape)
        if ranks > 1 and is_shared(state, name, tensor.dim()):
            if shape[0] * ranks != state.particles.count:
                raise ValueError(f"{name} is {shape}, not one row per particle: train with particle_ranks=1")
            shape = (state.particles.count, *shape[1:])
        found[name] = Entry(tensor.dtype, shape)
    return found


def _own(state: State) -> Own | None:
    """Return a function that gives this rank's rows of each tensor of a file."""
    mesh, count = state.particles.mesh, state.particles.count
    if mesh.particle == 1:
        return None

    def own(name: str, shape: tuple[int, ...]) -> slice | None:
        if not is_shared(state, name, len(shape)):
            return None
        if shape[:1] != (count,):
            raise ValueError(f"{name} has the shape {shape}, of {count} particles expected")
        return mesh.block(count)

    return own


def checkpoint_steps(folder: Path) -> list[int]:
    """Return the steps of all checkpoints, the latest first."""
    names = (re.fullmatch(r"step-([0-9]{8,})\.json", path.name) for path in (folder / FOLDER).glob("step-*.json"))
    return sorted((int(match[1]) for match in names if match), reverse=True)


def read_checkpoint(folder: Path, step: int, state: State | None = None) -> Checkpoint:
    """Read and check one checkpoint; raise a CheckpointError if it is damaged. state: read its particles only."""
    path = folder / FOLDER / f"step-{step:08}.safetensors"
    summary = read_summary(folder, step)
    try:
        own = None if state is None else _own(state)
        return Checkpoint(path, summary, read_tensors(path, summary.size, summary.sha256, f"{path.stem}.json", own))
    except (ValueError, IndexError) as error:
        raise CheckpointError(str(error)) from None


def read_summary(folder: Path, step: int) -> Summary:
    """Read and check `step-N.json`."""
    path = folder / FOLDER / f"step-{step:08}.json"
    try:
        summary = msgspec.convert(read_record(path, FORMAT), Summary)
    except (FileNotFoundError, ValueError) as error:
        named = str(path) in str(error)
        raise CheckpointError(str(error) if named else f"{path} is damaged: {in_short(error)}") from None
    if summary.step != step:
        raise CheckpointError(f"{path} is of step {summary.step}: it was renamed")
    return summary


def read_history(folder: Path) -> list[Record]:
    """Read all records of a run in order, if they are those that its newest checkpoint knows."""
    for step in checkpoint_steps(folder):
        with suppress(CheckpointError):
            return read_records(folder, read_summary(folder, step).metrics)
    return read_records(folder) if (folder / METRICS).exists() else []


def state_tensors(state: State) -> Tensors:
    """Return every tensor of the state by a dotted name."""
    parts: dict[str, Tensors] = {
        "particles": state.particles.state_dict(),
        "teacher": state.teacher.state_dict(),
        "optimizer": _optimizer_tensors(state.optimizer),
        "normalizer": state.normalizer.state_dict(),
        "fingerprints": {"labeled": state.labeled},
        **state.sampler.state_dict(),
        "global": randomness_state(state.sampler.generator.device),
        "memory": {name: tensor.clone() for name, tensor in state.memory.items()},  # a file takes no tensor twice
        "trust": state.trust or {},
    }
    return {f"{part}.{name}": tensor for part, tensors in parts.items() for name, tensor in tensors.items()}


def restore_state(state: State, checkpoint: Checkpoint) -> None:
    """Put a checkpoint into a state that `begin` made for the same recipe."""
    saved, summary, device = checkpoint.tensors, checkpoint.summary, state.particles.prior_logits.device
    _check_fit(checkpoint, state_tensors(state))
    try:
        state.particles.load_state_dict(tensors_of(saved, "particles"))
        state.teacher.load_state_dict(tensors_of(saved, "teacher"))
        _load_optimizer(
            state.optimizer, tensors_of(saved, "optimizer"), summary.step > summary.skipped + summary.overflows
        )
        state.normalizer = Normalizer.from_tensors(tensors_of(saved, "normalizer")).to(device)
        state.sampler.load_state_dict({name: tensors_of(saved, name) for name in state.sampler.state_dict()})
        load_randomness(tensors_of(saved, "global"), state.sampler.generator.device)
    except (RuntimeError, TypeError, ValueError, KeyError) as error:
        raise CheckpointError(f"{checkpoint.path} does not fit this run: {in_short(error)}") from None
    state.memory = {name: tensor.to(device) for name, tensor in tensors_of(saved, "memory").items()}
    state.trust = {name: tensor.to(device) for name, tensor in tensors_of(saved, "trust").items()} or None
    state.step = summary.step
    for name in _KEPT_NUMBERS:
        setattr(state, name, getattr(summary, name))
    if state.execution is not None:
        state.particles.execution = state.teacher.execution = state.execution


def saved_normalizer(folder: Path, device: torch.device) -> Normalizer | None:
    """Return the normalizer of the newest checkpoint that can be read; None without one."""
    for step in checkpoint_steps(folder):
        with suppress(CheckpointError, TypeError):
            fitted = tensors_of(read_checkpoint(folder, step).tensors, "normalizer")
            return Normalizer.from_tensors(fitted).to(device)
    return None


def load_weights(checkpoint: Checkpoint, *, raw: Particles, ema: Particles) -> Normalizer:
    """Load the weights of a checkpoint into particles and return its normalizer: all that predictions need."""
    try:
        raw.load_state_dict(tensors_of(checkpoint.tensors, "particles"))
        ema.load_state_dict(tensors_of(checkpoint.tensors, "teacher"))
        return Normalizer.from_tensors(tensors_of(checkpoint.tensors, "normalizer"))
    except (RuntimeError, TypeError, ValueError, KeyError) as error:
        raise CheckpointError(f"{checkpoint.path} does not fit its recipe: {in_short(error)}") from None


def load_fingerprints(checkpoint: Checkpoint) -> Tensor | None:
    """Return the fingerprints of the labeled inputs, (b,); older files have none."""
    found = checkpoint.tensors.get("fingerprints.labeled")
    if found is not None and (found.dim() != 1 or found.dtype != torch.int64):
        raise CheckpointError(f"{checkpoint.path} is damaged: fingerprints are {tuple(found.shape)} {found.dtype}")
    return found


def latest_checkpoint(
    folder: Path, use: Callable[[Checkpoint], T], *, rename_damaged: bool = False, state: State | None = None
) -> T | None:
    """What `use` makes of the newest checkpoint that it can use; None if there is no checkpoint at all.

    A damaged one is left out with a warning. rename_damaged: it no longer counts as one of the two that are kept.
    state: which particles to read, of a run on several ranks.
    """
    problems: dict[int, str] = {}
    for step in checkpoint_steps(folder):
        try:
            used = use(read_checkpoint(folder, step, state))
        except CheckpointError as error:
            problems[step] = str(error)
            continue
        for damaged, problem in problems.items():
            log.warning("%s; going back to step %d", problem, step)
            record = folder / FOLDER / f"step-{damaged:08}.json"
            if rename_damaged:
                with suppress(FileNotFoundError):
                    record.replace(record.with_suffix(".json.damaged"))
        return used
    if problems:
        raise CheckpointError(f"no checkpoint in {folder} can be used: {next(iter(problems.values()))}")
    return None


def _check_fit(checkpoint: Checkpoint, expected: Tensors) -> None:
    """Raise a CheckpointError unless names, shapes and types are those of the run; some may grow in training."""
    free = (
        "fingerprints.",  # absent in older files
        "memory.",
        "weak.",
        "strong.",
        "optimizer.",
        "labeled.waiting",
        "unlabeled.waiting",
        "source.waiting",
        "global.cuda",
    )
    shapes = {name: (tuple(t.shape), t.dtype) for name, t in expected.items() if not name.startswith(free)}
    found = {name: (tuple(t.shape), t.dtype) for name, t in checkpoint.tensors.items() if not name.startswith(free)}
    wrong = sorted(name for name in {*shapes, *found} if shapes.get(name) != found.get(name))
    waiting = [t for name, t in checkpoint.tensors.items() if name.endswith(".waiting")]
    if any(t.dtype != torch.int64 or t.dim() != 1 for t in waiting):
        raise CheckpointError(f"{checkpoint.path} does not fit this run: a stream is not a row of whole numbers")
    if wrong:
        name = wrong[0]
        raise CheckpointError(
            f"{checkpoint.path} does not fit this run: {name} is {found.get(name, 'missing')}, "
            f"expected {shapes.get(name, 'nothing of that name')}"
        )


def _optimizer_tensors(optimizer: torch.optim.Optimizer) -> Tensors:
    """Return what the optimizer remembers of each parameter; its settings come from the recipe.

    A custom optimizer may also keep numbers, and change those of its parameter groups: `group.0.d:float`.
    """
    state: dict[int, dict[str, object]] = optimizer.state_dict()["state"]
    found = {f"{number}.{key}": value for number, values in state.items() for key, value in values.items()}
    if is_custom_optimizer(optimizer):
        for number, group in enumerate(optimizer.param_groups):
            numbers = {key: value for key, value in group.items() if isinstance(value, float | int | Tensor)}
            found |= {f"group.{number}.{key}": value for key, value in numbers.items() if "lr" not in key}
    tensors: Tensors = {}
    for name, value in found.items():
        if isinstance(value, Tensor):
            tensors[name] = value
        elif isinstance(value, bool | int | float | None):
            kind = "none" if value is None else type(value).__name__
            tensors[f"{name}:{kind}"] = torch.tensor(value or 0, dtype=_NUMBERS[kind])
        else:
            raise ValueError(
                f"the optimizer keeps a {type(value).__name__}, {name}: only tensors and numbers are saved"
            )
    return tensors


def _load_optimizer(optimizer: torch.optim.Optimizer, tensors: Tensors, stepped: bool) -> None:
    custom = is_custom_optimizer(optimizer)
    if stepped and not tensors and not custom and optimizer.defaults.get("momentum", 1):
        raise ValueError("the optimizer's memory is missing")
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    state: dict[int, Json] = {}
    for name, tensor in tensors.items():
        place, _, kind = name.partition(":")
        value = tensor if not kind else None if kind == "none" else tensor.item()
        number, _, key = place.partition(".")
        if number == "group":
            number, _, key = key.partition(".")
            optimizer.param_groups[int(number)][key] = value
        else:
            state.setdefault(int(number), {})[key] = value
    if custom:  # torch would convert its tensors to the type of the parameter
        for index, values in state.items():
            device = parameters[index].device
            optimizer.state[parameters[index]] = {
                key: value.to(device) if isinstance(value, Tensor) and value.dim() else value
                for key, value in values.items()
            }
        return
    for index, values in state.items():
        if index >= len(parameters) or any(v.dim() and v.shape != parameters[index].shape for v in values.values()):
            raise ValueError(f"optimizer memory of parameter {index} has the wrong shape")
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})


class Saver:
    """Saves every 30 seconds, or less often if saving would take more than 1 % of the time; survives a full disk."""

    def __init__(self, path: Path, metrics: Metrics | None, every: float | None) -> None:
        """metrics: None on ranks that write nothing."""
        self.path = path
        self.metrics = metrics
        self.every = every
        self.interval = 30.0 if every is None else every
        self.last = time.perf_counter()

    def due(self) -> bool:
        return time.perf_counter() - self.last >= self.interval

    def append(self, record: Record) -> None:
        if self.metrics is not None:
            self.metrics.append(record)

    def save(self, state: State) -> None:
        started = time.perf_counter()
        with state.particles.mesh.together():
            written = Written() if self.metrics is None else self.metrics.sync()
        save_checkpoint(self.path, state, written)
        self.last = time.perf_counter()
        if self.every is None:
            self.interval = max(30.0, 120 * (self.last - started))

    def try_save(self, state: State) -> None:
        """Save; if that fails, warn, keep the old checkpoint and try again later."""
        try:
            self.save(state)
        except OSError as error:
            self.last = time.perf_counter()
            log.warning("could not save step %d (%s): the old checkpoint stays, trying again later", state.step, error)

    def must_save(self, state: State, tries: int = 5, wait: float = 2.0) -> None:
        """Save, trying several times; then raise an OSError that names the checkpoint that is left."""
        for attempt in range(tries):
            try:
                return self.save(state)
            except OSError as error:
                log.warning("could not save step %d (%s), try %d of %d", state.step, error, attempt + 1, tries)
                time.sleep(wait)
        left = checkpoint_steps(self.path)[:1]
        raise OSError(
            f"could not save step {state.step} in {self.path}; the checkpoint of step {left[0] if left else 0} stays. "
            "Free some space; the same command resumes from there"
        )


def dump_batch(folder: Path, trouble: Trouble) -> Path:
    """Write the batch of a step that was not finite, for debugging; return the file."""
    path = folder / f"trouble-step-{trouble.step:08}.safetensors"
    batch = trouble.batch
    tensors = {"labeled": batch.labeled, "labels": batch.labels, "index": batch.index, **batch.views}
    tensors |= {"labeled_index": batch.labeled_index, "source": batch.source, "source_labels": batch.source_labels}
    write_tensors(path, tensors, {"trouble": str(trouble)})
    return path
