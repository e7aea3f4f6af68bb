"""All settings of a recipe as a table."""

from collections.abc import Iterator
from typing import Any

from refprior.report._table import Group


def setting_rows(runs: Group) -> list[list[str]]:
    """Every setting of runs that differ only in their seed, defaults included, by its dotted name; the header first."""
    seeds = ["seed", ", ".join(str(run.seed) for run in runs)]
    return [["setting", "value"], seeds, *([name, value] for name, value in settings_of(runs[0].description))]


def settings_of(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Dotted names and values; a part is called by what makes it."""
    if not isinstance(value, dict):
        yield name, _words(value)
        return
    if made_by := value.get("type", value.get("own")):
        short = str(made_by).removeprefix("refprior.")
        yield name, f"{short.rpartition('.')[2]} (your own)" if "own" in value else short
    for key, item in value.items():
        if key not in ("type", "own", "seed"):
            yield from settings_of(item, f"{name}.{key}".lstrip("."))


def _words(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_words, value)) or "none"
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
