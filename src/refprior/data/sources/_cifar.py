"""CIFAR-10 and CIFAR-100 from their official binary archives, packed or unpacked."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from refprior._process import check_memory
from refprior.data._data_set import DataSet, data_set
from refprior.data.files import LARGEST_FILE, DataError, content_of, members, naming
from refprior.data.sources._catalog import places

PIXELS = 3 * 32 * 32
CIFAR10_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_BATCHES = tuple(f"data_batch_{i}" for i in range(1, 6))
_NAMES = (
    *(f"{stem}.bin" for stem in (*_BATCHES, "test_batch", "train", "test")),
    "fine_label_names.txt",
    "coarse_label_names.txt",
)

Reader = Callable[[str], bytes]


class _Files(NamedTuple):
    """The files of a data set."""

    where: Path  # a folder or an archive
    read: Reader

    def named(self, name: str) -> str:
        """Return what an error calls a file."""
        return str(self.where / name) if self.where.is_dir() else f"{self.where}, {name}"


class Records(NamedTuple):
    """Some images with one or two labels each."""

    images: np.ndarray  # (n, 3, 32, 32)
    labels: np.ndarray  # (n,) the class; the fine one in CIFAR-100
    coarse: np.ndarray  # (n,) the superclass in CIFAR-100, else 0


def read_binary(content: bytes, name: str, count: int, classes: tuple[int, ...]) -> Records:
    """Read `count` records of label bytes and 3,072 pixels; `classes`: how many each label has, (10,) or (20, 100)."""
    length = len(classes) + PIXELS
    if len(content) != count * length:
        raise DataError(f"{name}: {len(content)} bytes, expected {count} records of {length}, {count * length}")
    table = np.frombuffer(content, dtype=np.uint8).reshape(count, length)
    for column, limit in enumerate(classes):
        labels = table[:, column]
        if labels.max() >= limit:
            first = int(np.argmax(labels >= limit))
            raise DataError(f"{name}: label {labels[first]} of image {first} is outside 0 … {limit - 1}")
    images = table[:, len(classes) :].reshape(count, 3, 32, 32)
    coarse = table[:, 0] if len(classes) == 2 else np.zeros(count)
    return Records(images, table[:, len(classes) - 1].astype(np.int64), coarse.astype(np.int64))


def read_cifar10(folder: str | Path | None = None) -> DataSet:
    """Read CIFAR-10 from `folder`, or from where `refprior data get cifar10` puts it."""
    files = _source("cifar10", "cifar-10", folder, "data_batch_1")
    parts = [_records(files, b, 10_000, (10,)) for b in _BATCHES]
    test = _records(files, "test_batch", 10_000, (10,))
    images = np.concatenate([p.images for p in parts])
    labels = np.concatenate([p.labels for p in parts])
    with naming(files.where):
        return data_set("cifar10", CIFAR10_CLASSES, (images, labels), (test.images, test.labels), kind="photos")


def read_cifar100(folder: str | Path | None = None) -> DataSet:
    """Read CIFAR-100 with its fine classes; its groups are the members of each superclass."""
    files = _source("cifar100", "cifar-100", folder, "train")
    train = _records(files, "train", 50_000, (20, 100))
    test = _records(files, "test", 10_000, (20, 100))
    fine, coarse = _names(files)
    with naming(files.where):
        data = data_set("cifar100", fine, (train.images, train.labels), (test.images, test.labels), kind="photos")
    return replace(data, groups=superclass_members(train.labels, train.coarse, coarse))


def superclass_members(fine: np.ndarray, coarse: np.ndarray, names: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Return the fine classes that occur in each superclass."""
    return {names[c]: tuple(int(f) for f in np.unique(fine[coarse == c])) for c in np.unique(coarse)}


def _records(files: _Files, stem: str, count: int, classes: tuple[int, ...]) -> Records:
    name = f"{stem}.bin"
    return read_binary(files.read(name), files.named(name), count, classes)


def _names(files: _Files) -> tuple[tuple[str, ...], tuple[str, ...]]:
    lists = []
    for kind, count in (("fine", 100), ("coarse", 20)):
        name = f"{kind}_label_names.txt"
        names = tuple(files.read(name).decode("ascii", "replace").split())
        if len(names) != count:
            raise DataError(f"{files.named(name)}: lists {len(names)} {kind} classes, expected {count}")
        lists.append(names)
    return lists[0], lists[1]


def _source(name: str, stem: str, folder: str | Path | None, first: str) -> _Files:
    """Find the files of a data set."""
    found = places(name, folder)
    for place in found:
        for inside in (place, place / f"{stem}-batches-bin", place / f"{stem}-binary"):
            if (inside / f"{first}.bin").is_file():
                return _Files(inside, partial(_from_folder, inside))
        archive = place if place.name == f"{stem}-binary.tar.gz" else place / f"{stem}-binary.tar.gz"
        if archive.is_file():
            return _Files(archive, _from_archive(archive))
    old = f"{stem}-python.tar.gz"
    for place in found:
        for python in (place, place / old, place / f"{stem}-batches-py", place / f"{stem}-python"):
            if (python.name == old and python.is_file()) or (python / first).is_file():
                raise DataError(
                    f"{python}: the python version of {name} is not supported; get {stem}-binary.tar.gz with: "
                    f"refprior data get {name}"
                )
    looked = " or ".join(str(p) for p in found)
    raise FileNotFoundError(f"no {name} in {looked}; get it with: refprior data get {name}")


def _from_folder(folder: Path, name: str) -> bytes:
    path = folder / name
    if not path.is_file():
        raise DataError(f"{folder}: has no file {name}")
    size = path.stat().st_size
    if size > LARGEST_FILE:
        raise DataError(f"{path}: {size:,} bytes, no CIFAR file is larger than {LARGEST_FILE:,}")
    check_memory(2 * size, f"{path}: reading {size:,} bytes")
    with path.open("rb") as file:
        return file.read(LARGEST_FILE)


def _from_archive(archive: Path) -> Reader:
    """Read all files in one pass over the archive: unpacking it again for each would take seconds."""
    files = {m.name: content_of(m, str(archive)) for m in members(archive) if m.name in _NAMES}

    def read(name: str) -> bytes:
        if name not in files:
            raise DataError(f"{archive}: has no file {name}")
        return files[name]

    return read
