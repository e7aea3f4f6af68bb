"""`refprior doctor`: what a machine has, and whether its devices compute what the CPU computes."""

import pytest
import torch

from refprior._words import in_bytes
from refprior.cli import _doctor
from refprior.cli._doctor import Check, checks, compare, doctor
from refprior.cli._ending import FailedError
from tests.device.pretend import CUDA, pretend_cuda


def test_a_device_is_described_and_tested(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """On the pretend device the loss has the bits of the CPU, but for lower precision."""
    quick = ("perceptrons, SGD", "perceptrons, Adam", "folds with doubt")
    monkeypatch.setattr(_doctor, "checks", lambda place: (c for c in checks(place) if c.name in quick))
    with pretend_cuda(memory=12 * 2**30):
        doctor()
    said = capsys.readouterr().out
    assert "Pretend, capability 8.0" in said
    assert in_bytes(12 * 2**30) in said
    assert torch.__version__ in said
    rows = [line for line in said.splitlines() if line.startswith(quick)]
    assert len(rows) == 3
    assert all("ok" in row and "0.0e+00" in row for row in rows)


def test_a_step_that_differs_fails(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    check = next(iter(checks(torch.device("cpu"))))
    monkeypatch.setattr(_doctor, "checks", lambda place: iter([check, Check("broken", check.recipe, 1e-9)]))
    monkeypatch.setattr(_doctor, "compare", lambda check, place: 1e-6)
    with pytest.raises(FailedError, match="1 of 2 steps failed on cpu"):
        doctor(device="cpu")
    assert "FAILED" in capsys.readouterr().out


def test_every_kind_of_step_is_there_and_a_resumed_run_is_compared_bit_for_bit() -> None:
    kinds = {check.name: check for check in checks(torch.device("cpu"))}
    assert len(kinds) == 12
    assert compare(kinds["resumed exactly"], torch.device("cpu")) == 0
    half = next(check for name, check in kinds.items() if "float16" in name)
    assert 0 < compare(half, torch.device("cpu")) < half.limit
    with pretend_cuda(bf16=False):
        assert any(name.endswith(" float16") for name in (check.name for check in checks(CUDA)))
