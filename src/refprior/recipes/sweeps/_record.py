"""What a sweep writes down beside its cells for others to see: which cells it has, and why one failed."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from refprior._files import locked, read_record, write_record
from refprior._process import rank
from refprior._words import in_short

SWEEP = "sweep.json"
_FORMAT = 1


def write_cells(out: Path, names: Iterable[str]) -> None:
    """Add cells to those that a sweep's folder is known to have."""
    with locked(out, lambda owner: None):  # two sweeps of one folder may begin at once
        known = read_cells(out)
        if new := [name for name in names if name not in set(known)]:
            write_record(out / SWEEP, _FORMAT, {"cells": [*known, *new]})


def read_cells(out: Path) -> list[str]:
    """The names of all cells of a sweep; none where no sweep was."""
    if not (out / SWEEP).exists():
        return []
    names = read_record(out / SWEEP, _FORMAT).get("cells")
    if not isinstance(names, list) or not all(isinstance(name, str) and _inside(name) for name in names):
        raise ValueError(f"{out / SWEEP} is not the record of a sweep: its cells must be names of folders in it")
    return names


def _inside(name: str) -> bool:
    """A folder in a folder, and nothing that leads elsewhere."""
    parts = Path(name).parts
    return len(parts) == 2 and ".." not in parts and not Path(name).is_absolute()


def write_failure(cell: Path, problem: str) -> None:
    """Say beside a cell's folder why it failed; the folder itself may not exist."""
    with suppress(OSError):  # the disk may be what failed
        write_record(_failure(cell), _FORMAT, {"problem": problem})


def read_failure(cell: Path) -> str | None:
    """Why a cell failed; None if it did not."""
    if not _failure(cell).exists():
        return None
    try:
        return in_short(read_record(_failure(cell), _FORMAT)["problem"])
    except (ValueError, KeyError, OSError) as error:
        return in_short(error)


def forget_failure(cell: Path) -> None:
    with suppress(OSError):
        _failure(cell).unlink()


@contextmanager
def noting_failure(folder: Path) -> Iterator[None]:
    """Write down why a run failed if it is a cell of a sweep: schedulers start cells one by one, as commands."""
    if rank() > 0 or not _is_cell(folder.absolute()):  # of several ranks, the first writes
        yield
        return
    forget_failure(folder)
    try:
        yield
    except Exception as error:
        write_failure(folder, in_short(error))
        raise


def _is_cell(folder: Path) -> bool:
    """Whether a sweep two folders above knows it; a damaged record of a sweep is no reason not to train."""
    try:
        return f"{folder.parent.name}/{folder.name}" in read_cells(folder.parent.parent)
    except (ValueError, OSError):
        return False


def _failure(cell: Path) -> Path:
    return cell.with_name(f"{cell.name}.failed.json")
