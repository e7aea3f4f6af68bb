"""The idx format of MNIST and Fashion-MNIST: two zero bytes, a type, a number of dimensions, their sizes, the data."""

import gzip
import io
import math
import struct
import zlib
from pathlib import Path
from typing import BinaryIO

import numpy as np

from refprior.data._error import DataError

_UNSIGNED_BYTE = 0x08
_BLOCK = 1 << 20


def read_idx(path: Path) -> np.ndarray:
    """The array of unsigned bytes in an idx file, plain or gzipped (recognised by its first bytes, not its name)."""
    with path.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        try:
            return _read(gzip.GzipFile(fileobj=file) if zipped else file, str(path))
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise DataError(f"{path}: the gzip data are damaged or cut short ({error})") from error


def read_idx_bytes(content: bytes, name: str) -> np.ndarray:
    """The same, of the bytes of a plain idx file."""
    return _read(io.BytesIO(content), name)


def _read(file: BinaryIO | gzip.GzipFile, name: str) -> np.ndarray:
    shape = _shape(file, name)
    expected = math.prod(shape)
    data = _at_most(file, expected + 1)
    if len(data) != expected:
        found = f"{len(data)} follow" if len(data) < expected else "more follow"
        raise DataError(f"{name}: the header announces {shape}, {expected} bytes, but {found}")
    return np.frombuffer(data, dtype=np.uint8).reshape(shape)


def _shape(file: BinaryIO | gzip.GzipFile, name: str) -> tuple[int, ...]:
    start = file.read(4)
    if len(start) < 4 or start[:2] != b"\0\0":
        raise DataError(f"{name}: not an idx file, it begins with {start!r}")
    if start[2] != _UNSIGNED_BYTE:
        raise DataError(f"{name}: idx type 0x{start[2]:02x}, only unsigned bytes (0x08) are read")
    if start[3] not in (1, 2, 3, 4):
        raise DataError(f"{name}: {start[3]} dimensions, expected 1 to 4")
    sizes = file.read(4 * start[3])
    if len(sizes) < 4 * start[3]:
        raise DataError(f"{name}: cut short inside its header, at byte {4 + len(sizes)}")
    return struct.unpack(f">{start[3]}I", sizes)


def _at_most(file: BinaryIO | gzip.GzipFile, count: int) -> bytearray:
    """Up to `count` bytes, block by block: memory follows the file's real length, not what its header claims."""
    data = bytearray()
    while len(data) < count and (block := file.read(min(_BLOCK, count - len(data)))):
        data += block
    return data
