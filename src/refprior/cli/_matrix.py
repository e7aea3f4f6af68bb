"""`refprior transfer-matrix`: transfer between all pairs of tasks."""

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from refprior.cli._options import Set, whole_numbers
from refprior.cli._sweep import Where, print_commands, report_failed, train_cells
from refprior.cli._tables import print_table

if TYPE_CHECKING:
    from refprior.recipes import Cell
    from refprior.report.matrix import Matrix

FIVE = "vehicles_1,vehicles_2,fish,people,aquatic_mammals"


def transfer_matrix(
    *,
    out: Annotated[Path, Parameter(help="Folder of the matrix, with one run folder per cell.")],
    tasks: Annotated[str, Parameter(help="Comma-separated superclasses of CIFAR-100, or all for all twenty.")] = FIVE,
    recipe: Annotated[str, Parameter(help="Recipe of each cell.")] = "cifar100_transfer_small",
    seeds: Annotated[str, Parameter(help="Comma-separated seeds.")] = "0",
    set_: Set = None,
    where: Where = Where(),  # noqa: B008
) -> None:
    """Train transfer and fine-tuning for all ordered pairs of tasks, and each task alone; draw the paper's fig:matrix.

    The same command resumes after an interruption; finished cells are not trained again. The figure leaves out failed
    cells.
    """
    from refprior.data.sources import SUPERCLASSES
    from refprior.recipes.sweeps import matrix_cells
    from refprior.report.matrix import read_matrix

    chosen = SUPERCLASSES if tasks == "all" else tuple(name.strip() for name in tasks.split(","))
    cells = matrix_cells(recipe, chosen, set_ or {}, whole_numbers(seeds))
    if where.commands:
        return print_commands(cells, out, where)
    failed = train_cells(cells, out, where)
    if len(failed) < len(cells):
        missing = {outcome.cell.name for outcome in failed}
        matrix = read_matrix([out], chosen)
        _show(matrix, out)
        _show_before(matrix, [cell for cell in cells if cell.name not in missing], out)
    return report_failed(failed, cells)


def _show(matrix: "Matrix", out: Path) -> None:
    from refprior._files import write_figure, write_text
    from refprior.report.matrix import matrix_figure, matrix_rows, ranking

    print_table(matrix_rows(matrix))
    better, cells = matrix.wins(matrix.pairs["fine_tuning"])
    print(f"The reference prior beats fine-tuning in {better} of {cells} cells,")
    better, cells = matrix.wins(matrix.alone["semi_supervised"][:, None])
    print(f"and itself without the source in {better} of {cells}.")
    ranks = [[task, f"{mean:+.1f}", str(best)] for task, mean, best in ranking(matrix)]
    print_table([["source", "points from the row median", "targets it is best for"], *ranks])
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(matrix_rows(matrix))
    write_text(out / "matrix.csv", text.getvalue())
    write_figure(out / "matrix.png", matrix_figure(matrix))
    print(f"Heat maps: {out / 'matrix.png'}, numbers: {out / 'matrix.csv'}")


def _show_before(matrix: "Matrix", cells: "list[Cell]", out: Path) -> None:
    """Rank the sources by 100 labels of each target before training, and compare with the accuracies after it."""
    import numpy as np

    from refprior._progress import working
    from refprior.report.matrix import agreement, before_training

    place = {task: i for i, task in enumerate(matrix.tasks)}
    scores: dict[tuple[int, int], list[float]] = {}
    judged = [cell for cell in cells if cell.settings["approach"] == "fine_tuning"]
    with working("judging sources") as progress:
        for done, cell in enumerate(judged):
            progress("judging sources", done, len(judged))
            at = place[cell.settings["target"]], place[cell.settings["source"]]
            scores.setdefault(at, []).append(before_training(out / cell.name))
    before = np.full((len(place), len(place)), np.nan)
    for at, values in scores.items():
        before[at] = np.mean(values)
    lines = [[task, *(f"{v:.3f}" if not np.isnan(v) else "–" for v in before[:, i])] for task, i in place.items()]
    print_table([["before training: log-probability of labels, from (target →)", *matrix.tasks], *lines])
    for method, name in (("transfer", "the reference prior"), ("fine_tuning", "fine-tuning")):
        rank = agreement(before, matrix.pairs[method])
        said = f"{rank:.2f}" if not np.isnan(rank) else "needs four tasks"
        print(f"Rank correlation with the accuracy of {name}, mean over targets: {said}")
