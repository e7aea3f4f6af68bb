"""What fits into memory: limits of the machine, of control groups and of ulimit, and the refusal with its numbers."""

import subprocess
import sys
from pathlib import Path

import pytest

from refprior import _process
from refprior._process import available_memory, check_memory


def test_something_is_available_and_no_more_than_the_machine_has() -> None:
    assert 2**20 < available_memory() < 2**50


def test_an_address_space_limit_counts_with_what_is_taken_already() -> None:
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (10**9, 10**9));"
        "from refprior._process import available_memory; before = available_memory();"
        "block = bytearray(3 * 10**8); print(before, before - available_memory())"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    before, taken = map(int, found.stdout.split())
    assert 2e8 < before < 1e9
    assert 2.9e8 < taken < 3.2e8


@pytest.mark.parametrize(
    ("line", "folder", "limit", "used"),
    [
        ("0::/a/b", "a", "memory.max", "memory.current"),
        ("4:cpu,memory:/a/b", "memory/a", "memory.limit_in_bytes", "memory.usage_in_bytes"),
        ("4:memory:/not/visible/here", "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
    ],
)
def test_the_limit_of_a_control_group_above_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, folder: str, limit: str, used: str
) -> None:
    place = tmp_path / folder
    (place / "b").mkdir(parents=True)
    (place / limit).write_text("5000000\n")
    (place / used).write_text("3000000\n")
    (place / "memory.stat").write_text("active_file 7\ninactive_file 1000000\n")
    (place / "b" / limit).write_text("max\n" if limit == "memory.max" else f"{2**63 - 4096}\n")
    monkeypatch.setattr(_process, "CGROUPS", tmp_path)
    read = _process._read
    monkeypatch.setattr(_process, "_read", lambda path: line if str(path) == "/proc/self/cgroup" else read(path))
    assert _process._control_groups() == [3_000_000]
    assert available_memory() == 3_000_000


def test_work_that_does_not_fit_is_refused_with_the_numbers() -> None:
    check_memory(1.0, "a byte", "never")
    with pytest.raises(ValueError, match=r"^the coin needs about 8.0e\+09 TB of memory, and .* available: lower n$"):
        check_memory(8e21, "the coin", "lower n")
