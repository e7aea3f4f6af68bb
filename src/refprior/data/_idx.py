"""The idx format of MNIST and Fashion-MNIST: two zero bytes, a type, a number of dimensions, their sizes, the data."""

import io
import math
import struct
from pathlib import Path
from typing import BinaryIO

import numpy as np

from refprior._process import check_memory
from refprior.data._error import DataError
from refprior.data._unpack import LARGEST_FILE, blocks_of, unpacked

_UNSIGNED_BYTE = 0x08


def read_idx(path: Path) -> np.ndarray:
    """The array of unsigned bytes in an idx file, plain or gzipped."""
    with unpacked(path) as file:
        return _read(file, str(path))


def read_idx_bytes(content: bytes, name: str) -> np.ndarray:
    """The same, of the bytes of a plain idx file."""
    return _read(io.BytesIO(content), name)


def _read(file: BinaryIO, name: str) -> np.ndarray:
    shape = _shape(file, name)
    expected = math.prod(shape)
    if expected > LARGEST_FILE:
        raise DataError(f"{name}: the header announces {shape}, {expected:,} bytes, at most {LARGEST_FILE:,} are read")
    check_memory(3 * expected, f"{name}: reading {expected:,} bytes")
    data = bytearray()
    for block in blocks_of(file, expected + 1):
        data += block
    if len(data) != expected:
        found = f"{len(data)} follow" if len(data) < expected else "more follow"
        raise DataError(f"{name}: the header announces {shape}, {expected} bytes, but {found}")
    return np.frombuffer(data, dtype=np.uint8).reshape(shape)


def _shape(file: BinaryIO, name: str) -> tuple[int, ...]:
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
