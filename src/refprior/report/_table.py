"""Runs → a table: one row a recipe, mean ± standard deviation over its seeds, always at the last step."""

import json
import logging
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from refprior.training import Record
from refprior.training import _folder as folder

log = logging.getLogger("refprior")


class UnfinishedError(ValueError):
    """A run that has not come to its last step."""


@dataclass(frozen=True)
class Summary:
    """What a run folder says: its name, its seed and its records."""

    path: Path
    recipe: str  # its name
    settings: dict[str, str]  # what was set by hand, without the seed
    key: str  # the same for runs that differ only in their seed
    seed: int
    records: list[Record]

    @property
    def label(self) -> str:
        return " ".join([self.recipe, *(f"{name}={value}" for name, value in sorted(self.settings.items()))])

    @property
    def result(self) -> Record:
        return self.records[-1]

    @property
    def evaluations(self) -> list[Record]:
        return [r for r in self.records if "test" in r]


Group = list[Summary]


def summarise(path: Path) -> Summary:
    """Read one finished run folder."""
    header = folder.read_header(path)
    records = folder.read_records(path)
    recipe, done = header["recipe"], records[-1]["step"] if records else 0
    if done != recipe["steps"]:
        raise UnfinishedError(f"{path} is not finished: step {done} of {recipe['steps']}")
    name, settings = _origin(header)
    return Summary(path, name, settings, json.dumps(_without_seeds(recipe)), recipe["seed"], records)


def summarise_finished(paths: Sequence[Path]) -> list[Summary]:
    """All finished runs; the others are named and left out."""
    summaries = []
    for path in paths:
        try:
            summaries.append(summarise(path))
        except UnfinishedError as error:
            log.warning("left out: %s", error)
    if not summaries:
        raise ValueError("none of the runs is finished")
    return summaries


def find_runs(paths: Sequence[Path]) -> list[Path]:
    """The run folders among `paths` and below them, in order of their names."""
    found = []
    for path in paths:
        if not path.is_dir():
            raise ValueError(f"{path} is not a folder")
        inside = [file.parent for file in sorted(path.rglob(folder.RECIPE)) if not _is_stage(file.parent)]
        if not inside:
            raise ValueError(f"{path} holds no run: no {folder.RECIPE} in it or below")
        found += inside
    return list(dict.fromkeys(found))


def group(runs: Sequence[Summary]) -> list[Group]:
    """Runs that differ only in their seed stand together."""
    keys = dict.fromkeys(run.key for run in runs)
    groups = [sorted((run for run in runs if run.key == key), key=lambda run: run.seed) for key in keys]
    for one, other in (pair for g in groups for pair in pairwise(g)):
        if one.seed == other.seed:
            raise ValueError(f"{one.path} and {other.path} are the same recipe with the same seed: leave one out")
    return groups


COLUMNS: dict[str, Callable[[Record], float]] = {
    "consensus, EMA %": lambda r: 100 * r["consensus"]["test"] if "consensus" in r else math.nan,
    "stability %": lambda r: 100 * r.get("consensus", {}).get("stability", math.nan),
    "ensemble, EMA %": lambda r: 100 * _outputs(r, "ema", "accuracy"),
    "ensemble, raw %": lambda r: 100 * _outputs(r, "raw", "accuracy"),
    "particle, EMA %": lambda r: 100 * _outputs(r, "ema", "particles"),
    "validation, EMA %": lambda r: 100 * _outputs(r, "ema", "accuracy", "validation"),
    "particle, raw %": lambda r: 100 * _outputs(r, "raw", "particles"),
    "NLL": lambda r: _outputs(r, "ema", "negative_log_likelihood"),
    "ECE": lambda r: _outputs(r, "ema", "calibration_error"),
    "seconds": lambda r: r["seconds"],
}
_DIGITS = {"NLL": 3, "ECE": 3}
EMPTY = "–"


def _outputs(record: Record, kind: str, name: str, part: str = "test") -> float:
    """A score of the outputs as classes, the mean if there is one a particle; none if clusters are the classes."""
    if "consensus" in record or part not in record:
        return math.nan
    value = record[part][kind][name]
    return statistics.mean(value) if isinstance(value, list) else float(value)


def rows(groups: Sequence[Group]) -> list[list[str]]:
    """The cells of the table, the header first; a column that no run has a number for is left out."""
    columns = {name: [_cell(name, g) for g in groups] for name in COLUMNS}
    columns = {name: cells for name, cells in columns.items() if any(cell != EMPTY for cell in cells)}
    head = ["recipe", "seeds", *columns]
    return [head, *([g[0].label, str(len(g)), *(c[i] for c in columns.values())] for i, g in enumerate(groups))]


def headline(record: Record) -> float:
    """The accuracy that a table in the paper's layout shows, in per cent."""
    return 100 * float(record["consensus"]["test"] if "consensus" in record else record["test"]["ema"]["accuracy"])


def _cell(name: str, runs: Group) -> str:
    values = [COLUMNS[name](run.result) for run in runs]
    digits = _DIGITS.get(name, 1)
    if any(math.isnan(value) for value in values):
        return EMPTY
    mean = f"{statistics.mean(values):.{digits}f}"
    return f"{mean} ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else mean


def _origin(header: dict[str, Any]) -> tuple[str, dict[str, str]]:
    """The recipe's name and whatever was set by hand, without the seed."""
    origin = header["origin"]
    if origin is None:
        return str(header["recipe"]["method"]["type"]).rpartition(".")[2], {}
    changed = {**origin["arguments"], **origin["settings"]}
    changed.pop("seed", None)
    return origin["recipe"], {name: str(value) for name, value in changed.items()}


def _without_seeds(description: Any) -> Any:
    if isinstance(description, dict):
        return {name: _without_seeds(value) for name, value in description.items() if name != "seed"}
    return description


def _is_stage(path: Path) -> bool:
    """Whether a run folder is an earlier stage of the run that it lies in."""
    return path.name == "start" and (path.parent / folder.RECIPE).exists()
