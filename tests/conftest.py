"""One thread a test process: the suite runs two processes on two cores."""

import gc
from collections.abc import Generator

import pytest
import torch

torch.set_num_threads(1)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """What is imported now stays: to look through all of it for garbage, again and again, takes seconds."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
