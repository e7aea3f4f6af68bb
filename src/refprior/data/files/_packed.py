"""Packed files, read with a bound: a small file may unpack to more than any memory holds.

`tarfile` is not used, since it follows links inside archives and reads headers of any length.
"""

import contextlib
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from refprior._process import check_memory
from refprior._words import in_short
from refprior.data.files._error import DataError

LARGEST_FILE = 200_000_000  # bytes; no file of a known data set is longer
_LARGEST_ARCHIVE = 400_000_000  # bytes, unpacked
_MOST_MEMBERS = 1000
_BLOCK = 1 << 20
_HEADER = 512  # bytes; contents are filled up to a multiple of it
_FILES, _EMPTY = b"0\0", b"123456"  # types of members: ordinary files; links, devices and folders, without content


class Member(NamedTuple):
    """An ordinary file in an archive; its blocks must be read before the next member."""

    name: str  # without its folders
    size: int
    blocks: Iterator[bytes]


class _Gzip(gzip.GzipFile):
    def read(self, size: int | None = -1) -> bytes:
        try:
            return super().read(size)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            path = getattr(self.fileobj, "name", "")
            raise DataError(f"{path}: the gzip data are damaged or cut short ({in_short(error)})") from error


@contextlib.contextmanager
def unpacked(path: Path) -> Iterator[BinaryIO]:
    """Open a file, plain or gzipped (recognized by its first bytes, not its name), to read in blocks."""
    with path.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        yield _Gzip(fileobj=file) if zipped else file  # type: ignore[misc]


def blocks_of(file: BinaryIO, count: int) -> Iterator[bytes]:
    """Read up to `count` bytes, block by block: memory follows the file's real length, not what its header claims."""
    while count > 0 and (block := file.read(min(_BLOCK, count))):
        count -= len(block)
        yield block


def members(path: Path) -> Iterator[Member]:
    """Yield the ordinary files in a tar archive, plain or gzipped. Links are left out, so that none is followed."""
    with unpacked(path) as file:
        offset = 0
        for _ in range(_MOST_MEMBERS):
            header = file.read(_HEADER)
            if not header.strip(b"\0"):
                for _rest in blocks_of(file, _LARGEST_ARCHIVE - offset):  # up to the checksum at the end of gzip data
                    pass
                return
            size, kind = _size(header, f"{path}, byte {offset}"), header[156:157]
            length = 0 if kind in _EMPTY else size
            offset += _HEADER + length + -length % _HEADER
            if offset > _LARGEST_ARCHIVE:
                raise DataError(f"{path}: unpacks to {offset:,} bytes or more, at most {_LARGEST_ARCHIVE:,} are read")
            content = _content(file, length, f"{path}, {in_short(_name(header))}")
            if kind in _FILES:
                yield Member(_name(header), size, content)
            for _rest in content:  # of a member that was not read
                pass
            file.read(-length % _HEADER)
    raise DataError(f"{path}: more than {_MOST_MEMBERS} members, no archive of a data set has as many")


def content_of(member: Member, where: str) -> bytes:
    """Read all of a file in an archive."""
    if member.size > LARGEST_FILE:
        raise DataError(f"{where}, {in_short(member.name)}: {member.size:,} bytes, at most {LARGEST_FILE:,} are read")
    check_memory(2 * member.size, f"{where}: reading {member.size:,} bytes")
    return b"".join(member.blocks)


def _content(file: BinaryIO, size: int, where: str) -> Iterator[bytes]:
    found = 0
    for block in blocks_of(file, size):
        found += len(block)
        yield block
    if found < size:
        raise DataError(f"{where}: cut short, {found:,} of {size:,} bytes")


def _name(header: bytes) -> str:
    return header[:100].partition(b"\0")[0].decode("utf-8", "replace").rpartition("/")[2]


def _size(header: bytes, where: str) -> int:
    """Return the size in a member's header, whose checksum must be right."""
    total = sum(header[:148]) + sum(header[156:]) + 8 * ord(" ")
    if len(header) < _HEADER or _octal(header[148:156]) != total:
        raise DataError(f"{where}: not a tar archive, or damaged")
    size = _octal(header[124:136])
    if size is None:
        raise DataError(f"{where}: a member of unreadable size")
    return size


def _octal(field: bytes) -> int | None:
    digits = field.strip(b" \0")
    return int(digits or b"0", 8) if all(c in b"01234567" for c in digits) else None
