"""A run folder: recipe.json, metrics.jsonl, checkpoints/, report.html. All can be read without this program."""

import errno
import fcntl
import json
import os
import platform
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any, TextIO

import torch

from refprior import __version__
from refprior.training._loop import Record

RECIPE, METRICS = "recipe.json", "metrics.jsonl"
LOCK = ".lock"
_PACKAGES = ("torch", "numpy", "scikit-learn", "safetensors")


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


def check(folder: Path, description: Any) -> None:
    """Refuse to go on with a run that another recipe made, or of which a part is gone."""
    trained = (folder / METRICS).exists() and (folder / METRICS).stat().st_size > 0
    saved = any(folder.glob("checkpoints/step-*.json"))
    if not (folder / RECIPE).exists():
        if trained or saved:
            raise ValueError(f"{folder} holds a run without its {RECIPE}: give another --out, or --fresh")
        return
    if trained and not saved:
        raise ValueError(f"{folder} holds a run without its checkpoints: give another --out, or --fresh")
    changes = differences(read_header(folder)["recipe"], json.loads(json.dumps(description)))
    if changes:
        raise ValueError(
            f"{folder} was made by another recipe: {'; '.join(changes)} (there → now). "
            "Give another --out, or --fresh to move it aside and start over"
        )


def write_header(folder: Path, origin: dict[str, Any] | None, description: Any) -> None:
    """recipe.json: the recipe, where it came from, and one environment for each time that it was trained."""
    path = folder / RECIPE
    earlier = read_header(folder)["environments"] if path.exists() else []
    environments = [*earlier, environment(origin)]
    write_json(path, {"origin": origin, "recipe": description, "environments": environments})


def differences(old: Any, new: Any, path: str = "") -> list[str]:
    """Where two descriptions differ: `method.alpha: 0.1 → 0.2`."""
    if isinstance(old, dict) and isinstance(new, dict):
        names = dict.fromkeys([*old, *new])
        return [c for n in names for c in differences(old.get(n), new.get(n), f"{path}.{n}".lstrip("."))]
    return [] if old == new else [f"{path}: {old} → {new}"]


def read_header(folder: Path) -> dict[str, Any]:
    """recipe.json, checked as far as this program reads it."""
    header = read_json(folder / RECIPE)
    recipe = header.get("recipe") if isinstance(header, dict) else None
    origin = header.get("origin") if isinstance(header, dict) else None
    whole = isinstance(recipe, dict) and all(isinstance(recipe.get(name), int) for name in ("steps", "seed"))
    parts = {"recipe": str, "arguments": dict, "settings": dict}
    named = origin is None or (
        isinstance(origin, dict) and all(isinstance(origin.get(name), kind) for name, kind in parts.items())
    )
    if not (whole and named and isinstance(header.get("environments"), list)):
        raise ValueError(f"{folder / RECIPE} is not the record of a run")
    return header  # type: ignore[no-any-return]


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
        self.waiting += (json.dumps(record, allow_nan=False) + "\n").encode()
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
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            record = json.loads(line)
        except ValueError:
            raise ValueError(f"{path}, line {number} is not valid JSON") from None
        if not isinstance(record, dict) or not isinstance(record.get("step"), int):
            raise ValueError(f"{path}, line {number} is not a record: it has no step")
        records.append(record)
    return records


def environment(origin: dict[str, Any] | None) -> dict[str, Any]:
    """What made a run: versions, commit, machine, threads, time, and the command to repeat it."""
    return {
        "python": platform.python_version(),
        "packages": {"refprior": __version__, **{name: version(name) for name in _PACKAGES}},
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "threads": torch.get_num_threads(),
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "commit": _commit(),
        "repeat": _command(origin),
    }


def _commit() -> str | None:
    """The commit of the source, where it is a checkout."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _command(origin: dict[str, Any] | None) -> str | None:
    """The command line that trains a named recipe again."""
    if origin is None:
        return None
    arguments = {**origin["arguments"], **origin["settings"]}
    seed = arguments.pop("seed", 0)
    settings = [f"{name}={value}" for name, value in arguments.items()]
    parts = ["refprior", "train", origin["recipe"], "--seed", str(seed), *(["--set", *settings] if settings else [])]
    return shlex.join(parts)
