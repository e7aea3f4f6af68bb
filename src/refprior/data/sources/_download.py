"""Download of one file: resumable, checked, and never incomplete under its final name.

Bytes go to `name.part`; only a file with the right checksum gets its final name, in one step. A killed download leaves
a `.part` file, from which the next one resumes. No more is fetched than the file should have.
"""

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterable
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from refprior._files import PART, write_atomically
from refprior._words import in_short
from refprior.data.files import LARGEST_FILE, DataError

Report = Callable[[str, int, int | None], None]  # what, bytes so far, bytes in all
_BLOCK = 1 << 20
_PATIENCE = 30.0  # seconds without an answer


def download(address: str, target: Path, size: int, md5: str, report: Report) -> None:
    """Fetch `address` into `target`, resuming from `target.part`; a correct file is left alone.

    Only one process may download at a time: `get` locks the folder.
    """
    if target.exists():
        if md5_of(target) != md5:
            raise DataError(f"{target} has md5 {md5_of(target)}, expected {md5}; move it away and get it again")
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}{PART}")
    try:
        _fetch(address, part, size, report)
        found = md5_of(part)
        if found != md5:
            raise DataError(f"{address} has md5 {found}, expected {md5}; the download is discarded")
    except DataError:
        part.unlink(missing_ok=True)
        raise
    os.replace(part, target)


def install(blocks: Iterable[bytes], target: Path, md5: str | None, size: int | None) -> str:
    """Write `blocks` as `target` if they have that checksum and size; the file appears whole or not at all.

    Returns the checksum that it has.
    """
    digest, length = hashlib.md5(usedforsecurity=False), 0
    most = LARGEST_FILE if size is None else size

    def write(side: Path) -> None:
        nonlocal length
        with side.open("wb") as file:
            for block in blocks:
                length += len(block)
                if length > most:
                    raise DataError(f"{target.name} came out with more than the {most:,} bytes expected of it")
                digest.update(block)
                file.write(block)
        if md5 not in (None, digest.hexdigest()) or size not in (None, length):
            raise DataError(
                f"{target.name} came out with {length} bytes and md5 {digest.hexdigest()}, expected {size} and {md5}"
            )

    write_atomically(target, write)
    return digest.hexdigest()


def md5_of(path: Path) -> str:
    """Return the md5 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _fetch(address: str, part: Path, size: int, report: Report) -> None:
    """Append to `part` what is missing of it, never more than the `size` it should have."""
    have = part.stat().st_size if part.exists() else 0
    request = Request(address, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        with urlopen(request, timeout=_PATIENCE) as answer:
            resumed = answer.status == 206
            done = have if resumed else 0
            length = answer.headers.get("Content-Length", "")
            total = done + int(length) if length.isdecimal() and len(length) < 20 else None
            if total is not None and total > size:
                raise DataError(f"{address} has {total:,} bytes, expected {size:,}; not fetched")
            with part.open("ab" if resumed else "wb") as file:
                while block := answer.read1(_BLOCK):  # what has come, so that little is lost when killed
                    if done + len(block) > size:
                        raise DataError(
                            f"{address} sends more than the {size:,} bytes expected; the download is discarded"
                        )
                    done += file.write(block)
                    report(part.stem, done, total)
    except HTTPError as error:
        # 416: nothing lies beyond what is here, so the file may be complete; its checksum will tell.
        with contextlib.closing(error):
            if error.code != 416:
                raise ConnectionError(f"{address} answered {error.code} {in_short(error.reason)}") from error
        return
    except HTTPException as error:
        raise ConnectionError(
            f"{address} answered with something that is not HTTP ({in_short(repr(error))})"
        ) from error
    if total is not None and done < total:
        raise ConnectionError(f"{address} ended after {done} of {total} bytes; run again to resume")
