"""Where a command will write, looked at before anything long begins."""

import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path


def refuse_empty(arguments: Sequence[str]) -> None:
    """Refuse an option without its value: an empty path would mean the current folder."""
    for before, argument in pairwise(["refprior", *arguments]):
        if not argument:
            raise ValueError(f"the value after {before} is empty")
        if re.fullmatch(r"--[a-z-]+=", argument):
            raise ValueError(f"the value after {argument} is empty")


def check_file(*paths: Path | None) -> None:
    """Refuse files that cannot be written because of their folder, which is made if needed."""
    for path in filter(None, paths):
        if path.is_dir():
            raise ValueError(f"{path} is a folder: give the name of a file in it")
        if path.exists() and not path.is_file():
            raise ValueError(f"{path} is there and is not a file: it is not replaced")
        check_folder(path.parent)


def check_picture(*paths: Path | None) -> None:
    """`check_file`, and the kind of picture is one that can be drawn."""
    check_file(*paths)
    for path in filter(None, paths):
        if path.suffix.lower() not in (".png", ".pdf", ".svg"):
            raise ValueError(f"a picture is written as .png, .pdf or .svg, got {path.name}")


def check_folder(path: Path) -> None:
    """Refuse a folder that cannot be made, because a file is in its place or above it."""
    for place in (path, *path.parents):
        if place.is_dir():
            return
        if place.exists() or place.is_symlink():
            raise ValueError(f"{path} cannot be a folder: {place} is a file")


def check_sweep_folder(path: Path) -> None:
    """Refuse a folder that holds something, but no cell of a sweep."""
    check_folder(path)
    known = path.is_dir() and ((path / "sweep.json").exists() or any(path.glob("*/seed-*")))
    if path.is_dir() and any(path.iterdir()) and not known:
        raise ValueError(f"{path} holds other files and no sweep: give a new folder")
