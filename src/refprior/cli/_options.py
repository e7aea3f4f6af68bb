"""Options that several commands share, and checks of what was typed before anything long begins."""

import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter, Token

if TYPE_CHECKING:
    from refprior._kinds import Kind
    from refprior.recipes import CustomData


def whole(_: object, tokens: Sequence[Token]) -> int:
    """Parse an integer; the default parser would round 2.5."""
    text = tokens[0].value
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"must be a whole number, got {text}") from None


def assignments(_: object, tokens: Sequence[Token]) -> dict[str, str]:
    """Parse NAME=VALUE … into settings, which `refprior.recipes` reads by the type of each setting."""
    settings: dict[str, str] = {}
    for token in tokens:
        name, _, value = token.value.partition("=")
        if not (name and value):
            raise ValueError(f"--set takes NAME=VALUE, got {token.value!r}")
        if name in settings:
            raise ValueError(f"--set gives {name} twice: {settings[name]} and {value}")
        settings[name] = value
    return settings


def _some(_: object, settings: dict[str, str] | None) -> None:
    if settings is not None and not settings:
        raise ValueError("--set takes NAME=VALUE, got nothing")


Set = Annotated[
    dict[str, str] | None,
    Parameter(
        name="--set",
        converter=assignments,
        validator=_some,
        accepts_keys=False,
        consume_multiple=True,
        n_tokens=-1,
        negative=(),
        help="Settings to change: NAME=VALUE …, for example steps=1000 method=FixMatch method.threshold=0.9.",
    ),
]
RecipeName = Annotated[
    str, Parameter(help="Name of a recipe (`refprior recipes` lists them), or FILE.py:FUNCTION for a custom one.")
]
RunFolder = Annotated[Path, Parameter(help="Folder of a finished run.")]
Model = Annotated[Path, Parameter(help="Folder of a finished run or of a saved predictor.")]
Seed = Annotated[
    int, Parameter(converter=whole, help="Seed for the split, the initial weights, the batches and the views.")
]
Device = Annotated[str, Parameter(help="PyTorch device: cpu, cuda, cuda:1, mps, …")]
Log = Annotated[
    list[Literal["csv", "tensorboard", "mlflow", "wandb"]] | None,
    Parameter(consume_multiple=True, negative=(), help="Further logs besides metrics.jsonl."),
]
Data = Annotated[
    str | None,
    Parameter(
        help="Your data in place of the recipe's: a folder of images, a .npz file, a .csv or .parquet table (--set "
        "task.target=COLUMN names its labels), or the name of a data set. Uses all labels, or --set labels=N of them."
    ),
]
SourceData = Annotated[
    str | None,
    Parameter(
        help="Your data to transfer from. Without it, choose classes of --data: "
        "--set source_classes=0,1 target_classes=2,3."
    ),
]
KindOfData = Annotated[
    Literal["digits", "photos", "objects", "vectors"] | None,
    Parameter(help="Content of your data, which selects the views: digits are never mirrored. Default: the recipe's."),
]
Custom = Annotated[
    Path | None,
    Parameter(
        help="Python file that defines the run's custom network, method, inputs, views or task. The file is executed."
    ),
]


def custom_parts(folder: Path, file: Path | None) -> dict[str, Any]:
    """Return the custom parts of a run or saved predictor, by their recorded names in the file of --custom."""
    if file is None:
        return {}
    from refprior.recipes import definitions
    from refprior.training import custom_parts as read

    return read(folder, definitions(file))


def custom_data(data: str | None, source: str | None, kind: "Kind | None") -> "CustomData | None":
    """Return what --data, --source-data and --kind give; None without --data."""
    from refprior.recipes import CustomData

    if data is None and (source or kind):
        raise ValueError(f"--{'source-data' if source else 'kind'} needs --data")
    return None if data is None else CustomData(data, source, kind)


def whole_numbers(text: str) -> list[int]:
    """Parse the seeds 0,1,2."""
    if not all(number.strip().isdigit() for number in text.split(",")):
        raise ValueError(f"--seeds takes whole numbers separated by commas, got {text!r}")
    return [int(number) for number in text.split(",")]


def reject_empty(arguments: Sequence[str]) -> None:
    """Reject an option without its value: an empty path would mean the current folder."""
    for before, argument in pairwise(["refprior", *arguments]):
        if not argument:
            raise ValueError(f"the value after {before} is empty")
        if re.fullmatch(r"--[a-z-]+=", argument):
            raise ValueError(f"the value after {argument} is empty")


def check_file(*paths: Path | None) -> None:
    """Reject files that cannot be written because of what is in their place."""
    for path in filter(None, paths):
        if path.is_dir():
            raise ValueError(f"{path} is a folder: give the name of a file in it")
        if path.exists() and not path.is_file():
            raise ValueError(f"{path} exists and is not a regular file: it is not replaced")
        check_folder(path.parent)


def check_picture(*paths: Path | None) -> None:
    """Reject pictures that cannot be written, or have an unknown suffix."""
    check_file(*paths)
    for path in filter(None, paths):
        if path.suffix.lower() not in (".png", ".pdf", ".svg"):
            raise ValueError(f"a picture must be .png, .pdf or .svg, got {path.name}")


def check_folder(path: Path) -> None:
    """Reject a folder that cannot be made because a file is in its place or above it."""
    for place in (path, *path.parents):
        if place.is_dir():
            return
        if place.exists() or place.is_symlink():
            raise ValueError(f"{path} cannot be a folder: {place} is a file")


def check_sweep_folder(path: Path) -> None:
    """Reject a folder that holds files but no cell of a sweep."""
    check_folder(path)
    known = path.is_dir() and ((path / "sweep.json").exists() or any(path.glob("*/seed-*")))
    if path.is_dir() and any(path.iterdir()) and not known:
        raise ValueError(f"{path} holds other files and no sweep: give a new folder")
