"""Packed files: what is in them, and no more than that."""

import gzip
import io
import lzma
import tarfile
import time
from pathlib import Path

import pytest

from refprior.data.files._error import DataError
from refprior.data.files._packed import content_of, members


def tar(*files: tuple[tarfile.TarInfo, bytes], form: int = tarfile.GNU_FORMAT) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=form) as archive:
        for member, content in files:
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def link(name: str, target: str, kind: bytes) -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member, b""


def contents(path: Path) -> dict[str, bytes]:
    return {member.name: content_of(member, str(path)) for member in members(path)}


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("zipped", [False, True])
def test_the_files_of_an_archive_without_their_folders(tmp_path: Path, form: int, zipped: bool) -> None:
    long = tarfile.TarInfo("x" * 200 + "/" + "y" * 90)
    more = [(long, b"2")] if form != tarfile.USTAR_FORMAT else []  # with a header before its own, for the long name
    content = tar((tarfile.TarInfo("a/b/one"), b"1" * 700), *more, (tarfile.TarInfo("../two"), b""), form=form)
    path = tmp_path / "some.tar"
    path.write_bytes(gzip.compress(content) if zipped else content)
    found = contents(path)
    assert (found["one"], found["two"]) == (b"1" * 700, b"")


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE])
def test_links_in_circles_are_left_out(tmp_path: Path, kind: bytes) -> None:
    path = tmp_path / "some.tar"
    path.write_bytes(tar(link("test", "train", kind), link("train", "test", kind), (tarfile.TarInfo("one"), b"1")))
    assert contents(path) == {"one": b"1"}


def test_members_may_be_left_unread(tmp_path: Path) -> None:
    path = tmp_path / "some.tar"
    path.write_bytes(tar((tarfile.TarInfo("one"), b"1" * 3_000_000), (tarfile.TarInfo("two"), b"2")))
    assert [(member.name, member.size) for member in members(path)] == [("one", 3_000_000), ("two", 1)]


def test_damage_is_named_with_its_place(tmp_path: Path) -> None:
    path, whole = tmp_path / "some.tar", tar((tarfile.TarInfo("one"), b"1" * 700), (tarfile.TarInfo("two"), b"2"))
    for content, message in {
        whole[:600]: r"some.tar, one: cut short, 88 of 700 bytes",
        whole[:1536] + b"x" + whole[1537:]: r"some.tar, byte 1536: not a tar archive, or damaged",
        lzma.compress(whole): r"some.tar, byte 0: not a tar archive, or damaged",
        lzma.compress(whole)[:-40]: r"some.tar, byte 0: not a tar archive, or damaged",
        gzip.compress(whole)[:-20]: r"some.tar: the gzip data are damaged or cut short",
        gzip.compress(whole)[:-5] + b"x" * 5: r"some.tar: the gzip data are damaged or cut short \(CRC check failed",
    }.items():
        path.write_bytes(content)
        with pytest.raises(DataError, match=message):
            contents(path)


def test_no_more_is_unpacked_than_a_data_set_has(tmp_path: Path) -> None:
    path = tmp_path / "some.tar.gz"
    large = tarfile.TarInfo("one")
    large.size = 2**33 - 1
    path.write_bytes(gzip.compress(large.tobuf(tarfile.USTAR_FORMAT)))
    with pytest.raises(DataError, match=r"some.tar.gz: unpacks to 8,589,935,104 bytes or more, at most 400,000,000"):
        contents(path)
    large.size = 300_000_000
    path.write_bytes(gzip.compress(large.tobuf(tarfile.USTAR_FORMAT)))
    with pytest.raises(DataError, match=r"some.tar.gz, one: 300,000,000 bytes, at most 200,000,000 are read"):
        contents(path)


def test_an_archive_of_nothing_but_headers_ends(tmp_path: Path) -> None:
    path = tmp_path / "some.tar.gz"
    path.write_bytes(gzip.compress(tarfile.TarInfo("one").tobuf(tarfile.USTAR_FORMAT) * 100_000, 1))
    begin = time.perf_counter()
    with pytest.raises(DataError, match="more than 1000 members"):
        contents(path)
    assert time.perf_counter() - begin < 2
