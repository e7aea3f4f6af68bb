"""Run folders → summaries: what a run was, its settings and its records, grouped by recipe."""

import json
import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from refprior._files import Json
from refprior._progress import Progress, no_progress
from refprior.training import Evaluation, Record
from refprior.training.store import RECIPE, Header, read_header, read_history

log = logging.getLogger("refprior")
EMPTY = "–"  # a cell without a value


class UnfinishedError(ValueError):
    """A run has not reached its last step."""


@dataclass(frozen=True)
class Summary:
    """The name, settings and records of a run folder."""

    path: Path
    recipe: str  # its name
    settings: dict[str, str]  # set by the user, without the seed
    defaults: dict[str, str]  # the other settings of the recipe's function
    description: Json  # the whole recipe
    key: str  # equal for runs that differ only in their seed
    seed: int
    records: list[Record]
    classes: tuple[str, ...] = ()
    data: str = ""  # name of the data

    @property
    def label(self) -> str:
        return " ".join([self.recipe, *(f"{name}={value}" for name, value in sorted(self.settings.items()))])

    def setting(self, name: str) -> str | None:
        """Return the value of a setting, set by the user or default; None if there is no such setting."""
        known = self.settings.get(name, self.defaults.get(name))
        if known is not None:
            return known
        found: object = self.description
        for part in name.split("."):
            if not isinstance(found, dict) or part not in found:
                return None
            found = found[part]
        return _class_of(found) if isinstance(found, dict) else str(found)

    @property
    def result(self) -> Record:
        return self.records[-1]

    @property
    def evaluation(self) -> Evaluation:
        """The evaluation at the last step."""
        return list(self.evaluations.values())[-1]

    @property
    def evaluations(self) -> dict[int, Evaluation]:
        """The evaluations by step."""
        return {r.step: r.evaluation for r in self.records if r.evaluation is not None}


Group = list[Summary]


def summarize(path: Path | str) -> Summary:
    """Read a finished run folder.

    Parameters
    ----------
    path : path
        The run folder.

    Returns
    -------
    Summary
        The recipe's name (`recipe`), `label`, `settings`, `seed`, `records`, and the last `evaluation`.

    Raises
    ------
    ValueError
        If the run is not finished.

    Examples
    --------
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
    kept = (header.recipe, key, header.seed, records, header.data.classes, header.data.name)
    found = Summary(path, name, settings, defaults, *kept)
    sizes = {len(e.confusion) for e in found.evaluations.values() if e.confusion is not None} - {len(found.classes)}
    if sizes:
        raise ValueError(f"{path} has a confusion matrix of {min(sizes)} classes, its data have {len(found.classes)}")
    return found


def summarize_finished(paths: Sequence[Path], progress: Progress = no_progress) -> list[Summary]:
    """Summarize all finished runs; log a warning for the others."""
    summaries = []
    for done, path in enumerate(paths):
        progress("reading runs", done, len(paths))
        try:
            summaries.append(summarize(path))
        except UnfinishedError as error:
            log.warning("left out: %s", error)
    if not summaries:
        raise ValueError("none of the runs is finished")
    return summaries


def find_runs(paths: Sequence[Path]) -> list[Path]:
    """Find run folders among and below some folders.

    Parameters
    ----------
    paths : sequence of path
        Folders to search.

    Returns
    -------
    list of Path
        Run folders in order of their names, without earlier stages and runs moved aside.

    Raises
    ------
    ValueError
        If a folder holds no run.

    Examples
    --------
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
        runs = [file.parent for file in sorted(path.rglob(RECIPE))]
        runs = [run for run in runs if run.name != "start" or not (run.parent / RECIPE).exists()]  # no earlier stages
        inside = [run for run in runs if run == path or not re.search(r"\.old-\d+$", run.name)]  # not those moved aside
        if not inside:
            raise ValueError(f"{path} holds no run: no {RECIPE} in it or below")
        found += inside
    return list(dict.fromkeys(found))


def group(runs: Sequence[Summary]) -> list[Group]:
    """Group runs that differ only in their seed."""
    by_key: dict[str, Group] = {}
    for run in runs:
        by_key.setdefault(run.key, []).append(run)
    groups = [sorted(same, key=lambda run: run.seed) for same in by_key.values()]
    for one, other in (pair for g in groups for pair in pairwise(g)):
        if one.seed == other.seed:
            raise ValueError(f"{one.path} and {other.path} are the same recipe with the same seed: leave one out")
    return groups


def accuracies(runs: Group) -> list[float]:
    """Return test accuracies in percent, of the runs that have a test part."""
    return [100 * found for run in runs if (found := run.evaluation.accuracy) is not None]


def _class_of(part: dict[str, object]) -> str:
    return str(part.get("type", part.get("own", "unknown"))).rpartition(".")[2]


def origin_of(header: Header) -> tuple[str, dict[str, str], dict[str, str]]:
    """Return the recipe's name, the settings set by the user, and the defaults of its function, without the seed."""
    if header.origin is None:
        method = header.recipe.get("method")
        return _class_of(method if isinstance(method, dict) else {}), {}, {}
    origin = header.origin
    return origin.recipe, origin.changes, {name: str(value) for name, value in origin.defaults.items()}


def _without_seeds(description: object) -> object:
    if isinstance(description, dict):
        return {name: _without_seeds(value) for name, value in description.items() if name != "seed"}
    return description


def setting_rows(runs: Group) -> list[list[str]]:
    """Return all settings of runs that differ only in their seed, by dotted name; the header first."""
    seeds = ["seed", ", ".join(str(run.seed) for run in runs)]
    return [["setting", "value"], seeds, *([name, value] for name, value in settings_of(runs[0].description))]


def settings_of(value: object, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield dotted names and values; a part is named by its class or function."""
    if not isinstance(value, dict):
        yield name, _words(value)
        return
    if made_by := value.get("type", value.get("own")):
        short = str(made_by).removeprefix("refprior.")
        yield name, f"{short.rpartition('.')[2]} (custom)" if "own" in value else short
    for key, item in value.items():
        if key not in ("type", "own", "seed"):
            yield from settings_of(item, f"{name}.{key}".lstrip("."))


def _words(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(_words, value)) or "none"
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
