"""A run folder: recipe.json, metrics.jsonl and the weights. Everything in it can be read without this program."""

import json
import os
import platform
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from refprior import __version__
from refprior.particles import Particles
from refprior.train.loop import Record

RECIPE, METRICS = "recipe.json", "metrics.jsonl"
WEIGHTS = {"raw": "raw.safetensors", "ema": "ema.safetensors"}
_PACKAGES = ("torch", "numpy", "scikit-learn", "safetensors")


def create(folder: Path) -> None:
    """Make a folder for a new run; one that holds a run already is left alone."""
    if (folder / METRICS).exists():
        raise ValueError(f"{folder} holds a run already: give another folder, or remove that one")
    folder.mkdir(parents=True, exist_ok=True)


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Write to the side, sync, rename: a reader sees the old file or the new one, never a part."""
    temporary = path.with_name(path.name + ".part")
    write(temporary)
    with temporary.open("rb") as file:
        os.fsync(file.fileno())
    temporary.replace(path)


def write_json(path: Path, content: Any) -> None:
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def write_text(path: Path, text: str) -> None:
    write_atomically(path, lambda side: side.write_text(text, encoding="utf-8"))


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"{path.parent} is not a run folder: it has no {path.name}") from None
    except ValueError as error:
        raise ValueError(f"{path} is not valid JSON: {error}") from None


def append_record(folder: Path, record: Record) -> None:
    with (folder / METRICS).open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


def read_records(folder: Path) -> list[Record]:
    """All records of a run, in order."""
    path = folder / METRICS
    if not path.exists():
        raise ValueError(f"{folder} has no {METRICS}: nothing was trained there")
    records = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            records.append(json.loads(line))
        except ValueError:
            raise ValueError(f"{path}, line {number} is not valid JSON") from None
    return records


def save_weights(folder: Path, kind: str, particles: Particles) -> None:
    tensors = {name: t.detach().cpu().contiguous() for name, t in particles.state_dict().items()}
    write_atomically(folder / WEIGHTS[kind], lambda path: save_file(tensors, path))


def load_weights(folder: Path, kind: str, particles: Particles) -> None:
    path = folder / WEIGHTS[kind]
    if not path.exists():
        raise ValueError(f"{folder} has no {path.name}: the run did not finish")
    try:
        tensors = load_file(path)
    except (SafetensorError, OSError) as error:
        raise ValueError(f"{path} is corrupt: {error}") from None
    expected = {name: tuple(t.shape) for name, t in particles.state_dict().items()}
    found = {name: tuple(t.shape) for name, t in tensors.items()}
    if expected != found:
        wrong = sorted(set(expected.items()) ^ set(found.items()))[0]
        raise ValueError(f"{path} does not fit the recipe's network: {wrong[0]} {wrong[1]}")
    particles.load_state_dict(tensors)


def environment() -> dict[str, Any]:
    """What made a run: versions, machine, threads, time and command."""
    return {
        "python": platform.python_version(),
        "packages": {"refprior": __version__, **{name: version(name) for name in _PACKAGES}},
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "threads": torch.get_num_threads(),
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "command": " ".join(["refprior", *sys.argv[1:]]) if Path(sys.argv[0]).stem == "refprior" else None,
    }
