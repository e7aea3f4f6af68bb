"""Runs → a table: one row a recipe, mean ± standard deviation over its seeds, always at the last step."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refprior.train import Record, folder


@dataclass(frozen=True)
class Summary:
    """What a run folder says: its name, its seed and its records."""

    label: str
    seed: int
    records: list[Record]

    @property
    def result(self) -> Record:
        return self.records[-1]

    @property
    def evaluations(self) -> list[Record]:
        return [r for r in self.records if "test" in r]


Group = list[Summary]


def summarise(path: Path) -> Summary:
    """Read one run folder."""
    header = folder.read_json(path / folder.RECIPE)
    records = folder.read_records(path)
    if not records or "test" not in records[-1]:
        raise ValueError(f"{path} is not finished: its last record has no evaluation")
    return Summary(_label(header), int(header["recipe"]["seed"]), records)


def find_runs(paths: Sequence[Path]) -> list[Path]:
    """The run folders among `paths` and below them, in order of their names."""
    found = []
    for path in paths:
        if not path.is_dir():
            raise ValueError(f"{path} is not a folder")
        inside = [file.parent for file in sorted(path.rglob(folder.RECIPE)) if file.parent.name != "start"]
        if not inside:
            raise ValueError(f"{path} holds no run: no {folder.RECIPE} in it or below")
        found += inside
    return list(dict.fromkeys(found))


def group(runs: Sequence[Summary]) -> list[Group]:
    """Runs that differ only in their seed stand together."""
    labels = dict.fromkeys(run.label for run in runs)
    return [sorted((r for r in runs if r.label == label), key=lambda r: r.seed) for label in labels]


COLUMNS: dict[str, Callable[[Record], float]] = {
    "ensemble, EMA %": lambda r: 100 * r["test"]["ema"]["accuracy"],
    "ensemble, raw %": lambda r: 100 * r["test"]["raw"]["accuracy"],
    "particle, EMA %": lambda r: 100 * statistics.mean(r["test"]["ema"]["particles"]),
    "particle, raw %": lambda r: 100 * statistics.mean(r["test"]["raw"]["particles"]),
    "NLL": lambda r: r["test"]["ema"]["negative_log_likelihood"],
    "ECE": lambda r: r["test"]["ema"]["calibration_error"],
    "seconds": lambda r: r["seconds"],
}
_DIGITS = {"NLL": 3, "ECE": 3}


def rows(groups: Sequence[Group]) -> list[list[str]]:
    """The cells of the table, the header first."""
    head = ["recipe", "seeds", *COLUMNS]
    return [head, *([g[0].label, str(len(g)), *(_cell(name, g) for name in COLUMNS)] for g in groups)]


def markdown(groups: Sequence[Group]) -> str:
    head, *body = rows(groups)
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cell(name: str, runs: Group) -> str:
    values = [COLUMNS[name](run.result) for run in runs]
    digits = _DIGITS.get(name, 1)
    mean = f"{statistics.mean(values):.{digits}f}"
    return f"{mean} ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else mean


def _label(header: dict[str, Any]) -> str:
    """The recipe's name and whatever was set by hand, without the seed."""
    origin = header["origin"]
    if origin is None:
        return str(header["recipe"]["method"]["type"]).rpartition(".")[2]
    changed = {**origin["arguments"], **origin["settings"]}
    changed.pop("seed", None)
    return " ".join([origin["recipe"], *(f"{k}={v}" for k, v in changed.items())])
