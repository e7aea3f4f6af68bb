"""Runs that are interrupted, and whether they end as those that are not."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from refprior.training import Recipe, Record, Stopped, train
from refprior.training.store._checkpoint import checkpoint_steps


def final_weights(path: Path) -> dict[str, torch.Tensor]:
    latest = checkpoint_steps(path)[0]
    return load_file(path / "checkpoints" / f"step-{latest:08}.safetensors")


def metrics(path: Path) -> list[dict[str, Any]]:
    """All records without the one thing that may differ: time."""
    records = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in record.items() if key != "seconds"} for record in records]


def assert_same_run(one: Path, other: Path) -> None:
    """Bit for bit: weights, EMA, optimizer, normalizer, generators, streams, and every line of the metrics."""
    first, second = final_weights(one), final_weights(other)
    assert first.keys() == second.keys()
    assert all(tensor.equal(second[name]) for name, tensor in first.items())
    assert metrics(one) == metrics(other)


def signal_at(step: int, number: int = signal.SIGINT) -> Callable[[Record], None]:
    """A watcher that sends a real signal at this step."""

    def watch(record: Record) -> None:
        if record.step == step:
            os.kill(os.getpid(), number)

    return watch


def stop(record: Record) -> None:
    """A watcher that ends the run at its first record, without a save."""
    raise KeyboardInterrupt


def interrupted_at(recipe: Recipe, path: Path, steps: list[int]) -> None:
    """Train, with a real SIGINT or SIGTERM at each of these steps and a resume after it."""
    for number, step in zip([signal.SIGINT, signal.SIGTERM] * len(steps), steps, strict=False):
        with pytest.raises(Stopped, match=f"stopped at step {step} of"):
            train(recipe, path, watch=signal_at(step, number))
    train(recipe, path)
