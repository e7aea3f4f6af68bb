"""Run folders made by hand, so that every number in them is known."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from refprior._files import write_record, write_text
from refprior.data import TaskRecord
from refprior.posterior import Bins, Scores
from refprior.training import ConsensusScores, Evaluation, Origin, PartScores, Record
from refprior.training.store._header import FORMAT

DATA = TaskRecord(name="x", classes=("a", "b"), source_classes=(), shape=(1, 8, 8), dtype="uint8", parts={})


def scores(accuracy: float) -> Scores:
    return Scores(
        accuracy=accuracy,
        particle_accuracies=(accuracy - 0.1, accuracy),
        negative_log_likelihood=0.25,
        brier=0.1,
        calibration_error=0.02,
        information=0.1,
        reliability=Bins((0.0, 4.0), (0.0, 0.9), (0.0, accuracy)),
    )


def evaluation(accuracy: float, consensus: float | None = None) -> Evaluation:
    test = PartScores(ema=scores(accuracy), raw=scores(accuracy - 0.05))
    return Evaluation(test, consensus=None if consensus is None else ConsensusScores(consensus))


def write_header(path: Path, recipe: dict[str, Any], origin: Origin | None = None) -> None:
    """recipe.json of a recipe of which only some settings matter."""
    path.mkdir(parents=True, exist_ok=True)
    header = {"recipe": recipe, "data": DATA, "tensors": {}, "origin": origin, "environments": []}
    write_record(path / "recipe.json", FORMAT, msgspec.to_builtins(header))


def write_records(path: Path, records: list[Record]) -> None:
    write_text(path / "metrics.jsonl", "".join(json.dumps(record.to_dict()) + "\n" for record in records))


def write_run(
    path: Path,
    recipe: str,
    seed: int,
    accuracy: float,
    settings: dict[str, str] | None = None,
    *,
    entropies: bool = True,
    defaults: dict[str, Any] | None = None,
    confusion: tuple[tuple[int, ...], ...] | None = None,
) -> None:
    """A finished run of 20 steps with two evaluations."""
    settings = settings or {}
    description = {"seed": seed, "steps": 20, "task": {"type": recipe, "seed": seed}, "method": {"type": "x.Y"}}
    write_header(path, {**description, **settings}, Origin(recipe, {"seed": seed}, dict(settings), defaults or {}))
    terms = {"marginal_entropy": 1.0, "conditional_entropy": 0.5} if entropies else {}
    records = [
        Record(
            step=step,
            steps=20,
            learning_rate=0.1,
            loss=1.0,
            seconds=step / 10,
            terms=dict(terms),
            evaluation=replace(evaluation(accuracy), confusion=confusion if step == 20 else None),
        )
        for step in (10, 20)
    ]
    write_records(path, records)
