"""Every file of a run folder, damaged in thousands of ways: it is read, or refused in one line that names it.

Half of the damage is to the bytes. The other half is to what is inside, with the checksums made right again, as by
someone who knows the format.
"""

import hashlib
import json
import random
import shutil
import struct
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from refprior import _files
from refprior.labeling import Questions
from refprior.networks import MLP
from refprior.particles import Particles
from refprior.training import _snapshot as snapshot
from refprior.training import load_predictor, train
from refprior.training._run import recipe_of
from refprior.training.store._checkpoint import load_weights, read_checkpoint, read_summary
from refprior.training.store._folder import read_records
from refprior.training.store._header import read_header
from tests.fuzz._mutations import fuzz, mutate
from tests.training.recipes import perceptron

FEW, MANY = 2_000, 100_000  # mutations of each kind of file
STEP = "step-00000002"
NETWORK = partial(MLP, (1, 8, 8), 10, hidden=3)
TELLING: tuple[Any, ...] = (
    None, True, 0, -1, 2, 1.5, 10**30, -(2**63), 1e308, 5e-324, "", "x" * 2000, "\0", "\x1b[2J", "[red]", "é\n",
    "refprior.methods.FixMatch", "os.system", "../../etc", [], {}, [0] * 50, {"type": "os.system"}, {"own": "x.Y"},
)  # fmt: skip

Damage = Callable[[bytes, random.Random], bytes]


class Kind(NamedTuple):
    """A kind of file: where it is, how it is read, and how to damage it so that its checksums are still right."""

    name: str
    read: Callable[[Path], object]
    deep: Damage = mutate


def inside_json(record: Any, rng: random.Random) -> Any:
    """Another value at some place, a key less, or a key of another name."""
    if rng.random() < 0.15 or not isinstance(record, dict | list) or not record:
        value = rng.choice(TELLING)
        return deep_list() if rng.random() < 0.02 else value
    if isinstance(record, list):
        place = rng.randrange(len(record))
        return [*record[:place], inside_json(record[place], rng), *record[place + 1 :]]
    key, chance = rng.choice(list(record)), rng.random()
    rest = {name: value for name, value in record.items() if name != key}
    if chance < 0.1:
        return rest
    return {**rest, f"{key}_" if chance < 0.2 else key: inside_json(record[key], rng)}


def deep_list(levels: int = 900) -> list[Any]:
    return [deep_list(levels - 1)] if levels else []


def inside_record(content: bytes, rng: random.Random) -> bytes:
    record = json.loads(content)
    record.pop(_files.SEAL)
    changed = inside_json(record, rng)
    if not isinstance(changed, dict):
        return json.dumps(changed).encode()
    return json.dumps({**changed, _files.SEAL: _files._checksum(changed)}).encode()


def inside_lines(content: bytes, rng: random.Random) -> bytes:
    lines = content.splitlines()
    place = rng.randrange(len(lines))
    lines[place] = json.dumps(inside_json(json.loads(lines[place]), rng)).encode()
    return b"\n".join(lines) + b"\n"


def inside_tensors(content: bytes, rng: random.Random) -> bytes:
    """Damage to the header of a safetensors file, whose length is then right."""
    (length,) = struct.unpack("<Q", content[:8])
    header, rest = content[8 : 8 + length], content[8 + length :]
    new = mutate(header, rng) if rng.random() < 0.5 else json.dumps(inside_json(json.loads(header), rng)).encode()
    return struct.pack("<Q", len(new)) + new + rest


def read_recipe(path: Path) -> object:
    return recipe_of(path.parent, read_header(path.parent), {})


def read_weights(path: Path) -> object:
    """As `load` does; the checksum in the record is that of the damaged file."""
    make_right(path, path.with_suffix(".json"))
    return load_weights(read_checkpoint(path.parents[1], 2), raw=particles(), ema=particles())


def read_model(path: Path) -> object:
    make_right(path, path.with_name("predictor.json"))
    return load_predictor(path.parent)


def make_right(path: Path, record: Path) -> None:
    """Have a record know the damaged file of tensors by its size and checksum."""
    summary = json.loads(record.read_text())
    summary.pop(_files.SEAL)
    summary["size"] = path.stat().st_size
    summary["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    record.write_text(json.dumps({**summary, _files.SEAL: _files._checksum(summary)}))


def read_snapshots(path: Path) -> object:
    return snapshot._read_snapshots(path.parents[1], read_header(path.parents[1]))


def particles() -> Particles:
    return Particles(NETWORK, 2)


KINDS = {
    "recipe": Kind("recipe.json", read_recipe, inside_record),
    "metrics": Kind("metrics.jsonl", lambda path: read_records(path.parent), inside_lines),
    "checkpoint record": Kind(f"checkpoints/{STEP}.json", lambda path: read_summary(path.parents[1], 2), inside_record),
    "weights": Kind(f"checkpoints/{STEP}.safetensors", read_weights, inside_tensors),
    "questions": Kind("questions.json", lambda path: Questions.load(path.parent), inside_record),
    "snapshot": Kind(
        f"snapshots/{STEP}.safetensors",
        read_snapshots,
        inside_tensors,
    ),
    "probe": Kind(
        "snapshots/probe.safetensors",
        read_snapshots,
        inside_tensors,
    ),
    "predictor": Kind("model/predictor.json", lambda path: load_predictor(path.parent), inside_record),
    "model": Kind("model/model.safetensors", read_model, inside_tensors),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "run"
    trained = train(perceptron(network=NETWORK, steps=2, particles=2, snapshots=1), folder)
    new = trained.task.held_out[torch.arange(2)]
    found = trained.given(new.inputs, [trained.data.classes[label] for label in new.labels])
    found = replace(found, log_prior_ratio=torch.zeros(10))
    found.save(folder / "model")
    Questions((7, 3, 9), (1, 0)).save(folder)
    return folder


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    return shutil.copytree(whole, tmp_path / "run")


def fuzz_kind(run: Path, kind: Kind, count: int) -> int:
    path = run / kind.name
    content = path.read_bytes()

    def damage(content: bytes, rng: random.Random) -> bytes:
        return (mutate if rng.random() < 0.5 else kind.deep)(content, rng)

    return fuzz(content, path, kind.read, count, damage=damage)


@pytest.mark.parametrize(
    "name", [name if name in ("recipe", "probe") else pytest.param(name, marks=pytest.mark.thorough) for name in KINDS]
)
def test_a_damaged_file_is_read_or_refused_in_one_line_that_names_it(run: Path, name: str) -> None:
    read = fuzz_kind(run, KINDS[name], FEW)
    assert read < FEW / 2


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_the_same_a_hundred_thousand_times(run: Path, name: str) -> None:
    fuzz_kind(run, KINDS[name], MANY)
