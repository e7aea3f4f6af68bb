"""A run folder: its lock, files that are whole or absent, and metrics.jsonl. All can be read without this program."""

import errno
import fcntl
import json
import os
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

import msgspec
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from refprior.training._records import Record

RECIPE, METRICS = "recipe.json", "metrics.jsonl"
LOCK = ".lock"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Make the folder if needed and keep other processes out of it. The system drops the lock with the process."""
    file = _lock(folder)
    with file:
        file.truncate(0)
        file.write(f"process {os.getpid()} on {platform.node()}")
        file.flush()
        try:
            yield
        finally:
            if [path.name for path in folder.glob("*")] == [LOCK]:  # nothing came of it
                (folder / LOCK).unlink()
                folder.rmdir()


def _lock(folder: Path) -> TextIO:
    """The lock file, held. One that was moved away with its folder between opening and locking does not count."""
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / LOCK).open("a+", encoding="utf-8")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "another process"
            file.close()
            raise ValueError(f"{folder} is in use: {holder} trains there") from None
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), os.stat(folder / LOCK)):
                return file
        file.close()


def move_aside(folder: Path) -> Path | None:
    """Rename an existing folder to FOLDER.old-1, FOLDER.old-2, …; the new name."""
    if not folder.exists():
        return None
    number = 1
    while (aside := folder.with_name(f"{folder.name}.old-{number}")).exists():
        number += 1
    return folder.rename(aside)


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Write to the side, sync, rename: a reader sees the old file or the new one, never a part."""
    temporary = path.with_name(path.name + ".part")
    temporary.touch()
    mode = temporary.stat().st_mode
    try:
        write(temporary)
        temporary.chmod(mode)  # the permissions of every other file, whatever the writer chose
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    except Exception:
        temporary.unlink(missing_ok=True)  # a full disk needs the room
        raise
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def write_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str] | None = None) -> None:
    """Write a safetensors file; a full disk is an OSError, as for every other file."""
    whole = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    try:
        write_atomically(path, lambda side: save_file(whole, side, metadata))
    except SafetensorError as error:
        raise OSError(str(error)) from None


def write_json(path: Path, content: Any) -> None:
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def write_text(path: Path, text: str) -> None:
    write_atomically(path, lambda side: side.write_text(text, encoding="utf-8"))


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"{path.parent} is not a run folder: it has no {path.name}") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not valid JSON: {error}") from None


class Metrics:
    """metrics.jsonl, written line by line. What a full disk refuses waits and is written later."""

    def __init__(self, folder: Path, size: int | None) -> None:
        """size: how long it was at the checkpoint; lines after that are cut, they will be written again."""
        self.path = folder / METRICS
        if not self.path.exists():
            self.path.touch()
        self.size = size or 0
        self.waiting = b""
        found = self.path.stat().st_size
        if found < self.size:
            raise ValueError(
                f"{self.path} has {found} bytes, the checkpoint knows of {self.size}: put it back, or use --fresh"
            )
        if found > self.size:
            os.truncate(self.path, self.size)

    def append(self, record: Record) -> None:
        self.waiting += msgspec.json.encode(record) + b"\n"
        with suppress(OSError):
            self._write()

    def sync(self) -> int:
        """Have every line on disk, or raise; the length in bytes."""
        self._write()
        with self.path.open("rb") as file:
            os.fsync(file.fileno())
        return self.size

    def _write(self) -> None:
        """All that waits, or nothing of it."""
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        try:
            if os.write(descriptor, self.waiting) < len(self.waiting):
                os.truncate(self.path, self.size)
                raise OSError(errno.ENOSPC, "no room for a whole line", str(self.path))
        finally:
            os.close(descriptor)
        self.size, self.waiting = self.size + len(self.waiting), b""


def read_records(folder: Path) -> list[Record]:
    """All records of a run, in order."""
    path = folder / METRICS
    if not path.exists():
        raise ValueError(f"{folder} has no {METRICS}: nothing was trained there")
    records = []
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            records.append(Record.from_dict(msgspec.json.decode(line)))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path}, line {number} is not a record: {error}") from None
    return records
