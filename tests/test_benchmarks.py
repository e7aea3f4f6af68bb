"""`python -m benchmarks`: refuses on a busy machine, marks what it measured on one, and its programs exist."""

import subprocess
import sys
from pathlib import Path

import benchmarks.__main__ as bench
import pytest
from benchmarks.__main__ import PROGRAMS, Program, heading, main, run


def test_a_busy_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (0.7, 0.0, 0.0))
    monkeypatch.setattr(sys, "argv", ["benchmarks"])
    monkeypatch.setattr(bench, "run", lambda *_: pytest.fail("it ran"))
    with pytest.raises(SystemExit, match=r"load of the last minute is 0\.7, above 0\.5.*--busy"):
        main()


@pytest.mark.parametrize(("arguments", "written"), [([], True), (["--quick"], False), (["--only", "views"], False)])
def test_only_all_of_them_make_the_page(
    arguments: list[str], written: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (0.7, 0.0, 0.0))
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--busy", *arguments])
    monkeypatch.setattr(bench, "PAGE", tmp_path / "page.md")
    monkeypatch.setattr(bench, "run", lambda program, quick: (f"## {program.title}\n", 0))
    main()
    assert (tmp_path / "page.md").exists() == written
    if written:
        page = (tmp_path / "page.md").read_text()
        assert page.count("## ") == len(PROGRAMS)
        assert "**The machine did other work" in page


def test_the_page_is_marked_only_if_the_machine_was_busy() -> None:
    assert "other work" in heading(0.7, busy=True)
    assert "other work" not in heading(0.2, busy=False)
    assert "load of the last minute 0.20" in heading(0.2, busy=False)


@pytest.mark.parametrize("name", ["step", "starting"])
def test_programs_take_the_options_that_they_are_given(name: str) -> None:
    program = PROGRAMS[name]
    for options in (program.quick, program.full):
        command = [sys.executable, "-m", f"benchmarks.{program.module}", *options, "--help"]
        assert subprocess.run(command, capture_output=True).returncode == 0


def test_what_a_program_prints_and_how_it_fails_are_on_the_page() -> None:
    text, code = run(Program("Starting", "starting", quick=("--quick",)), quick=True)
    assert code == 0
    assert "refprior data list" in text
    assert "OMP_NUM_THREADS=1 python -m benchmarks.starting --quick" in text
    text, code = run(Program("Starting", "starting", quick=("--nothing",)), quick=True)
    assert code == 2
    assert "unrecognized arguments: --nothing" in text
