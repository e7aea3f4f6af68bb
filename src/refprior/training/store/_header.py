"""recipe.json: what a run is, as a record that reads back. It holds the recipe, what identifies the data and the
network, where the recipe came from, and one environment for each time that it was trained."""

import hashlib
import logging
import os
import platform
import shlex
import subprocess
import time
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path

import msgspec
import torch

from refprior import __version__
from refprior._files import Json, read_record, write_record
from refprior._words import in_short
from refprior.data import Task, TaskRecord
from refprior.particles import Particles
from refprior.training.recipe import Recipe
from refprior.training.store._folder import METRICS, RECIPE, check_no_links

FORMAT = 3
log = logging.getLogger("refprior")
REMEDY = "Give another folder, or pass --fresh (in Python fresh=True) to move it aside and start over"
_DECISIVE = ("python", "sources", "instructions", "threads")  # with the packages, what the last bits depend on
_OPTIONS = {"data": "--data", "source": "--source-data", "kind": "--kind"}  # of the command line
_PACKAGES = ("torch", "numpy", "scikit-learn", "safetensors")


@dataclass(frozen=True)
class Origin:
    """Where a recipe came from: a function by its name, its arguments, and changed settings.

    Parameters
    ----------
    recipe : str
        Name of the recipe, ``file.py:function``, or ``function()`` for a function of Python.
    arguments : dict
        Arguments of the function.
    settings : dict
        Changed settings by dotted name.
    defaults : dict
        Arguments of the function that were not given.
    own : dict of str to str
        The user's data: ``data``, ``source``, ``kind``.

    Examples
    --------
    >>> from refprior.training import Origin
    >>> Origin("digits_ssl", {"seed": 1}, {"steps": "100"}).command
    'refprior train digits_ssl --seed 1 --set steps=100'
    """

    recipe: str
    arguments: Json = field(default_factory=dict)
    settings: Json = field(default_factory=dict)
    defaults: Json = field(default_factory=dict)
    own: dict[str, str] = field(default_factory=dict)

    @property
    def changes(self) -> dict[str, str]:
        """Everything that was set by hand, except the seed."""
        changed = {**self.arguments, **self.settings, **{_OPTIONS[name]: value for name, value in self.own.items()}}
        return {
            name: ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
            for name, value in changed.items()
            if name != "seed"
        }

    @property
    def command(self) -> str | None:
        """The command line that trains it again; None for a function of Python."""
        if self.recipe.endswith("()") or any(value.startswith("<") for value in self.changes.values()):
            return None
        settings = [f"{name}={value}" for name, value in self.changes.items() if not name.startswith("--")]
        words = ["refprior", "train", self.recipe, "--seed", str(self.arguments.get("seed", 0))]
        words += [word for name, value in self.own.items() for word in (_OPTIONS[name], value)]
        return shlex.join([*words, *(["--set", *settings] if settings else [])])


@dataclass(frozen=True)
class Header:
    """The content of recipe.json."""

    recipe: Json  # Recipe.to_dict
    data: TaskRecord
    tensors: dict[str, tuple[int, ...]]  # of one network: names and shapes
    origin: Origin | None = None
    environments: list[Json] = field(default_factory=list)

    @property
    def steps(self) -> int:
        return int(self.recipe["steps"])

    @property
    def seed(self) -> int:
        return int(self.recipe["seed"])


def tensor_shapes(particles: Particles) -> dict[str, tuple[int, ...]]:
    """Return names and shapes of the tensors of one particle."""
    return {name: tuple(tensor.shape[1:]) for name, tensor in particles.network.state_dict().items()}


def write_header(folder: Path, recipe: Recipe, task: Task, particles: Particles, origin: Origin | None) -> None:
    """Write recipe.json, with the environment of this time added to the earlier ones."""
    before = read_header(folder) if (folder / RECIPE).exists() else None
    earlier = [] if before is None else before.environments
    if origin is None and before is not None:
        origin = before.origin
    this = environment(origin)
    if earlier:
        known = {name: earlier[-1].get(name) for name in (*_DECISIVE, "packages")}
        changes = differences(known, {name: this[name] for name in known})
        if changes:
            log.warning("%s resumes with %s (then → now): the last bits may differ", folder, "; ".join(changes))
    now = Header(recipe.to_dict(), task.fingerprint(), tensor_shapes(particles), origin, [*earlier, this])
    write_record(folder / RECIPE, FORMAT, msgspec.to_builtins(now))


def read_header(folder: Path) -> Header:
    """Read recipe.json and check it as far as this program reads it."""
    path = folder / RECIPE
    check_no_links(folder)
    if not path.exists():
        raise ValueError(f"{folder} is not a run folder: it has no {RECIPE}")
    record = read_record(path, FORMAT)
    try:
        header = msgspec.convert(record, Header)
    except ValueError as error:
        raise ValueError(f"{path} is not the record of a run: {in_short(error)}") from None
    if not all(isinstance(header.recipe.get(name), int) for name in ("steps", "seed")):
        raise ValueError(f"{path} is not the record of a run: steps and seed must be whole numbers")
    return header


def check_same_run(folder: Path, recipe: Recipe) -> None:
    """Raise a ValueError if another recipe made the run, or if a part of it is missing."""
    trained = (folder / METRICS).exists() and (folder / METRICS).stat().st_size > 0
    saved = any(folder.glob("checkpoints/step-*.json"))
    if not (folder / RECIPE).exists():
        if trained or saved:
            raise ValueError(f"{folder} holds a run without its {RECIPE}: give another --out, or --fresh")
        return
    if trained and not saved:
        raise ValueError(f"{folder} holds a run without its checkpoints: give another --out, or --fresh")
    changes = differences(read_header(folder).recipe, recipe.to_dict())
    if changes:
        raise ValueError(f"{folder} was made by another recipe: {'; '.join(changes)} (there → now). {REMEDY}")


def check_same_parts(folder: Path, task: Task, particles: Particles) -> None:
    """Raise a ValueError for other data, or for another network of the same name."""
    if not (folder / RECIPE).exists():
        return
    header = read_header(folder)
    check_same_data(header.data, task, str(folder), REMEDY)
    check_same_network(header, particles, str(folder), REMEDY)


def check_same_data(known: TaskRecord, task: Task, where: str, remedy: str) -> None:
    """Reject a task that is not the one of the record."""
    changes = known.differences(task.fingerprint())
    if changes:
        raise ValueError(f"{where} was trained on other data: {'; '.join(changes)} (there → now). {remedy}")


def check_same_network(header: Header, particles: Particles, where: str, remedy: str) -> None:
    """Raise a ValueError for a network whose tensors have other names or shapes."""
    known, found = header.tensors, tensor_shapes(particles)
    changes = [
        f"{n}: {known.get(n)} → {found.get(n)}" for n in dict.fromkeys([*known, *found]) if known.get(n) != found.get(n)
    ]
    if changes:
        more = f" and {len(changes) - 3} more" if len(changes) > 3 else ""
        raise ValueError(
            f"{where} was trained with another network: {'; '.join(changes[:3])}{more} (there → now). {remedy}"
        )


def differences(old: object, new: object, path: str = "") -> list[str]:
    """List where two descriptions differ: `method.alpha: 0.1 → 0.2`."""
    if isinstance(old, dict) and isinstance(new, dict):
        names = dict.fromkeys([*old, *new])
        return [c for n in names for c in differences(old.get(n), new.get(n), f"{path}.{n}".lstrip("."))]
    return [] if old == new else [f"{path}: {old} → {new}"]


def environment(origin: Origin | None) -> Json:
    """Return what made a run: versions, sources, machine, threads, time, and the command to repeat it."""
    return {
        "python": platform.python_version(),
        "packages": packages(),
        "sources": _sources(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "commit": _commit(),
        "repeat": origin.command if origin is not None else None,
    }


def packages() -> dict[str, str]:
    """Return the versions of refprior and of the packages that its numbers depend on."""
    return {"refprior": __version__, **{name: version(name) for name in _PACKAGES}}


@cache
def _sources() -> str:
    """Return a hash of the package's code."""
    root, digest = Path(__file__).parents[2], hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _commit() -> str | None:
    """Return the commit of the source if it is a checkout, not that of a repository around it."""
    command = ["git", "-C", str(Path(__file__).parent), "log", "-1", "--format=%H", "--", Path(__file__).name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10)
        if done.returncode or not done.stdout.strip():  # not a repository, or this file is not in its history
            return None
        head = subprocess.run([*command[:3], "rev-parse", "HEAD"], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return head.stdout.strip() or None
