"""A run folder: its lock, its files of tensors, and metrics.jsonl. All can be read without this program."""

import errno
import hashlib
import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from refprior import _files
from refprior._files import LOCK, check_ordinary, decode, open_file, read_bytes, write_atomically, write_bytes
from refprior._words import in_short
from refprior.training.loop import Record

RECIPE, METRICS = "recipe.json", "metrics.jsonl"
Own = Callable[[str, tuple[int, ...]], slice | None]  # which rows of a tensor to read, by its name and shape
_LIMIT = 4 << 30  # bytes of metrics.jsonl
_KINDS = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}  # as safetensors calls them


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes out of a run folder, which is made if needed."""

    def refuse(holder: str) -> None:
        raise ValueError(f"{folder} is in use: {holder} works there")

    check_no_links(folder)
    with _files.locked(folder, refuse):
        yield


def check_no_links(folder: Path) -> None:
    """Raise a ValueError for a run folder with a link in it, which may lead anywhere."""
    parts = (LOCK, RECIPE, METRICS, "start", "checkpoints", "snapshots")
    check_ordinary(*(folder / name for name in parts), *folder.glob("checkpoints/*"), *folder.glob("snapshots/*"))


def check_no_strangers(folder: Path) -> None:
    """Raise a ValueError for a folder that holds something but no run, or whose weights could not be read back."""
    try:
        str(folder).encode()
    except UnicodeEncodeError:  # safetensors opens names in UTF-8 only
        raise ValueError(f"{str(folder)!r} is not a name in UTF-8: give a folder with another name") from None
    names = sorted(path.name for path in folder.glob("*")) if folder.is_dir() else []
    visible = [name for name in names if not name.startswith(".")]
    if visible and not {RECIPE, METRICS, "checkpoints"} & set(visible):
        more = f" and {len(visible) - 1} more" if len(visible) > 1 else ""
        raise ValueError(f"{folder} holds {visible[0]}{more} and no run: give a new folder")


def move_aside(path: Path) -> Path | None:
    """Rename an existing file or folder to NAME.old-1, NAME.old-2, …, and return the new name."""
    if not path.exists():
        return None
    number = 1
    while (aside := path.with_name(f"{path.name}.old-{number}")).exists():
        number += 1
    return path.rename(aside)


def current_stage(folder: Path) -> Path:
    """Return the folder of the stage that a run is at: a stage has metrics when the one before it is done."""
    while not (folder / METRICS).exists() and (folder / "start").is_dir():
        folder = folder / "start"
    return folder


def last_record(folder: Path, tail: int = 1 << 20) -> Record | None:
    """Read the newest record of a stage from the end of its metrics; None if there is none that can be read."""
    try:
        with open_file(folder / METRICS) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - tail))
            lines = file.read().split(b"\n")[:-1]  # the last line may still be in the making
        return Record.from_dict(decode(lines[-1]))
    except (OSError, ValueError, IndexError):
        return None


def write_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str] | None = None) -> None:
    """Write a safetensors file; a full disk is an OSError, as for every other file."""
    whole = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    try:
        write_atomically(path, lambda side: save_file(whole, side, metadata))
    except SafetensorError as error:
        raise OSError(str(error)) from None


@dataclass(frozen=True)
class Entry:
    """A tensor that is written piece by piece."""

    dtype: torch.dtype
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def write_stream(path: Path, entries: dict[str, Entry], pieces: Iterator[Tensor]) -> None:
    """Write a safetensors file whose tensors come in pieces, one after another in the order of the entries, so that
    none of them is ever whole in memory. Those with larger numbers first: a reader finds each where it may begin."""
    head: dict[str, object] = {}
    start = 0
    for name, entry in entries.items():
        places = [start, start + entry.nbytes]
        head[name] = {"dtype": _KINDS[entry.dtype], "shape": entry.shape, "data_offsets": places}
        start = places[1]
    text = msgspec.json.encode(head)
    text += b" " * (-len(text) % 8)

    def write(side: Path) -> None:
        with side.open("wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            for piece in pieces:
                file.write(piece.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)

    write_atomically(path, write)


def read_tensors(path: Path, size: int, sha256: str, record: str, own: Own | None = None) -> dict[str, Tensor]:
    """The tensors of a safetensors file, if it is the one that a record knows by its size and checksum.

    own: which rows of a tensor are read, by its name and shape; None for all of them.
    """
    check_ordinary(path)
    if not path.exists():
        raise ValueError(f"{path} is missing")
    if path.stat().st_size != size or digest(path) != sha256:
        raise ValueError(f"{path} is damaged: its checksum is not the one in {record}")
    try:
        if own is not None:
            return _rows(path, own)
        # Copies: what safetensors gives is the file itself in memory, and would go with it.
        return {name: tensor.clone() for name, tensor in load_file(path).items()}
    except (SafetensorError, ValueError, TypeError, KeyError, OverflowError) as error:
        raise ValueError(f"{path} is damaged: {in_short(error)}") from None


def _rows(path: Path, own: Own) -> dict[str, Tensor]:
    """Read some rows of each tensor of a file, and not the others."""
    found = {}
    with safe_open(path, "pt") as file:
        for name in file.keys():  # noqa: SIM118 (it is no dictionary)
            part = file.get_slice(name)
            rows = own(name, tuple(part.get_shape()))
            found[name] = (file.get_tensor(name) if rows is None else part[rows]).clone()
    return found


def tensors_of(tensors: dict[str, Tensor], part: str) -> dict[str, Tensor]:
    """Return the tensors whose names begin with a part's, by the rest of their names."""
    return {name.removeprefix(f"{part}."): t for name, t in tensors.items() if name.startswith(f"{part}.")}


def digest(path: Path) -> str:
    """Return the sha256 of a file."""
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True)
class Written:
    """How much of metrics.jsonl is whole: its first bytes, and their checksum."""

    size: int = 0
    sha256: str = hashlib.sha256().hexdigest()


class Metrics:
    """metrics.jsonl, written line by line. Lines that a full disk rejects are written later."""

    def __init__(self, folder: Path, known: Written) -> None:
        """known: what a checkpoint knows of it. Lines after that are cut: they will be written again."""
        self.path = folder / METRICS
        content = _checked(self.path, known)[: known.size] if known.size else b""
        found = self.path.stat() if self.path.exists() else None
        if found is None or found.st_size > known.size or found.st_nlink > 1:  # other names keep what they had
            write_bytes(self.path, content)
        self.size, self.digest = known.size, hashlib.sha256(content)
        self.waiting = b""

    def append(self, record: Record) -> None:
        self.waiting += msgspec.json.encode(record) + b"\n"
        with suppress(OSError):
            self._write()

    def sync(self) -> Written:
        """Write every line to disk, or raise; return what there is."""
        self._write()
        with open_file(self.path) as file:
            os.fsync(file.fileno())
        return Written(self.size, self.digest.hexdigest())

    def _write(self) -> None:
        """Write all lines that wait, or none."""
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW)
        try:
            if os.write(descriptor, self.waiting) < len(self.waiting):
                os.ftruncate(descriptor, self.size)
                raise OSError(errno.ENOSPC, "no room for a whole line", str(self.path))
        finally:
            os.close(descriptor)
        self.digest.update(self.waiting)
        self.size, self.waiting = self.size + len(self.waiting), b""


def read_records(folder: Path, known: Written | None = None) -> list[Record]:
    """Read all records of a run in order. known: what its newest checkpoint knows of them, if there is one."""
    path = folder / METRICS
    if not path.exists():
        raise ValueError(f"{folder} has no {METRICS}: nothing was trained there")
    content = read_bytes(path, _LIMIT) if known is None else _checked(path, known)
    records = []
    whole = content[: content.rfind(b"\n") + 1]  # the last line may still be in the making
    for number, line in enumerate(whole.splitlines(), start=1):
        try:
            records.append(Record.from_dict(decode(line)))
        except ValueError as error:
            raise ValueError(f"{path}, line {number} is not a record: {in_short(error)}") from None
    return records


def _checked(path: Path, known: Written) -> bytes:
    """Read all bytes; raise a ValueError if those that a checkpoint knows are missing or differ."""
    content = read_bytes(path, _LIMIT) if path.exists() else b""
    if len(content) < known.size:
        raise ValueError(f"{path} has {len(content)} bytes, the checkpoint knows of {known.size}: the rest is lost")
    if hashlib.sha256(content[: known.size]).hexdigest() != known.sha256:
        raise ValueError(f"{path} is damaged: the checkpoint knows of other content")
    return content
