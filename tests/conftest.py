"""One thread a test process: the suite runs two processes on two cores. Nothing waits for the disk."""

import os
from collections.abc import Iterator

import pytest
import torch

torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def no_power_cuts() -> Iterator[None]:
    """A file that was written need not be on the disk yet: it is enough that its descriptor is a good one.

    Commands and other processes that the tests start do wait for the disk.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", os.fstat)
        yield
