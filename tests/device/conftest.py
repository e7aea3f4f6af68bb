"""Executions are not timed on the pretend device: they would differ from those of the CPU at random."""

import pytest

from refprior.training.loop import _loop


@pytest.fixture(autouse=True)
def same_execution(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "is_measured" not in request.node.name:
        monkeypatch.setattr(_loop, "faster_execution", lambda particles, x, half: particles.execution)
