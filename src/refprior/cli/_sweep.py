"""`refprior sweep`, and `refprior demo`, which is a sweep of two methods."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from refprior.cli._cells import Where, print_commands, refuse_failed, train_cells, whole_numbers
from refprior.cli._own_data import own_data, show_own_data
from refprior.cli._parameters import Data, KindOfData, RecipeName, Set, SourceData, settings_of, whole
from refprior.cli._paths import check_folder
from refprior.cli._report import report

if TYPE_CHECKING:
    from refprior.recipes import Cell


def sweep(
    recipe: RecipeName,
    /,
    *,
    out: Annotated[Path, Parameter(help="Folder of the sweep: one run folder per cell.")],
    seeds: Annotated[str, Parameter(help="Seeds, separated by commas.")] = "0,1,2",
    data: Data = None,
    source_data: SourceData = None,
    kind: KindOfData = None,
    set_: Set = None,
    where: Where = Where(),  # noqa: B008
) -> None:
    """Train a recipe for every combination of settings (--set labels=50,100 method=FixMatch,Supervised) and seeds."""
    from refprior.recipes.sweeps import cells

    own = own_data(data, source_data, kind)
    chosen = cells(recipe, settings_of(set_), whole_numbers(seeds), own)
    if own is not None:
        show_own_data(own, chosen[0].named().recipe)
    if where.commands:
        return print_commands(chosen, out, where)
    return _train_and_report(chosen, out, where)


def demo(
    *,
    out: Annotated[Path, Parameter(help="Folder of the runs and the report; a number is added if it exists.")] = Path(
        "runs/demo"
    ),
    seeds: Annotated[int, Parameter(converter=whole, help="How many seeds.")] = 3,
    set_: Set = None,
) -> None:
    """Compare supervised learning with the reference prior on 8×8 digits, 5 labels per class."""
    import torch

    from refprior.recipes.sweeps import cells

    if seeds < 1:
        raise ValueError(f"seeds must be at least 1, got {seeds}")
    check_folder(out)
    settings = settings_of(set_)
    if "method" in settings:
        raise ValueError("the demo compares two methods: refprior sweep digits_ssl --set method=… compares others")
    chosen = cells("digits_ssl", {**settings, "method": "Supervised,ReferencePrior"}, range(seeds))
    jobs = min(torch.get_num_threads(), len(chosen))
    torch.set_num_threads(1)  # networks so small lose more time to waking threads than two cores save
    _train_and_report(chosen, _unused(out), Where(jobs=jobs))


def _train_and_report(cells: "Sequence[Cell]", out: Path, where: Where) -> None:
    failed = train_cells(cells, out, where)
    if len(failed) < len(cells):
        report([out], out=out / "report.html")
    refuse_failed(failed, cells)


def _unused(folder: Path) -> Path:
    """The folder, or the first of FOLDER-2, FOLDER-3, … that does not exist."""
    number, candidate = 1, folder
    while candidate.exists():
        number += 1
        candidate = folder.with_name(f"{folder.name}-{number}")
    return candidate
