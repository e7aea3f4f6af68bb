"""Files that are whole or absent, sealed records, and reading what may come from a stranger.

Inside a run folder nothing is read or written through a link, and nothing larger than its kind can be is read.
"""

import fcntl
import hashlib
import io
import json
import os
import re
import secrets
import stat
from collections.abc import Callable
from contextlib import suppress
from io import BufferedReader
from pathlib import Path
from typing import Any

import msgspec

from refprior._words import in_short

PART = ".part"  # how the names of files in the making end
SEAL = "checksum"
_RECORD_LIMIT = 64 << 20  # bytes of a JSON file
_DEPTH = 100  # of objects and lists in a JSON file


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Write to the side, sync, rename: a reader sees the old file or the new one, never a part.

    The file at the side has a name of its own and is locked as long as its writer lives, so that writers do not
    disturb each other, and what a killed one left is known and removed. A link at `path` is replaced, not followed.
    """
    side = path.with_name(f".{secrets.token_hex(8)}{PART}")
    descriptor = os.open(side, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        mode = os.fstat(descriptor).st_mode
        write(side)
        side.chmod(mode)  # the permissions of every other file, whatever the writer chose
        with side.open("rb") as file:
            os.fsync(file.fileno())
        side.replace(path)
    except BaseException:
        side.unlink(missing_ok=True)  # a full disk needs the room
        raise
    finally:
        os.close(descriptor)
    _sync_folder(path.parent)
    _sweep_up(path.parent)


def write_text(path: Path, text: str) -> None:
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    write_atomically(path, lambda side: side.write_bytes(content))


def write_figure(path: Path, figure: Any, dpi: int = 120) -> None:
    """A figure of matplotlib's, in the format that the name says."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=path.suffix[1:].lower() or "png", dpi=dpi)
    write_bytes(path, buffer.getvalue())


def write_record(path: Path, format_: int, content: dict[str, Any]) -> None:
    """A JSON object, sealed with a checksum of its content."""
    record = {"format": format_, **content}
    sealed = {**record, SEAL: _checksum(record)}
    write_text(path, json.dumps(sealed, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_record(path: Path, format_: int) -> dict[str, Any]:
    """The content of a sealed JSON object; ValueError if it is damaged, or was changed by hand."""
    record = read_json(path)
    if not isinstance(record, dict):
        raise ValueError(f"{path} is damaged: it is no JSON object")
    seal, found = record.pop(SEAL, None), record.get("format")
    if found != format_ and isinstance(found, int | None):
        raise ValueError(
            f"{path} has {'an earlier format' if found is None else f'format {found}'}, this version of refprior reads "
            f"format {format_}: train the run again, or read it with the version that made it"
        )
    if not isinstance(seal, str) or seal != _checksum(record):
        raise ValueError(f"{path} is damaged, or was changed by hand: its content does not match its {SEAL}")
    del record["format"]
    return record


def read_json(path: Path) -> Any:
    """The content of a JSON file."""
    text = read_bytes(path, _RECORD_LIMIT)
    try:
        return decode(text)
    except ValueError as error:
        raise ValueError(f"{path} is not valid JSON: {in_short(error)}") from None


def decode(text: bytes) -> Any:
    """What JSON text holds, not nested more deeply than any record is."""
    try:
        content = msgspec.json.decode(text)
    except RecursionError as error:
        raise ValueError(str(error)) from None
    _check_depth(content)
    return content


def read_bytes(path: Path, limit: int) -> bytes:
    """The content of an ordinary file of at most `limit` bytes that is not a link."""
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > limit:
            raise ValueError(f"{path} has {size:,} bytes, more than the {limit:,} that are read of such a file")
        return file.read(size)


def open_file(path: Path) -> BufferedReader:
    """An ordinary file to read, opened without following a link and without waiting for a pipe."""
    check_ordinary(path)
    return open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb")


def check_ordinary(*paths: Path) -> None:
    """Refuse links, pipes and devices: in a folder that came from elsewhere they could lead anywhere."""
    for path in paths:
        with suppress(FileNotFoundError):
            kind = path.lstat().st_mode
            if stat.S_ISLNK(kind):
                raise ValueError(f"{path} is a link, and links inside a run folder are not followed: copy it there")
            if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
                raise ValueError(f"{path} is neither a file nor a folder: remove it")


def _checksum(content: dict[str, Any]) -> str:
    """Of the content, not of the text: keys in order, no blanks. "" for what cannot be written as JSON."""
    try:
        return hashlib.sha256(msgspec.json.encode(content, order="deterministic")).hexdigest()
    except (OverflowError, UnicodeError):
        return ""


def _check_depth(content: Any) -> None:
    """Refuse what is nested more deeply than any record, before anything goes down into it."""
    level = [content]
    for _ in range(_DEPTH):
        level = [item for value in level for item in _inside(value)]
        if not level:
            return
    raise ValueError(f"it is nested more than {_DEPTH} levels deep")


def _inside(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _sync_folder(folder: Path) -> None:
    """Have the names in a folder on disk."""
    directory = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _sweep_up(folder: Path) -> None:
    """Remove what writers left that were killed; a file in the making is locked, and stays."""
    for entry in os.scandir(folder):
        if re.fullmatch(rf"\.[0-9a-f]{{16}}{re.escape(PART)}", entry.name):
            with suppress(OSError):
                descriptor = os.open(entry.path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.unlink(entry.path)
                finally:
                    os.close(descriptor)
