"""Fetching one file: resumable, checked, and never half there.

Bytes go to `name.part`; only a file whose checksum is right takes its final name, in one step. A killed download
leaves a `.part` file, from which the next one goes on.
"""

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterable
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from refprior.data._error import DataError

Report = Callable[[str, int, int | None], None]  # what, bytes so far, bytes in all
_BLOCK = 1 << 20
_PATIENCE = 30.0  # seconds without an answer


def download(address: str, target: Path, md5: str, report: Report) -> None:
    """Fetch `address` into `target`, going on from `target.part` where there is one; a right file is left alone."""
    if target.exists():
        if md5_of(target) != md5:
            raise DataError(f"{target} has md5 {md5_of(target)}, expected {md5}; move it away and get it again")
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    part = _part(target)
    _fetch(address, part, report)
    found = md5_of(part)
    if found != md5:
        part.unlink()
        raise DataError(f"{address} has md5 {found}, expected {md5}; what was fetched is thrown away")
    os.replace(part, target)


def install(blocks: Iterable[bytes], target: Path, md5: str | None, size: int | None) -> str:
    """Write `blocks` as `target` if they have that checksum and size; the file appears whole or not at all.

    Returns the checksum that it has.
    """
    part = _part(target)
    digest, length = hashlib.md5(usedforsecurity=False), 0
    try:
        with part.open("wb") as file:
            for block in blocks:
                digest.update(block)
                length += file.write(block)
            file.flush()
            os.fsync(file.fileno())
        if md5 not in (None, digest.hexdigest()) or size not in (None, length):
            raise DataError(
                f"{target.name} came out with {length} bytes and md5 {digest.hexdigest()}, expected {size} and {md5}"
            )
        os.replace(part, target)
        return digest.hexdigest()
    finally:
        part.unlink(missing_ok=True)


def md5_of(path: Path) -> str:
    """The md5 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _fetch(address: str, part: Path, report: Report) -> None:
    """Append to `part` what is missing of it."""
    have = part.stat().st_size if part.exists() else 0
    request = Request(address, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        with urlopen(request, timeout=_PATIENCE) as answer:
            resumed = answer.status == 206
            length = answer.headers.get("Content-Length")
            start = have if resumed else 0
            total = start + int(length) if length else None
            with part.open("ab" if resumed else "wb") as file:
                done = start
                while block := answer.read(_BLOCK):
                    done += file.write(block)
                    report(part.stem, done, total)
    except HTTPError as error:
        # 416: nothing lies beyond what is here, so the file may be complete; its checksum will tell.
        with contextlib.closing(error):
            if error.code != 416:
                raise ConnectionError(f"{address} answered {error.code} {error.reason}") from error
        return
    except HTTPException as error:
        raise ConnectionError(f"{address} answered with something that is not HTTP ({error!r})") from error
    if total is not None and done < total:
        raise ConnectionError(f"{address} ended after {done} of {total} bytes; run again to go on from there")


def _part(target: Path) -> Path:
    return target.with_name(f"{target.name}.part")
