"""The restricted unpickler: reads what CIFAR's pickles hold, runs nothing, and survives damage."""

import os
import pickle
import struct
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refprior.data._error import DataError
from refprior.data._pickles import read_pickle
from tests.data.files import outcome, python2_pickle

PIXELS = np.arange(24, dtype=np.uint8).reshape(2, 12)
CONTENT = {"batch_label": "training batch 1 of 5", "labels": [6, 9, 300], "data": PIXELS}
NAMES = [b"builtins\neval", b"posix\nsystem", b"numpy\nload", b"numpy.core.multiarray\nndarray"]


def test_reads_text_numbers_lists_and_arrays() -> None:
    assert isinstance(pickle.loads(python2_pickle(CONTENT), encoding="latin1")["data"], np.ndarray)  # a true pickle
    loaded = read_pickle(python2_pickle(CONTENT), "batch")
    assert loaded["batch_label"] == "training batch 1 of 5"
    assert loaded["labels"] == [6, 9, 300]
    assert np.array_equal(loaded["data"], PIXELS)


class Malicious:
    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.mark),)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_malicious_pickle_runs_nothing(tmp_path: Path, protocol: int) -> None:
    mark = tmp_path / "it ran"
    content = pickle.dumps({"data": Malicious(mark)}, protocol)
    with pytest.raises(DataError, match="not read"):
        read_pickle(content, "batch")
    assert not mark.exists()
    pickle.loads(content)  # the same bytes do run where they are trusted
    assert mark.exists()


@pytest.mark.parametrize("name", NAMES)
def test_no_other_name_can_be_reached(name: bytes) -> None:
    with pytest.raises(DataError, match="no CIFAR file contains"):
        read_pickle(b"\x80\x02c" + name + b"\nU\x011\x85R.", "batch")


@pytest.mark.parametrize(
    ("content", "instruction"),
    [
        (b"(S'true'\nios\nsystem\n.", "STRING"),
        (b"(ios\nsystem\n.", "INST"),
        (b"\x80\x04\x8c\x01a.", "SHORT_BINUNICODE"),
    ],
)
def test_instructions_of_no_cifar_file_are_refused(content: bytes, instruction: str) -> None:
    with pytest.raises(DataError, match=f"batch: pickle instruction {instruction}, which no CIFAR file contains"):
        read_pickle(content, "batch")


def test_numpys_own_functions_are_never_called() -> None:
    """_reconstruct with a great shape would allocate it."""
    attack = b"\x80\x02cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nJ\xff\xff\xff\x7f\x85U\x01b\x87R."
    with pytest.raises(DataError, match="expected a dictionary"):
        read_pickle(attack, "batch")


def test_a_memo_index_does_not_allocate() -> None:
    tracemalloc.start()
    assert read_pickle(b"\x80\x02}r" + struct.pack("<I", 2**31) + b".", "batch") == {}
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()


@pytest.mark.parametrize("as_key", [False, True])
def test_tuples_in_tuples_cost_nothing(as_key: bool) -> None:
    """26 pairs of the pair before: 138 bytes whose hash, or text, would take minutes."""
    pairs = b")" + b"".join(b"q%ch%c\x86" % (i, i) for i in range(26))
    begin = time.perf_counter()
    with pytest.raises(DataError, match="a tuple"):
        read_pickle(b"\x80\x02}" + (pairs + b"K\1" if as_key else b"U\4data" + pairs) + b"s.", "batch")
    assert time.perf_counter() - begin < 1


@pytest.mark.parametrize("code", [b"]", b"(", b"\x85"])
def test_neither_depth_nor_length_is_followed(code: bytes) -> None:
    with pytest.raises(DataError, match="batch: "):
        read_pickle(b"\x80\x02})" + code * 900 + b".", "batch")
    with pytest.raises(DataError, match="more than 1,000,000 pickle instructions"):
        read_pickle(b"\x80\x02})" + code * 1_100_000 + b".", "batch")


def test_an_array_must_have_the_bytes_of_its_shape() -> None:
    content = python2_pickle({"data": PIXELS}).replace(b"(K\x02K\x0ct", b"(K\x02K\x0dt")
    with pytest.raises(DataError, match=r"batch: an array of shape \(2, 13\) with 24 bytes"):
        read_pickle(content, "batch")


@given(st.data())
@settings(max_examples=400, deadline=None)
def test_damaged_pickles_give_the_readers_own_error(data: st.DataObject) -> None:
    content = bytearray(python2_pickle(CONTENT))
    for _ in range(data.draw(st.integers(0, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    content = content[: data.draw(st.integers(0, len(content)))]
    read = outcome(lambda: read_pickle(bytes(content), "x"))
    assert read.startswith("x: ") if isinstance(read, str) else isinstance(read, dict)
