"""`refprior fit`: a classifier from a table, arrays or a folder of images. Thin: parse, call, print."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from refprior.cli._own_data import show_folder
from refprior.cli._parameters import settings_of, whole
from refprior.cli._paths import check_folder
from refprior.cli._tables import print_table

if TYPE_CHECKING:
    from refprior.data import Task
    from refprior.training import Run

MODEL = "model"  # folder of the predictor, in the run folder


def fit(
    data: Annotated[Path, Parameter(help="A .csv or .parquet table, a .npz file of arrays, or a folder of images.")],
    /,
    *,
    target: Annotated[
        str | None, Parameter(help="Column of labels in a table; empty cells have none. Default: label.")
    ] = None,
    test: Annotated[
        int, Parameter(converter=whole, help="Labeled inputs kept apart to test with, in all, equally many per class.")
    ] = 0,
    size: Annotated[
        int | None,
        Parameter(
            converter=whole,
            help="Side that a folder's images are resized to. Default: theirs, at most 32.",
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        Parameter(
            name="--set",
            consume_multiple=True,
            negative=(),
            help="Settings to change, NAME=VALUE …, for example steps=600 particles=8 method=FixMatch.",
        ),
    ] = None,
    seed: Annotated[
        int, Parameter(converter=whole, help="Seed of the initial weights, the batches and the views.")
    ] = 0,
    out: Annotated[Path | None, Parameter(help="Folder of the run and the model. Default: runs/DATA-SEED.")] = None,
    device: Annotated[str, Parameter(help="Where to train: cpu, cuda, cuda:1, mps, …")] = "cpu",
) -> None:
    """Fit a classifier to your own data, of which few need labels, and save a model for `refprior predict`.

    In a table, every column of numbers beside the target is a feature. In a folder, each folder is a class, and
    unlabeled/ holds images without labels. After an interruption, the same command goes on.
    """
    from refprior._progress import watching, working
    from refprior.data import FewLabels
    from refprior.estimators import classifier_recipe
    from refprior.recipes import override
    from refprior.training import train

    folder = out or Path("runs") / f"{data.stem}-{seed}"
    check_folder(folder)
    settings = settings_of(set_)
    few = FewLabels(str(data.absolute()), labels=None, test=test, target=target, size=size)
    with working(f"reading {data}"):
        recipe, task = classifier_recipe(few, seed=seed)
        recipe = override(recipe, settings)
    show_folder(str(data))
    print_table(_found(task))
    with watching(f"fitting {data.name}", recipe.steps) as watch:
        run = train(recipe, folder, device=device, watch=watch)
    run.predictor().save(folder / MODEL)
    _conclude(run, folder)


def _found(task: "Task") -> list[list[str]]:
    """What was found: labeled inputs of each class, those without labels, and what an input is."""
    from refprior._kinds import noun

    counts = task.labeled.labels.bincount(minlength=len(task.classes)).tolist()
    rows = [["class", "labeled"], *([name, f"{count:,}"] for name, count in zip(task.classes, counts, strict=True))]
    size = " × ".join(map(str, task.shape))
    rest = f"{len(task.unlabeled) - len(task.labeled):,}"
    return [*rows, ["without a label", rest], [f"size of an {noun(task.shape)}", size]]


def _conclude(run: "Run", folder: Path) -> None:
    if run.task.test is not None:
        print(
            f"Accuracy {100 * run.evaluate().accuracy:.1f} % on {len(run.task.test):,} inputs kept apart to test with."
        )
    print(f"Model: {folder / MODEL}")
    print(f"Next: refprior predict {folder / MODEL} NEW --out predictions.csv")
