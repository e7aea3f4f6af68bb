"""idx files: what is written is read, and damaged ones give a DataError and no more memory than they have bytes."""

import gzip
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refprior.data.files._error import DataError
from refprior.data.sources._sets import read_idx
from tests.data.written import idx, outcome

IMAGES = np.arange(3 * 4 * 5).reshape(3, 4, 5)


@pytest.mark.parametrize("zipped", [False, True])
def test_reads_what_was_written(tmp_path: Path, zipped: bool) -> None:
    path = tmp_path / "images"
    path.write_bytes(gzip.compress(idx(IMAGES)) if zipped else idx(IMAGES))
    assert np.array_equal(read_idx(path), IMAGES)


@pytest.mark.parametrize("zipped", [False, True])
def test_a_truncated_file_is_named_with_its_numbers(tmp_path: Path, zipped: bool) -> None:
    path = tmp_path / "images"
    path.write_bytes(gzip.compress(idx(IMAGES))[:-12] if zipped else idx(IMAGES)[:-7])
    message = "images: the gzip data are" if zipped else r"images: .*60 bytes, but 53 follow"
    with pytest.raises(DataError, match=message):
        read_idx(path)


@pytest.mark.parametrize(
    ("content", "message"), [(idx(IMAGES) + b"x", "more follow"), (b"\0\0\x0d\x01\0\0\0\x01abcd", "0x0d")]
)
def test_bytes_after_the_end_and_other_types_are_errors(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "images").write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_idx(tmp_path / "images")


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_damaged_bytes_give_an_array_or_the_readers_own_error(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    content = bytearray(idx(IMAGES))
    for _ in range(data.draw(st.integers(0, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    content = content[: data.draw(st.integers(0, len(content)))]
    path = tmp_path_factory.getbasetemp() / "changed"
    path.write_bytes(content)
    read = outcome(lambda: read_idx(path))
    assert read.startswith(f"{path}: ") if isinstance(read, str) else read.size == len(content) - 4 - 4 * content[3]


@given(st.binary(max_size=200))
@settings(max_examples=200, deadline=None)
def test_damaged_gzip_gives_the_readers_own_error(tmp_path_factory: pytest.TempPathFactory, tail: bytes) -> None:
    whole = gzip.compress(idx(IMAGES))
    path = tmp_path_factory.getbasetemp() / "damaged"
    path.write_bytes(whole[: len(whole) - len(tail) % len(whole)] + tail)
    read = outcome(lambda: read_idx(path))
    assert str(path) in read if isinstance(read, str) else np.array_equal(read, IMAGES)


@pytest.mark.parametrize("zipped", [False, True])
def test_memory_follows_the_file_not_its_header(tmp_path: Path, zipped: bool) -> None:
    content = b"\0\0\x08\x03" + struct.pack(">3I", 1000, 400, 500) + bytes(1000)
    path = tmp_path / "huge"
    path.write_bytes(gzip.compress(content) if zipped else content)
    tracemalloc.start()
    with pytest.raises(DataError, match="1000 follow"):
        read_idx(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4_000_000


def test_no_more_is_read_than_a_data_set_can_have(tmp_path: Path) -> None:
    path = tmp_path / "huge"
    path.write_bytes(b"\0\0\x08\x03" + struct.pack(">3I", 2**32 - 1, 28, 28))
    with pytest.raises(DataError, match=r"huge: the header announces .* 3,367,254,359,280 bytes, at most 200,000,000"):
        read_idx(path)
