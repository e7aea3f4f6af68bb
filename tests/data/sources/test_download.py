"""Downloads from a real server: resumed, checked, and whole or not there."""

import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from refprior.data.files._error import DataError
from refprior.data.sources._obtain import download, install
from tests.data.server import Site, serve

CONTENT = os.urandom(50_000)
MD5 = hashlib.md5(CONTENT).hexdigest()


def quiet(what: str, done: int, total: int | None) -> None:
    """Report to no one."""


def test_fetches_a_file_and_reports_its_progress(tmp_path: Path) -> None:
    reports: list[tuple[str, int, int | None]] = []
    with serve(Site({"/file": CONTENT})) as site:
        download(f"{site.address}/file", tmp_path / "file", len(CONTENT), MD5, lambda *r: reports.append(r))
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
    assert reports[-1] == ("file", 50_000, 50_000)


@pytest.mark.parametrize("ranges", [True, False])
def test_goes_on_from_a_part(tmp_path: Path, ranges: bool) -> None:
    (tmp_path / "file.part").write_bytes(CONTENT[:20_000])
    with serve(Site({"/file": CONTENT}, ranges=ranges)) as site:
        download(f"{site.address}/file", tmp_path / "file", len(CONTENT), MD5, quiet)
    assert site.asked == [("/file", "bytes=20000-")]
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_a_complete_part_needs_nothing_more(tmp_path: Path) -> None:
    (tmp_path / "file.part").write_bytes(CONTENT)
    with serve(Site({"/file": CONTENT})) as site:
        download(f"{site.address}/file", tmp_path / "file", len(CONTENT), MD5, quiet)
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_a_connection_that_ends_early_keeps_its_part_for_the_next_time(tmp_path: Path) -> None:
    with serve(Site({"/file": CONTENT}, hang_up_after=30_000)) as site:
        with pytest.raises(OSError, match=r"ended after 30000 of 50000 bytes; run again"):
            download(f"{site.address}/file", tmp_path / "file", len(CONTENT), MD5, quiet)
        assert [p.name for p in tmp_path.iterdir()] == ["file.part"]
        site.hang_up_after = None
        download(f"{site.address}/file", tmp_path / "file", len(CONTENT), MD5, quiet)
    assert site.asked == [("/file", None), ("/file", "bytes=30000-")]
    assert (tmp_path / "file").read_bytes() == CONTENT


@pytest.mark.parametrize("part", [b"", b"something else"])
def test_a_wrong_checksum_leaves_nothing(tmp_path: Path, part: bytes) -> None:
    if part:
        (tmp_path / "file.part").write_bytes(part)
    with serve(Site({"/file": CONTENT})) as site, pytest.raises(DataError, match=r"has md5 [0-9a-f]{32}, expected"):
        download(f"{site.address}/file", tmp_path / "file", len(CONTENT), MD5 if part else "0" * 32, quiet)
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_there_is_not_fetched_again(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(CONTENT)
    download("http://127.0.0.1:9/nothing-listens-here", tmp_path / "file", len(CONTENT), MD5, quiet)


def test_another_file_of_that_name_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"mine")
    with serve(Site({"/file": CONTENT})) as site, pytest.raises(DataError, match=r"file has md5 .* move it away"):
        download(f"{site.address}/file", tmp_path / "file", len(CONTENT), MD5, quiet)
    assert (tmp_path / "file").read_bytes() == b"mine"


def test_an_absent_address_is_named(tmp_path: Path) -> None:
    with serve(Site()) as site, pytest.raises(ConnectionError, match=r"/file answered 404"):
        download(f"{site.address}/file", tmp_path / "file", len(CONTENT), MD5, quiet)


SCRIPT = """
import sys
from pathlib import Path
from refprior.data.sources._obtain import download
download(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4], lambda *_: None)
"""


def test_a_killed_download_leaves_nothing_that_looks_whole(tmp_path: Path) -> None:
    target, part = tmp_path / "file", tmp_path / "file.part"
    big = CONTENT * 100
    with serve(Site({"/file": big}, pause=0.001)) as site:
        numbers = [str(len(big)), hashlib.md5(big).hexdigest()]
        command = [sys.executable, "-c", SCRIPT, f"{site.address}/file", str(target), *numbers]
        with subprocess.Popen(command, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}) as process:
            while not (part.exists() and part.stat().st_size):
                assert process.poll() is None
                time.sleep(0.02)
            process.send_signal(signal.SIGKILL)
        assert [p.name for p in tmp_path.iterdir()] == ["file.part"]
        half = part.stat().st_size
        assert 0 < half < len(big)
        site.pause = 0
        download(f"{site.address}/file", target, len(big), hashlib.md5(big).hexdigest(), quiet)
    assert site.asked[-1] == ("/file", f"bytes={half}-")
    assert target.read_bytes() == big


def test_installed_files_appear_whole_or_not_at_all(tmp_path: Path) -> None:
    install(iter([CONTENT[:10], CONTENT[10:]]), tmp_path / "file", MD5, len(CONTENT))
    assert (tmp_path / "file").read_bytes() == CONTENT
    with pytest.raises(DataError, match="other came out with 50000 bytes"):
        install(iter([CONTENT]), tmp_path / "other", "0" * 32, len(CONTENT))
    with pytest.raises(DataError, match="expected 50001"):
        install(iter([CONTENT]), tmp_path / "other", None, 50_001)
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("known", [True, False])
def test_no_more_is_fetched_than_the_file_should_have(tmp_path: Path, known: bool) -> None:
    message = (
        r"has 50,000 bytes, expected 49,999; not fetched" if known else r"sends more than the 49,999 bytes expected"
    )
    with serve(Site({"/file": CONTENT}, length=known)) as site, pytest.raises(DataError, match=message):
        download(f"{site.address}/file", tmp_path / "file", 49_999, MD5, quiet)
    assert not list(tmp_path.iterdir())
