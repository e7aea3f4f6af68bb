"""Arrays of a `.npz` file: only those asked for, checked by their headers before anything is allocated.

numpy does not read them, since it passes their headers to Python's parser and allocates what they announce.
"""

import io
import math
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np

from refprior._process import check_memory
from refprior._words import in_short
from refprior.data.files._error import DataError

_BLOCK = 1 << 20
_LARGEST_HEADER = 10_000  # bytes
_MOST_PACKED = 200  # times larger unpacked, of arrays that are no longer small
_SMALL = 100_000_000  # bytes
_COPIES = 3  # of the arrays, until the parts of a data set are made of them
_HEADER = re.compile(
    r"\{'descr': '([<>|=]?[biufU]\d{1,9})', 'fortran_order': (True|False), "
    r"'shape': \(([\dL, ]{0,200})\), ?\}\s*"
)
_DAMAGE = (
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, NotImplementedError, RuntimeError, KeyError,
    ValueError, OverflowError, TypeError,
)  # fmt: skip


def load_arrays(path: str | Path, needed: tuple[str, ...], optional: tuple[str, ...] = ()) -> dict[str, np.ndarray]:
    """Read arrays of a `.npz` file by name, those `needed` and any of the `optional` ones; never unpickles."""
    with _opened(path) as archive:
        members = {name.removesuffix(".npy"): archive.getinfo(name) for name in archive.namelist()}
        missing = set(needed) - set(members)
        if missing:
            raise DataError(f"{path}: no arrays {sorted(missing)} among {in_short(sorted(members))}")
        wanted = {name: members[name] for name in (*needed, *optional) if name in members}
        _check_sizes(path, list(wanted.values()))
        return {name: _array(archive, member, f"{path}, {name}") for name, member in wanted.items()}


def array_names(path: str | Path) -> list[str]:
    """List the names of the arrays in a `.npz` file."""
    with _opened(path) as archive:
        return [name.removesuffix(".npy") for name in archive.namelist()]


@contextmanager
def _opened(path: str | Path) -> Iterator[zipfile.ZipFile]:
    """Open a `.npz` file; what damage raises becomes a DataError."""
    if not Path(path).is_file():
        raise DataError(f"{path}: not a readable .npz file, there is no such file")
    with _InBlocks(io.FileIO(path)) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                yield archive
        except DataError:
            raise
        except _DAMAGE as error:
            raise DataError(f"{path}: not a readable .npz file of plain arrays ({in_short(error)})") from error


class _InBlocks(io.BufferedReader):
    """A file that reads no more than a block at once, whatever the zip format's headers announce."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > _BLOCK:
            raise zipfile.BadZipFile(f"its directory takes {size:,} bytes, at most {_BLOCK:,} are read")
        return super().read(_BLOCK if size is None or size < 0 else size)


def _check_sizes(path: str | Path, members: list[zipfile.ZipInfo]) -> None:
    """Reject arrays that unpack to far more than they take on disk, or than memory holds."""
    for member in members:
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise DataError(f"{path}, {member.filename}: packed by method {member.compress_type}, not numpy's")
        if member.file_size > max(_SMALL, _MOST_PACKED * member.compress_size):
            raise DataError(
                f"{path}, {member.filename}: {member.compress_size:,} bytes unpack to {member.file_size:,}, more than "
                f"{_MOST_PACKED} times as many; if that is right, save it with numpy.savez, unpacked"
            )
    total = sum(member.file_size for member in members)
    check_memory(_COPIES * total, f"{path}: reading {total:,} bytes of arrays", "use fewer or smaller inputs")


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo, where: str) -> np.ndarray:
    with archive.open(member) as file:
        dtype, shape, fortran, begin = _header(file, where)
        announced = math.prod(shape) * dtype.itemsize
        if announced != member.file_size - begin:
            there = member.file_size - begin
            raise DataError(f"{where}: the header announces {shape} {dtype}, {announced:,} bytes, but {there:,} follow")
        array = np.empty(math.prod(shape), dtype)
        content, place = array.view(np.uint8), 0
        while block := file.read(_BLOCK):  # to the end of the member, where its checksum is compared
            if place + len(block) > len(content):
                raise DataError(f"{where}: more than the {len(content):,} bytes announced")
            content[place : place + len(block)] = np.frombuffer(block, np.uint8)
            place += len(block)
        if place < len(content):
            raise DataError(f"{where}: cut short, {place:,} of {len(content):,} bytes")
    return array.reshape(shape, order="F" if fortran else "C")


def _header(file: IO[bytes], where: str) -> tuple[np.dtype[np.generic], tuple[int, ...], bool, int]:
    """Return type, shape, whether in Fortran order, and the number of bytes of the header."""
    start = file.read(8)
    version = start[6] if start[:6] == b"\x93NUMPY" and len(start) == 8 else None
    if version not in (1, 2, 3):
        raise DataError(f"{where}: not an array in numpy's format, it begins with {start!r}")
    width = 2 if version == 1 else 4
    length = int.from_bytes(file.read(width), "little")
    if length > _LARGEST_HEADER:
        raise DataError(f"{where}: a header of {length:,} bytes, at most {_LARGEST_HEADER:,} are read")
    text = file.read(length).decode("latin1")
    found = _HEADER.fullmatch(text)
    if found is None:
        raise DataError(f"{where}: not an array of numbers or text, its header is {in_short(text.strip())}")
    shape = tuple(int(size.strip(" L")) for size in found[3].removesuffix(",").split(",")) if found[3] else ()
    return np.dtype(found[1]), shape, found[2] == "True", 8 + width + length


def channels_first(images: np.ndarray) -> np.ndarray:
    """Put channels first: (n, h, w), (n, h, w, c) or (n, c, h, w) with c of 1 or 3 -> (n, c, h, w)."""
    if 0 in images.shape:
        raise DataError(f"images of shape {images.shape} are empty")
    if images.ndim == 3:
        return images[:, None]
    if images.ndim == 4 and images.shape[1] in (1, 3):
        return images
    if images.ndim == 4 and images.shape[3] in (1, 3):
        return images.transpose(0, 3, 1, 2)
    raise DataError(f"images of shape {images.shape}, expected (n, h, w) or four dimensions, 1 or 3 of color")


def check_column(values: np.ndarray, key: str, count: int, *, text: bool = False) -> None:
    """Reject what is not one whole number for each input; a name is allowed too if `text`."""
    if values.dtype.kind not in ("iuU" if text else "iu"):
        raise DataError(f"{key} must be integers{' or names' if text else ''}, got {values.dtype}")
    if values.shape != (count,):
        raise DataError(f"{key} must be one value for each input, shape ({count},), got {values.shape}")


def split_parts(split: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return which rows are for training and which for testing; every row must be one of them."""
    train, test = split == 0, split == 1
    lost = np.flatnonzero(~(train | test))
    if len(lost):
        raise DataError(f"split {split[lost[0]]} at index {lost[0]}, expected 0 (train) or 1 (test)")
    return train, test


def class_names(names: np.ndarray) -> list[str]:
    """Return the names of classes, which are text or whole numbers."""
    if names.ndim != 1 or names.dtype.kind not in "Uiu":
        raise DataError(f"the names of classes must be a row of text or whole numbers, got {names.shape} {names.dtype}")
    if (
        names.dtype.kind == "U"
        and names.size
        and names.astype(names.dtype.newbyteorder("=")).view(np.uint32).max() > 0x10FFFF
    ):
        raise DataError("the names of classes are not text")
    return [str(name) for name in names.tolist()]
