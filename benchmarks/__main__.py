"""Every benchmark, one after another, and what they print as one page: `python -m benchmarks`, or `make bench`.

    python -m benchmarks                      # all of them, an hour or two; writes docs/benchmarks.md
    python -m benchmarks --quick              # minutes, with fewer rounds and sizes; prints, writes nothing
    python -m benchmarks --only views step    # some of them; the other sections of the page stay

A machine that does other work measures waiting. Nothing is run if the load of the last minute is above 0.5, unless
`--busy` says that it may; what is measured then is marked.
"""

import argparse
import datetime
import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

BUSY = "**The machine did other work: do not read these times, and doubt the ratios.**"
QUIET = 0.5  # load of the last minute
HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "benchmarks.md"
HEADING = """# Benchmarks

`make bench` prints all sections that have a date, `python -m benchmarks --only NAME` one of them, on an otherwise idle
machine. `load` is the load average of the minute before. Measurements use one thread unless a command sets another
number. Goals were set before the measurement, and missed goals are marked."""


@dataclass(frozen=True)
class Program:
    """One program and the question that it answers."""

    title: str
    module: str
    quick: tuple[str, ...] = ("--quick",)
    full: tuple[str, ...] = ()
    threads: int = 1


SIXTEENTH = ("--fraction", "16")
TWO_KINDS = ("--data", "embeddings", "digits", "--labels", "10", "--draws", "3")
PROGRAMS = {
    "particles": Program("Many networks at once, and the entropy of their mixture", "particles"),
    "step": Program("A training step of four WRN-28-2", "step", quick=SIXTEENTH, full=(*SIXTEENTH, "--rounds", "3")),
    "quarter": Program("A quarter of the images, 2 threads", "step", SIXTEENTH, ("--fraction", "4"), threads=2),
    "full": Program("All of the images, 2 threads", "step", SIXTEENTH, threads=2),
    "views": Program("Views", "views"),
    "methods": Program("A step of every method", "methods"),
    "transfer": Program("Transfer without target labels", "transfer"),
    "embeddings": Program("The estimator compared with scikit-learn", "embeddings", full=TWO_KINDS),
    "exact": Program("Exact priors compared with Blahut–Arimoto, dit and cvxpy", "exact"),
    "starting": Program("Start-up time of commands", "starting"),
    "pages": Program("Embedding pages and reports", "pages"),
    "saving": Program("Checkpoints", "saving"),
    "scaling": Program("Several processes", "scaling", quick=("--model",)),
    "explore": Program("The explorer", "explore"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds and sizes; print, and write no page")
    parser.add_argument("--only", nargs="+", default=list(PROGRAMS), choices=list(PROGRAMS), metavar="NAME")
    parser.add_argument("--busy", action="store_true", help="measure although the machine does other work")
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    if load > QUIET and not arguments.busy:
        sys.exit(
            f"the load of the last minute is {load:.1f}, above {QUIET}: ratios would measure waiting. "
            "Wait until the machine is quiet, or pass --busy"
        )
    conditions = f"{datetime.date.today():%-d %B %Y}, {cpu()}, {os.cpu_count()} cores, load {load:.2f} before"
    mark = f"{BUSY}\n\n" if arguments.busy else ""
    failed = []
    for name in arguments.only:
        program = PROGRAMS[name]
        text, seconds, code = run(program, arguments.quick)
        section = f"## {program.title}\n{mark}{conditions}, {seconds:.0f} s: {text}"
        print(section, flush=True)
        failed += [name] if code else []
        if not arguments.quick:
            PAGE.write_text(with_section(PAGE.read_text("utf-8") if PAGE.exists() else "", section), encoding="utf-8")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def with_section(page: str, section: str) -> str:
    """The page with this section in place of the one of the same title, in the order of the programs."""
    sections = ["## " + text for text in page.split("\n## ")[1:]]
    by_title = {text.partition("\n")[0].removeprefix("## "): text.rstrip() for text in [*sections, section]}
    ordered = [by_title[program.title] for program in PROGRAMS.values() if program.title in by_title]
    return "\n\n".join([HEADING, *ordered]) + "\n"


def cpu() -> str:
    """The processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()


def run(program: Program, quick: bool) -> tuple[str, float, int]:
    """The command and what it prints, the seconds it takes, and its exit code."""
    options: Sequence[str] = program.quick if quick else program.full
    environment = {**os.environ, "OMP_NUM_THREADS": str(program.threads), "OMP_WAIT_POLICY": "PASSIVE"}
    command = [sys.executable, "-m", f"benchmarks.{program.module}", *options]
    started = time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=HERE.parent)
    shown = " ".join([f"OMP_NUM_THREADS={program.threads}", "python", *command[1:]])
    errors = f"\n{done.stderr[-2000:]}" if done.returncode else ""
    text = f"`{shown}`\n\n```text\n{done.stdout.rstrip()}{errors}\n```\n"
    return text, time.perf_counter() - started, done.returncode


if __name__ == "__main__":
    main()
