"""Atomic writes, folder locks, records with checksums, and safe reading of untrusted files.

Inside a run folder, links are not followed, and files larger than a limit for their kind are not read.
"""

import csv
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
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from itertools import accumulate
from pathlib import Path
from typing import Any

import msgspec
from filelock import SoftFileLock, Timeout, lock_descriptor

from refprior._words import in_short

Json = dict[str, Any]  # a JSON object
LOCK = ".lock"
MARK = ".lock.owner"  # instead of a lock, on file systems without locks
PART = ".part"  # suffix of unfinished files and folders
SEAL = "checksum"
_RECORD_LIMIT = 64 << 20  # bytes of a JSON file
_PAUSE = 0.1  # seconds between attempts to take a lock
_GLANCES, _GLANCE = 20, 0.005  # first attempts, while `holder` of another process may hold it, and seconds between
_DEPTH = 100  # largest nesting of objects and lists in a JSON file
_NO_LOCKS = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK)  # errors of file systems without locks


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Write to a temporary file, sync, and rename: a reader sees the old file or the new one, never a part.

    The temporary file has its own folder, locked as long as its writer lives: writers do not disturb each other, and
    leftovers of killed writers are removed. A link at `path` is replaced, not followed. Parent folders are created.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} exists and is not a file, so it is not replaced")
    folder, lock = _side(path.parent)
    try:
        side = folder / path.name
        write(side)
        side.chmod(folder.stat().st_mode & 0o666)  # the default permissions, whatever the writer chose
        with side.open("rb") as file:
            os.fsync(file.fileno())
        side.replace(path)
    except OSError as error:  # such as a full disk; the temporary file means nothing to the user
        raise OSError(error.errno, error.strerror, str(path)) if error.strerror else error from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # also after an error: the disk may be full
        os.close(lock)
    _sync_folder(path.parent)
    _sweep_up(path.parent)


def write_folder_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Write a temporary folder and rename it: a reader sees all of the old one, all of the new one, or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    side, lock = _side(path.parent)
    try:
        (side / "new").mkdir()
        write(side / "new")
        _sync_folder(side / "new")
        if path.exists():
            path.rename(side / "old")
        (side / "new").rename(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) if error.strerror else error from None
    finally:
        if (side / "old").exists() and not path.exists():
            (side / "old").rename(path)
        shutil.rmtree(side, ignore_errors=True)
        os.close(lock)
    _sync_folder(path.parent)
    _sweep_up(path.parent)


@contextmanager
def locked(folder: Path, busy: Callable[[str], object]) -> Iterator[None]:
    """Create a folder and keep other processes out of it; the system releases the lock with the process.

    `busy` is called with the owner repeatedly until the lock is free; it may raise. A folder that stays empty is
    removed.
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
    """Return the process that has locked a folder, on any machine that sees it; None if it is free."""
    if (owner := _marked_by(folder)) is not None:
        return owner
    try:
        lock = os.open(folder / LOCK, (os.O_RDWR if os.access(folder / LOCK, os.W_OK) else os.O_RDONLY) | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        return None if lock_descriptor(lock, blocking=False) else _owner(lock)
    except OSError as error:  # some network file systems need write permission
        return None if error.errno in _NO_LOCKS else _owner(lock)
    finally:
        os.close(lock)


def _lock(folder: Path, busy: Callable[[str], object]) -> int:
    """Take the lock of a folder; a lock file that was removed or moved with its folder meanwhile does not count."""
    glances = _GLANCES
    while True:
        lock = _opened(folder)
        try:
            if os.fstat(lock).st_nlink > 1:
                raise ValueError(f"{folder / LOCK} is a hard link to another file: remove it")
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
    """Open the lock file of a folder, which others may create and remove at the same time."""
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
    """Remove the lock while it is held: waiting processes notice and create another."""
    with suppress(OSError):
        if os.path.samestat(os.fstat(lock), os.stat(folder / LOCK)):  # the folder was not moved
            (folder / LOCK).unlink()
        folder.rmdir()  # if it is empty
    os.close(lock)


@contextmanager
def _marked(folder: Path, busy: Callable[[str], object]) -> Iterator[None]:
    """Lock a folder by a file that names its owner, on file systems without locks.

    The mark of a dead process is removed on its machine. Other machines cannot know, and `busy` receives the owner.
    """
    mark = SoftFileLock(folder / MARK, timeout=0)
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            mark.acquire()
            break
        except Timeout:
            owner = _marked_by(folder) or "another process"
            busy(f"{owner} (according to {MARK}: remove it if that process has ended)")
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
    """Return the owner according to the mark; None without a mark."""
    try:
        process, machine = read_bytes(folder / MARK, 4096).decode(errors="replace").splitlines()[:2]
    except (OSError, ValueError):
        return None
    return f"process {process} on {machine}"


def write_text(path: Path, text: str) -> None:
    write_bytes(path, text.encode(errors="backslashreplace"))  # file names may be undecodable


def write_csv(path: Path, rows: Iterable[Iterable[object]]) -> None:
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    write_text(path, text.getvalue())


def write_bytes(path: Path, content: bytes) -> None:
    write_atomically(path, lambda side: side.write_bytes(content))


def write_figure(path: Path, figure: Any, dpi: int = 120) -> None:
    """Write a matplotlib figure in the format of the file's suffix."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=path.suffix[1:].lower() or "png", dpi=dpi)
    write_bytes(path, buffer.getvalue())


def write_record(path: Path, format_: int, content: Json) -> None:
    """Write a JSON object with a checksum of its content."""
    record = {"format": format_, **content}
    seal = _checksum(record)
    if seal is None:  # it could be written but not read again
        raise ValueError(
            f"{path}: a setting is not valid text, such as a file name that is not UTF-8: rename that file"
        )
    sealed = {**record, SEAL: seal}
    write_text(path, json.dumps(sealed, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_record(path: Path, format_: int) -> Json:
    """Read a JSON object with a checksum; raise ValueError if it is damaged or was edited."""
    text = read_bytes(path, _RECORD_LIMIT)
    try:
        record = decode(text)
    except ValueError as error:
        raise ValueError(f"{path} is not valid JSON: {in_short(error)}") from None
    if not isinstance(record, dict):
        raise ValueError(f"{path} is damaged: expected a JSON object")
    seal, found = record.pop(SEAL, None), record.get("format")
    if found != format_ and isinstance(found, int | None):
        raise ValueError(
            f"{path} has {'an earlier format' if found is None else f'format {found}'}, this version of refprior reads "
            f"format {format_}: make it again, or read it with the version that made it"
        )
    if seal is None or seal != _checksum(record):
        raise ValueError(f"{path} is damaged or was edited: its content does not match its {SEAL}")
    del record["format"]
    return record


def decode(text: bytes) -> Any:
    """Decode JSON text, up to a nesting that no record exceeds."""
    if text.count(b"[") + text.count(b"{") > _DEPTH and _depth(text) > _DEPTH:
        raise ValueError(f"it is nested more than {_DEPTH} levels deep")
    return msgspec.json.decode(text)


def read_bytes(path: Path, limit: int) -> bytes:
    """Read an ordinary file of at most `limit` bytes that is not a link."""
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > limit:
            raise ValueError(f"{path} has {size:,} bytes, more than the limit of {limit:,} for such a file")
        return file.read(size)


def open_file(path: Path) -> BufferedReader:
    """Open an ordinary file for reading, without following a link and without waiting for a pipe."""
    check_ordinary(path)
    if path.is_dir():
        raise ValueError(f"{path} is a folder, not a file")
    return open(os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | os.O_NOFOLLOW | os.O_NONBLOCK), "rb")


def check_ordinary(*paths: Path) -> None:
    """Raise ValueError for links, pipes and devices, which could lead anywhere in a folder from elsewhere."""
    for path in paths:
        with suppress(FileNotFoundError):
            kind = path.lstat().st_mode
            if stat.S_ISLNK(kind):
                raise ValueError(f"{path} is a link, and links inside a run folder are not followed: copy the file")
            if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
                raise ValueError(f"{path} is neither a file nor a folder: remove it")


def _checksum(content: Json) -> str | None:
    """Hash the content, not the text: keys in order, no blanks. None for content that JSON cannot hold."""
    try:
        return hashlib.sha256(msgspec.json.encode(content, order="deterministic")).hexdigest()
    except (OverflowError, UnicodeError):
        return None


def _depth(text: bytes) -> int:
    """Return the nesting of brackets in JSON text, without those in strings."""
    brackets = (match[0] for match in re.finditer(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', text, re.DOTALL))
    steps = ((1 if bracket in b"[{" else -1) for bracket in brackets if len(bracket) == 1)
    return max(accumulate(steps), default=0)


def _sync_folder(folder: Path) -> None:
    """Flush the names in a folder to disk; Windows does it by itself."""
    directory = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _side(parent: Path) -> tuple[Path, int]:
    """Create a temporary folder and lock it, unless another process removed it as a leftover before."""
    while True:
        folder = parent / f".{secrets.token_hex(8)}{PART}"
        folder.mkdir()
        try:
            lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        except FileNotFoundError:
            continue
        with suppress(OSError):  # without locks, leftovers of killed writers stay
            lock_descriptor(lock)
        if os.fstat(lock).st_nlink:
            return folder, lock
        os.close(lock)


def _sweep_up(parent: Path) -> None:
    """Remove leftovers of killed writers; the folders of living ones are locked."""
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
