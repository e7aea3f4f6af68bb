"""`refprior fit`: a classifier from a table, arrays or a folder of images."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from refprior.cli._options import Device, Set, check_folder, whole
from refprior.cli._tables import print_table
from refprior.cli._train import show_folder, show_out_of_fold

MODEL = "model"  # folder of the predictor, in the run folder


def fit(
    data: Annotated[Path, Parameter(help="A .csv or .parquet table, a .npz file of arrays, or a folder of images.")],
    /,
    *,
    target: Annotated[
        str | None, Parameter(help="Label column of a table; rows with an empty cell are unlabeled. Default: label.")
    ] = None,
    test: Annotated[
        int,
        Parameter(converter=whole, help="Labeled inputs to hold out for testing, equally many per class."),
    ] = 0,
    size: Annotated[
        int | None,
        Parameter(
            converter=whole,
            help="Side to which images of a folder are resized. Default: their own, at most 32.",
        ),
    ] = None,
    set_: Set = None,
    seed: Annotated[
        int, Parameter(converter=whole, help="Seed for the initial weights, the batches and the views.")
    ] = 0,
    out: Annotated[Path | None, Parameter(help="Folder for the run and the model. Default: runs/DATA-SEED.")] = None,
    device: Device = "cpu",
) -> None:
    """Fit a classifier to your data, of which only a few need labels, and save it for `refprior predict`.

    In a table, every numeric column except the target is a feature. In a folder, each subfolder is a class, and
    unlabeled/ holds unlabeled images. The same command resumes after an interruption.
    """
    from refprior._kinds import noun
    from refprior._progress import watching, working
    from refprior.data import FewLabels
    from refprior.estimators import classifier_recipe
    from refprior.recipes import override
    from refprior.training import train

    folder = out or Path("runs") / f"{data.stem}-{seed}"
    check_folder(folder)
    few = FewLabels(str(data.absolute()), labels=None, test=test, target=target, size=size)
    with working(f"reading {data}"):
        recipe, task = classifier_recipe(few, seed=seed)
        recipe = override(recipe, set_ or {})
    show_folder(str(data))
    counts = task.labeled.labels.bincount(minlength=len(task.classes)).tolist()
    classes = ([name, f"{count:,}"] for name, count in zip(task.classes, counts, strict=True))
    unlabeled = ["unlabeled", f"{len(task.unlabeled) - len(task.labeled):,}"]
    size_of_one = [f"size of an {noun(task.shape)}", " × ".join(map(str, task.shape))]
    print_table([["class", "labeled"], *classes, unlabeled, size_of_one])
    with watching(f"fitting {data.name}", recipe.steps) as watch:
        run = train(recipe, folder, device=device, watch=watch)
    run.predictor().save(folder / MODEL)
    if run.task.test is not None:
        accuracy = run.evaluate().accuracy
        print(f"Accuracy {100 * accuracy:.1f} % on {len(run.task.test):,} held-out inputs.")
    show_out_of_fold(run)
    print(f"Model: {folder / MODEL}")
    print(f"Next: refprior predict {folder / MODEL} NEW --out predictions.csv")
