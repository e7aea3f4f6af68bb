"""Groups of runs → the cells of a table: ours, and what others published for the same beside it."""

import statistics
from collections.abc import Sequence
from typing import get_args

from refprior.report._published import Source, find_published
from refprior.report._table import COLUMNS, EMPTY, Group

_DIGITS = {"NLL": 3, "ECE": 3}
_BESIDE = {"ensemble, EMA %": "ensemble", "ensemble, raw %": "raw", "particle, raw %": "particles"}


def rows(groups: Sequence[Group]) -> list[list[str]]:
    """The cells of the table, the header first; a column that no run has a number for is left out.

    What others published has columns of its own, after ours of the same kind: `paper: ensemble, EMA %`.

    >>> import refprior as rp
    >>> recipe, origin = rp.recipes.named("digits_ssl", {"steps": 5}, seed=0)
    >>> run = rp.train(recipe, "runs/a", origin=origin)
    >>> rp.report.rows(rp.report.group([rp.report.summarize("runs/a")]))[0][:3]
    ['recipe', 'seeds', 'ensemble, EMA %']
    """
    columns: dict[str, list[str]] = {}
    for name in COLUMNS:
        columns[name] = [_cell(name, g) for g in groups]
        if name in _BESIDE:
            columns |= {f"{source}: {name}": [_printed(g, source, name) for g in groups] for source in get_args(Source)}
    columns = {name: cells for name, cells in columns.items() if any(cell != EMPTY for cell in cells)}
    head = ["recipe", "seeds", *columns]
    return [head, *([g[0].label, str(len(g)), *(c[i] for c in columns.values())] for i, g in enumerate(groups))]


def _cell(name: str, runs: Group) -> str:
    values = [value for run in runs if (value := COLUMNS[name](run)) is not None]
    digits = _DIGITS.get(name, 1)
    if len(values) < len(runs):
        return EMPTY
    mean = f"{statistics.mean(values):.{digits}f}"
    return f"{mean} ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else mean


def _printed(runs: Group, source: Source, name: str) -> str:
    """What a source printed for runs like these in a column like that one."""
    found = find_published(runs[0], source)
    return (getattr(found, _BESIDE[name]) or EMPTY) if found is not None else EMPTY
