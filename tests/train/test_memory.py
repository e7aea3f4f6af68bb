import ctypes
from pathlib import Path

import pytest
import torch

from refprior.train.memory import kept

LARGE = 256 * 2**20  # bytes: much more than the C library keeps by itself

pytestmark = pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="needs the GNU C library")


def resident() -> int:
    return int(Path("/proc/self/status").read_text().split("VmRSS:")[1].split()[0]) * 1024


def stays() -> float:
    """What the process still holds of a large tensor after it is gone, as a share of it."""
    before = resident()
    torch.ones(LARGE, dtype=torch.uint8)
    return (resident() - before) / LARGE


def test_what_is_freed_stays_until_the_end_and_is_used_again() -> None:
    assert stays() < 0.1
    before = resident()
    with kept():
        assert stays() > 0.7
        assert sum(stays() for _ in range(8)) < 1.5  # used again, though not always the same place at once
    assert resident() - before < 0.1 * LARGE
    assert stays() < 0.1


def test_an_error_leaves_nothing_behind() -> None:
    with pytest.raises(ZeroDivisionError), kept():
        _ = 1 / 0
    assert stays() < 0.1
