"""Start-up time, in processor seconds, of light commands: `python -m benchmarks.starting`. None should load torch."""

import argparse
import resource
import subprocess
import sys

COMMANDS = [
    ["--help"],
    ["--version"],
    ["recipes"],
    ["data", "list"],
    ["train", "--help"],
    ["sweep", "--help"],
    ["exact", "--help"],
    ["explore", "--help"],
]
GOAL = 0.4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="each once")
    turns = 1 if parser.parse_args().quick else 5
    print(f"{'command':22} processor seconds, least of {turns}")
    for command in COMMANDS:
        seconds = min(spent(command) for _ in range(turns))
        verdict = "" if seconds <= GOAL else f"  MISSED (goal {GOAL})"
        print(f"refprior {' '.join(command):13} {seconds:.2f}{verdict}")


def spent(command: list[str]) -> float:
    """Of one process, with its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "refprior", *command], capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
