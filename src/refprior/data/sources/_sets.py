"""Readers of the data sets with names. A new one is a function that returns a `DataSet`, and a line in `DATA_SETS`.

MNIST and Fashion-MNIST are idx files: two zero bytes, a type, a number of dimensions, their sizes, the data.
"""

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from refprior._kinds import Kind
from refprior._process import check_memory
from refprior.data._data_set import DataSet, data_set, held_out
from refprior.data._task import check_labels
from refprior.data.files import (
    LARGEST_FILE,
    DataError,
    blocks_of,
    channels_first,
    check_column,
    class_names,
    load_arrays,
    naming,
    split_parts,
    unpacked,
)
from refprior.data.sources._catalog import places
from refprior.data.sources._cifar import read_cifar10, read_cifar100, superclass_members

_UNSIGNED_BYTE = 0x08  # the only type of idx files that is read
DIGITS_TEST = 600
FASHION_CLASSES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip
FIVE_SUPERCLASSES = ("vehicles_1", "vehicles_2", "fish", "people", "aquatic_mammals")  # appendix, Setup
SUPERCLASSES = (
    "aquatic_mammals", "fish", "flowers", "food_containers", "fruit_and_vegetables", "household_electrical_devices",
    "household_furniture", "insects", "large_carnivores", "large_man-made_outdoor_things",
    "large_natural_outdoor_scenes", "large_omnivores_and_herbivores", "medium_mammals", "non-insect_invertebrates",
    "people", "reptiles", "small_mammals", "trees", "vehicles_1", "vehicles_2",
)  # fmt: skip


class Known(NamedTuple):
    """Facts about a data set that are known before it is read."""

    classes: int | None
    shape: tuple[int, ...]
    kind: Kind


KNOWN = {
    "digits": Known(10, (1, 8, 8), "digits"),
    "mnist": Known(10, (1, 28, 28), "digits"),
    "fashion-mnist": Known(10, (1, 28, 28), "objects"),
    "cifar10": Known(10, (3, 32, 32), "photos"),
    "cifar100": Known(None, (3, 32, 32), "photos"),  # five of its twenty superclasses may be all that is there
}
_FIVE_FILE = "cifar100_5super.npz"  # the five superclasses alone, as arrays
_DEBIAN = Path("/usr/share/datasets/fashion-mnist")  # of Debian's package dataset-fashion-mnist


def read_digits(folder: str | Path | None = None) -> DataSet:
    """Read scikit-learn's digits: 1,797 gray images of 8×8, 60 per class for testing."""
    return held_out("digits", [str(d) for d in range(10)], _digits(), DIGITS_TEST, kind="digits")


@cache
def _digits() -> tuple[np.ndarray, np.ndarray]:
    """Return images and labels, not to be modified; the text file takes longer to read than a small run to start."""
    from sklearn.datasets import load_digits

    data = load_digits()
    return np.round(data.images * (255 / 16)).astype(np.uint8)[:, None], data.target


def read_mnist(folder: str | Path | None = None) -> DataSet:
    """Read MNIST from its four idx files."""
    return _idx_data_set("mnist", [str(d) for d in range(10)], places("mnist", folder))


def read_fashion_mnist(folder: str | Path | None = None) -> DataSet:
    """Read Fashion-MNIST from its four idx files."""
    return _idx_data_set("fashion-mnist", FASHION_CLASSES, [*places("fashion-mnist", folder), _DEBIAN])


def read_superclasses(folder: str | Path | None = None) -> DataSet:
    """Read CIFAR-100, or the part of it that is present; its groups are the superclasses.

    From the official files, or from a file of the five superclasses of the paper (cifar100_5super.npz); `folder` may
    be that file.
    """
    for place in places("cifar100", folder):
        file = place if place.suffix == ".npz" else place / _FIVE_FILE
        if file.is_file():
            return _read_five(file)
    return read_cifar100(folder)


def _read_five(path: Path) -> DataSet:
    arrays = load_arrays(path, ("images", "fine", "coarse", "split", "fine_names", "coarse_names"))
    with naming(path):
        images = channels_first(arrays["images"])
        for key in ("fine", "coarse", "split"):
            check_column(arrays[key], key, len(images))
        names = {key: class_names(arrays[f"{key}_names"]) for key in ("fine", "coarse")}
        for key in names:
            check_labels(key, torch.from_numpy(arrays[key].astype(np.int64)), len(names[key]))
        train, test = split_parts(arrays["split"])
        present, fine = np.unique(arrays["fine"], return_inverse=True)
        data = data_set(
            "cifar100",
            [names["fine"][i] for i in present],
            (images[train], fine[train]),
            (images[test], fine[test]),
            kind="photos",
        )
        return replace(data, groups=superclass_members(fine, arrays["coarse"], names["coarse"]))


def _idx_data_set(name: str, classes: Sequence[str], folders: Sequence[Path]) -> DataSet:
    parts = []
    for part in ("train", "t10k"):
        images_file = _idx_file(name, f"{part}-images-idx3-ubyte", folders)
        labels_file = _idx_file(name, f"{part}-labels-idx1-ubyte", folders)
        images, labels = read_idx(images_file), read_idx(labels_file)
        if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):
            raise DataError(f"{images_file} holds {images.shape}, {labels_file} {labels.shape}: not images and labels")
        if labels.size and labels.max() >= len(classes):
            index = int(labels.argmax())
            raise DataError(f"{labels_file}: label {labels[index]} of image {index} is outside 0 … {len(classes) - 1}")
        parts.append((images[:, None], labels))
    with naming(images_file.parent):
        return data_set(name, classes, *parts, kind=KNOWN[name].kind)


def _idx_file(name: str, stem: str, folders: Sequence[Path]) -> Path:
    for folder in folders:
        for file in (stem, f"{stem}.gz", stem.replace("-idx", ".idx")):
            if (folder / file).is_file():
                return folder / file
    looked = " or ".join(str(folder) for folder in folders)
    raise FileNotFoundError(f"no {stem} in {looked}; get it with: refprior data get {name}")


DATA_SETS: dict[str, Callable[[str | Path | None], DataSet]] = {
    "digits": read_digits,
    "mnist": read_mnist,
    "fashion-mnist": read_fashion_mnist,
    "cifar10": read_cifar10,
    "cifar100": read_superclasses,
}


def read_idx(path: Path) -> np.ndarray:
    """Read the array of unsigned bytes in an idx file, plain or gzipped."""
    with unpacked(path) as file:
        start = file.read(4)
        if len(start) < 4 or start[:2] != b"\0\0":
            raise DataError(f"{path}: not an idx file, it begins with {start!r}")
        if start[2] != _UNSIGNED_BYTE:
            raise DataError(f"{path}: idx type 0x{start[2]:02x}, only unsigned bytes (0x08) are read")
        if start[3] not in (1, 2, 3, 4):
            raise DataError(f"{path}: {start[3]} dimensions, expected 1 to 4")
        sizes = file.read(4 * start[3])
        if len(sizes) < 4 * start[3]:
            raise DataError(f"{path}: cut short inside its header, at byte {4 + len(sizes)}")
        shape = struct.unpack(f">{start[3]}I", sizes)
        expected = math.prod(shape)
        if expected > LARGEST_FILE:
            raise DataError(
                f"{path}: the header announces {shape}, {expected:,} bytes, at most {LARGEST_FILE:,} are read"
            )
        check_memory(3 * expected, f"{path}: reading {expected:,} bytes")
        data = bytearray()
        for block in blocks_of(file, expected + 1):
            data += block
    if len(data) != expected:
        found = f"{len(data)} follow" if len(data) < expected else "more follow"
        raise DataError(f"{path}: the header announces {shape}, {expected} bytes, but {found}")
    return np.frombuffer(data, dtype=np.uint8).reshape(shape)


def is_folder(data: object) -> bool:
    """Return whether data names a folder of images."""
    return isinstance(data, str) and data not in DATA_SETS and Path(data).is_dir()
