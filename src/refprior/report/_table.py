"""Runs → a table: one row per recipe, mean ± standard deviation over its seeds, always at the last step."""

import json
import logging
import re
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from refprior.posterior import Scores
from refprior.training import Evaluation, PartScores, Record, Weights
from refprior.training.store import RECIPE, Header, read_header, read_history

log = logging.getLogger("refprior")
Tell = Callable[[str, int, int], None]  # what is done, how much of it, of how much


def silent(what: str, done: int, total: int) -> None:
    """Tells nobody."""


class UnfinishedError(ValueError):
    """A run that has not come to its last step."""


@dataclass(frozen=True)
class Summary:
    """What a run folder says: its name, its seed and its records.

    >>> import refprior as rp
    >>> recipe, origin = rp.recipes.named("digits_ssl", {"steps": 5}, seed=0)
    >>> run = rp.train(recipe, "runs/a", origin=origin)
    >>> rp.report.summarize("runs/a").label
    'digits_ssl steps=5'
    """

    path: Path
    recipe: str  # its name
    settings: dict[str, str]  # what was set by hand, without the seed
    defaults: dict[str, str]  # of the recipe's function, what was not
    description: dict[str, Any]  # the whole recipe
    key: str  # the same for runs that differ only in their seed
    seed: int
    records: list[Record]
    classes: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        return " ".join([self.recipe, *(f"{name}={value}" for name, value in sorted(self.settings.items()))])

    def setting(self, name: str) -> str | None:
        """The value of a setting, set by hand or not; None if there is no such setting."""
        known = self.settings.get(name, self.defaults.get(name))
        return _looked_up(self.description, name) if known is None else known

    @property
    def result(self) -> Record:
        return self.records[-1]

    @property
    def evaluation(self) -> Evaluation:
        """Of the last step."""
        return list(self.evaluations.values())[-1]

    @property
    def evaluations(self) -> dict[int, Evaluation]:
        """By step."""
        return {r.step: r.evaluation for r in self.records if r.evaluation is not None}


Group = list[Summary]


def summarize(path: Path | str) -> Summary:
    """Read one finished run folder.

    >>> import refprior as rp
    >>> recipe, origin = rp.recipes.named("digits_ssl", {"steps": 5}, seed=0)
    >>> run = rp.train(recipe, "runs/a", origin=origin)
    >>> from pathlib import Path
    >>> rp.report.summarize(Path("runs/a")).seed
    0
    """
    path = Path(path)
    header, records = read_header(path), read_history(path)
    done = records[-1].step if records else 0
    if done != header.steps:
        raise UnfinishedError(f"{path} is not finished: step {done} of {header.steps}")
    name, settings, defaults = origin_of(header)
    key = json.dumps(_without_seeds(header.recipe))
    found = Summary(path, name, settings, defaults, header.recipe, key, header.seed, records, header.data.classes)
    sizes = {len(e.confusion) for e in found.evaluations.values() if e.confusion is not None} - {len(found.classes)}
    if sizes:
        raise ValueError(f"{path} has a confusion matrix of {min(sizes)} classes, its data have {len(found.classes)}")
    return found


def summarize_finished(paths: Sequence[Path], tell: Tell = silent) -> list[Summary]:
    """All finished runs; the others are named and left out."""
    summaries = []
    for done, path in enumerate(paths):
        tell("reading runs", done, len(paths))
        try:
            summaries.append(summarize(path))
        except UnfinishedError as error:
            log.warning("left out: %s", error)
    if not summaries:
        raise ValueError("none of the runs is finished")
    return summaries


def find_runs(paths: Sequence[Path]) -> list[Path]:
    """The run folders among `paths` and below them, in order of their names.

    >>> import refprior as rp
    >>> recipe, origin = rp.recipes.named("digits_ssl", {"steps": 5}, seed=0)
    >>> run = rp.train(recipe, "runs/a", origin=origin)
    >>> from pathlib import Path
    >>> [path.name for path in rp.report.find_runs([Path("runs")])]
    ['a']
    """
    found = []
    for path in paths:
        if not path.is_dir():
            raise ValueError(f"{path} is not a folder")
        runs = [file.parent for file in sorted(path.rglob(RECIPE)) if not _is_stage(file.parent)]
        inside = [run for run in runs if run == path or not re.search(r"\.old-\d+$", run.name)]  # not those moved aside
        if not inside:
            raise ValueError(f"{path} holds no run: no {RECIPE} in it or below")
        found += inside
    return list(dict.fromkeys(found))


def group(runs: Sequence[Summary]) -> list[Group]:
    """Runs that differ only in their seed, together.

    >>> import refprior as rp
    >>> recipe, origin = rp.recipes.named("digits_ssl", {"steps": 5}, seed=0)
    >>> run = rp.train(recipe, "runs/a", origin=origin)
    >>> [len(runs) for runs in rp.report.group([rp.report.summarize("runs/a")])]
    [1]
    """
    by_key: dict[str, Group] = {}
    for run in runs:
        by_key.setdefault(run.key, []).append(run)
    groups = [sorted(same, key=lambda run: run.seed) for same in by_key.values()]
    for one, other in (pair for g in groups for pair in pairwise(g)):
        if one.seed == other.seed:
            raise ValueError(f"{one.path} and {other.path} are the same recipe with the same seed: leave one out")
    return groups


COLUMNS: dict[str, Callable[[Summary], float | None]] = {
    "consensus, EMA %": lambda run: _consensus(run, "test"),
    "stability %": lambda run: _consensus(run, "stability"),
    "ensemble, EMA %": lambda run: _outputs(run, "ema", lambda s: 100 * s.accuracy),
    "ensemble, raw %": lambda run: _outputs(run, "raw", lambda s: 100 * s.accuracy),
    "particle, EMA %": lambda run: _outputs(run, "ema", lambda s: 100 * statistics.mean(s.particle_accuracies)),
    "validation, EMA %": lambda run: _outputs(run, "ema", lambda s: 100 * s.accuracy, part="validation"),
    "particle, raw %": lambda run: _outputs(run, "raw", lambda s: 100 * statistics.mean(s.particle_accuracies)),
    "NLL": lambda run: _outputs(run, "ema", lambda s: s.negative_log_likelihood),
    "ECE": lambda run: _outputs(run, "ema", lambda s: s.calibration_error),
    "seconds": lambda run: run.result.seconds,
}
EMPTY = "–"


def _consensus(run: Summary, name: Literal["test", "stability"]) -> float | None:
    found = run.evaluation.consensus
    value = None if found is None else getattr(found, name)
    return None if value is None else 100 * value


def _outputs(
    run: Summary, weights: Weights, score: Callable[[Scores], float], *, part: Literal["test", "validation"] = "test"
) -> float | None:
    """A score of the outputs as classes; none if clusters are the classes."""
    found: PartScores | None = getattr(run.evaluation, part)
    return None if found is None or run.evaluation.consensus is not None else score(getattr(found, weights))


def accuracies(runs: Group) -> list[float]:
    """Test accuracies in per cent, of the runs that have a test part."""
    return [100 * found for run in runs if (found := run.evaluation.accuracy) is not None]


def _looked_up(description: Any, path: str) -> str | None:
    """The setting of a dotted name in a recipe; a part is called by its class."""
    for name in path.split("."):
        if not isinstance(description, dict) or name not in description:
            return None
        description = description[name]
    return _class_of(description) if isinstance(description, dict) else str(description)


def _class_of(part: dict[str, Any]) -> str:
    return str(part.get("type", part.get("own", "unknown"))).rpartition(".")[2]


def origin_of(header: Header) -> tuple[str, dict[str, str], dict[str, str]]:
    """The recipe's name, whatever was set by hand, and its function's defaults, without the seed."""
    if header.origin is None:
        method = header.recipe.get("method")
        return _class_of(method if isinstance(method, dict) else {}), {}, {}
    origin = header.origin
    return origin.recipe, origin.changes, {name: str(value) for name, value in origin.defaults.items()}


def _without_seeds(description: Any) -> Any:
    if isinstance(description, dict):
        return {name: _without_seeds(value) for name, value in description.items() if name != "seed"}
    return description


def _is_stage(path: Path) -> bool:
    """Whether a run folder is an earlier stage of the run that it lies in."""
    return path.name == "start" and (path.parent / RECIPE).exists()
