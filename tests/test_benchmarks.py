"""`python -m benchmarks`: refuses on a busy machine, marks what it measured on one, and its programs exist."""

import sys
from pathlib import Path

import benchmarks.__main__ as bench
import pytest
from benchmarks.__main__ import PROGRAMS, Program, main, run

from tests.cli import running


def test_a_busy_machine_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getloadavg", lambda: (0.7, 0.0, 0.0))
    monkeypatch.setattr(sys, "argv", ["benchmarks"])
    monkeypatch.setattr(bench, "run", lambda *_: pytest.fail("it ran"))
    with pytest.raises(SystemExit, match=r"load of the last minute is 0\.7, above 0\.5.*--busy"):
        main()


def page_after(arguments: list[str], page: Path, printed: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The page once these benchmarks were run."""
    monkeypatch.setattr("os.getloadavg", lambda: (0.2, 0.0, 0.0))
    monkeypatch.setattr(sys, "argv", ["benchmarks", *arguments])
    monkeypatch.setattr(bench, "PAGE", page)
    monkeypatch.setattr(bench, "run", lambda program, quick: (f"`{program.module}`\n\n{printed}\n", 3.0, 0))
    main()
    return page.read_text() if page.exists() else ""


def test_a_section_is_replaced_and_the_others_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    assert page_after(["--quick"], page, "quick", monkeypatch) == ""
    one = page_after(["--only", "views"], page, "first", monkeypatch)
    assert one.count("\n## ") == one.count("first") == 1
    everything = page_after([], page, "second", monkeypatch)
    assert everything.startswith(bench.HEADING)
    titles = [line.removeprefix("## ") for line in everything.splitlines() if line.startswith("## ")]
    assert titles == [program.title for program in PROGRAMS.values()]
    again = page_after(["--only", "step"], page, "third", monkeypatch)
    assert again.count("third") == 1
    assert again.replace("third", "second") == everything
    assert "load 0.20 before, 3 s: `step`" in again


def test_only_what_was_measured_on_a_busy_machine_is_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page_after(["--only", "views"], tmp_path / "page.md", "", monkeypatch)
    page = page_after(["--only", "step", "--busy"], tmp_path / "page.md", "", monkeypatch)
    step, views = page.split("\n## ")[1:]
    assert "**The machine did other work" in step
    assert "other work" not in views


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["step", "starting"])
def test_programs_take_the_options_that_they_are_given(name: str) -> None:
    program = PROGRAMS[name]
    for options in (program.quick, program.full):
        code = f"import runpy; runpy.run_module('benchmarks.{program.module}', run_name='__main__')"
        with running.Program(code, *options, "--help") as process:
            assert process.wait(timeout=60) == 0, process.err.read_text()


def test_what_a_program_prints_and_how_it_fails_are_on_the_page() -> None:
    text, _, code = run(Program("Starting", "starting", quick=("--quick",)), quick=True)
    assert code == 0
    assert "refprior data list" in text
    assert "OMP_NUM_THREADS=1 python -m benchmarks.starting --quick" in text
    text, _, code = run(Program("Starting", "starting", quick=("--nothing",)), quick=True)
    assert code == 2
    assert "unrecognized arguments: --nothing" in text
