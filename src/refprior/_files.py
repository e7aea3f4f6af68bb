"""Files that are whole or absent, sealed records, and reading what may come from a stranger.

Inside a run folder nothing is read or written through a link, and nothing larger than its kind can be is read.
"""

import errno
import hashlib
import io
import json
import os
import platform
import re
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from itertools import accumulate
from pathlib import Path
from typing import Any

import msgspec
from filelock import SoftFileLock, Timeout, lock_descriptor

from refprior._words import in_short

LOCK = ".lock"
MARK = ".lock.owner"  # in place of a lock, where the file system has none
PART = ".part"  # how the names of what is in the making end
SEAL = "checksum"
_RECORD_LIMIT = 64 << 20  # bytes of a JSON file
_PAUSE = 0.1  # seconds between looks at a lock that another process has
_GLANCES, _GLANCE = 20, 0.005  # looks at a lock that may only be looked at by another, and seconds between them
_DEPTH = 100  # of objects and lists in a JSON file
_NO_LOCKS = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK)  # what file systems say that have none


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Write to the side, sync, rename: a reader sees the old file or the new one, never a part.

    The side is a folder of its own, locked as long as its writer lives: writers do not disturb each other, and what a
    killed one left is known and removed. A link at `path` is replaced, not followed. Folders above are made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is there and is not a file: it is not replaced")
    folder, lock = _side(path.parent)
    try:
        side = folder / path.name
        write(side)
        side.chmod(folder.stat().st_mode & 0o666)  # the permissions of every other file, whatever the writer chose
        with side.open("rb") as file:
            os.fsync(file.fileno())
        side.replace(path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # also if it failed: a full disk needs the room
        os.close(lock)
    _sync_folder(path.parent)
    _sweep_up(path.parent)


def write_folder_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Write a folder to the side and rename it: a reader sees all of the old one, all of the new one, or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    side, lock = _side(path.parent)
    try:
        (side / "new").mkdir()
        write(side / "new")
        _sync_folder(side / "new")
        if path.exists():
            path.rename(side / "old")
        (side / "new").rename(path)
    finally:
        if (side / "old").exists() and not path.exists():
            (side / "old").rename(path)
        shutil.rmtree(side, ignore_errors=True)
        os.close(lock)
    _sync_folder(path.parent)
    _sweep_up(path.parent)


@contextmanager
def locked(folder: Path, busy: Callable[[str], object]) -> Iterator[None]:
    """Make the folder and keep other processes out of it; the system drops the lock with the process.

    busy: told who has it, again and again until it is free; it may raise. A folder that stays empty is removed.
    """
    try:
        lock = _lock(folder, busy)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        with _marked(folder, busy):
            yield
        return
    try:
        os.ftruncate(lock, 0)
        os.write(lock, f"process {os.getpid()} on {platform.node()}".encode())
        yield
    finally:
        _leave(folder, lock)


def holder(folder: Path) -> str | None:
    """Who works in a folder, on this machine or another that sees it; None if nobody does."""
    if (owner := _marked_by(folder)) is not None:
        return owner
    try:
        lock = os.open(folder / LOCK, (os.O_RDWR if os.access(folder / LOCK, os.W_OK) else os.O_RDONLY) | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        return None if lock_descriptor(lock, blocking=False) else _owner(lock)
    except OSError as error:  # a network file system may not say it to those who may only read
        return None if error.errno in _NO_LOCKS else _owner(lock)
    finally:
        os.close(lock)


def _lock(folder: Path, busy: Callable[[str], object]) -> int:
    """The lock file, held. One that was removed, or moved away with its folder, before it was locked does not count."""
    glances = _GLANCES  # at first it may be one who only looks whether there is a lock
    while True:
        lock = _opened(folder)
        try:
            if os.fstat(lock).st_nlink > 1:
                raise ValueError(f"{folder / LOCK} has another name elsewhere, a hard link: remove it")
            if not lock_descriptor(lock, blocking=False):
                if not glances:
                    busy(_owner(lock))
                time.sleep(_GLANCE if glances else _PAUSE)
                glances = max(glances - 1, 0)
            elif os.path.samestat(os.fstat(lock), os.stat(folder / LOCK)):
                return lock
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(lock)
            raise
        os.close(lock)


def _opened(folder: Path, tries: int = 100) -> int:
    """The lock file of a folder, which others may make and remove at the same time."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        check_ordinary(folder / LOCK)
        return os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    except (FileNotFoundError, FileExistsError):
        if not tries:
            raise
        return _opened(folder, tries - 1)


def _owner(lock: int) -> str:
    os.lseek(lock, 0, os.SEEK_SET)
    return os.read(lock, 200).decode(errors="replace").strip() or "another process"


def _leave(folder: Path, lock: int) -> None:
    """Remove the lock while it is held: a waiting process finds that it is gone, and makes another."""
    with suppress(OSError):
        if os.path.samestat(os.fstat(lock), os.stat(folder / LOCK)):  # the folder was not moved away meanwhile
            (folder / LOCK).unlink()
        folder.rmdir()  # if nothing came of it
    os.close(lock)


@contextmanager
def _marked(folder: Path, busy: Callable[[str], object]) -> Iterator[None]:
    """Where the file system has no locks: a file that names its owner. That of a dead process is removed on the machine
    of that process; on another nobody can tell, and `busy` hears whose it is."""
    mark = SoftFileLock(folder / MARK, timeout=0)
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            mark.acquire()
            break
        except Timeout:
            owner = _marked_by(folder) or "another process"
            busy(f"{owner} ({MARK} says so: remove it if that process is gone)")
            time.sleep(_PAUSE)
    try:
        yield
    finally:
        mark.release()
        with suppress(OSError):
            (folder / LOCK).unlink()
        with suppress(OSError):
            folder.rmdir()


def _marked_by(folder: Path) -> str | None:
    """The owner by the mark, in place of a lock; None without a mark."""
    try:
        process, machine = read_bytes(folder / MARK, 4096).decode(errors="replace").splitlines()[:2]
    except (OSError, ValueError):
        return None
    return f"process {process} on {machine}"


def write_text(path: Path, text: str) -> None:
    write_bytes(path, text.encode(errors="backslashreplace"))  # names of files need not be text


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
    seal = _checksum(record)
    if seal is None:  # it could be written, and never read again
        raise ValueError(
            f"{path}: a setting is no text, such as the name of a file that is not UTF-8: rename that file"
        )
    sealed = {**record, SEAL: seal}
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
            f"format {format_}: make it again, or read it with the version that made it"
        )
    if seal is None or seal != _checksum(record):
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
    if text.count(b"[") + text.count(b"{") > _DEPTH and _depth(text) > _DEPTH:
        raise ValueError(f"it is nested more than {_DEPTH} levels deep")
    return msgspec.json.decode(text)


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
    if path.is_dir():
        raise ValueError(f"{path} is a folder, not a file")
    return open(os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | os.O_NOFOLLOW | os.O_NONBLOCK), "rb")


def check_ordinary(*paths: Path) -> None:
    """Refuse links, pipes and devices: in a folder that came from elsewhere they could lead anywhere."""
    for path in paths:
        with suppress(FileNotFoundError):
            kind = path.lstat().st_mode
            if stat.S_ISLNK(kind):
                raise ValueError(f"{path} is a link, and links inside a run folder are not followed: copy it there")
            if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
                raise ValueError(f"{path} is neither a file nor a folder: remove it")


def _checksum(content: dict[str, Any]) -> str | None:
    """Of the content, not of the text: keys in order, no blanks. None for what cannot be written as JSON."""
    try:
        return hashlib.sha256(msgspec.json.encode(content, order="deterministic")).hexdigest()
    except (OverflowError, UnicodeError):
        return None


def _depth(text: bytes) -> int:
    """How deeply the brackets of JSON text are nested, those within strings left out."""
    brackets = (match[0] for match in re.finditer(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', text, re.DOTALL))
    steps = ((1 if bracket in b"[{" else -1) for bracket in brackets if len(bracket) == 1)
    return max(accumulate(steps), default=0)


def _sync_folder(folder: Path) -> None:
    """Write the names in a folder to disk."""
    directory = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _side(parent: Path) -> tuple[Path, int]:
    """A new folder, and its lock. One that another process took for a leftover before it was locked does not count."""
    while True:
        folder = parent / f".{secrets.token_hex(8)}{PART}"
        folder.mkdir()
        try:
            lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        except FileNotFoundError:
            continue
        with suppress(OSError):  # where there are no locks, what a killed writer left stays
            lock_descriptor(lock)
        if os.fstat(lock).st_nlink:
            return folder, lock
        os.close(lock)


def _sweep_up(parent: Path) -> None:
    """Remove what writers left that were killed; the folder of one that lives is locked, and stays."""
    for folder in Path(parent).glob(f".*{PART}"):
        if re.fullmatch(rf"\.[0-9a-f]{{16}}{re.escape(PART)}", folder.name) and not folder.is_symlink():
            with suppress(OSError):
                _remove_leftover(folder)


def _remove_leftover(folder: Path) -> None:
    names = os.listdir(folder)
    if not names:
        folder.rmdir()
    elif LOCK not in names:
        shutil.rmtree(folder)
    else:
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW)
        try:
            if lock_descriptor(lock, blocking=False):
                shutil.rmtree(folder)
        finally:
            os.close(lock)
