"""Tests of an installed refprior, from outside its repository: `python -I smoke.py`, with the interpreter it is
installed for. It ends with exit code 0 and one line, or with the check that failed."""

import importlib.metadata
import importlib.resources
import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

import refprior

COMMAND = Path(sys.executable).with_name("refprior")
REMEDY = "torch, which is not installed: pip install 'refprior[deep]'"
FILES = ("py.typed", "__init__.pyi", "report/embed.html")


def check(true: bool, what: str) -> None:
    if not true:
        sys.exit(f"the installed package is broken: {what}")


def refprior_says(*arguments: str, folder: str) -> str:
    done = subprocess.run([COMMAND, *arguments], cwd=folder, capture_output=True, text=True, timeout=300)
    check(done.returncode == 0, f"refprior {' '.join(arguments)} ends with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def check_package() -> None:
    where = Path(refprior.__file__)
    check(where.is_relative_to(sys.prefix), f"{where} is not of the environment {sys.prefix}")
    installed = importlib.metadata.version("refprior")
    check(installed == refprior.__version__, f"it is {installed} and calls itself {refprior.__version__}")
    for name in FILES:
        check(importlib.resources.files("refprior").joinpath(name).is_file(), f"{name} is missing")


def check_exact() -> None:
    prior = refprior.exact.reference_prior(refprior.exact.Coin(10))
    check(abs(prior.information - 1.232456612204) < 1e-9, f"the coin has {prior.information} nats")
    check("torch" not in sys.modules, "the exact half imports torch")


def check_exact_commands(folder: str) -> None:
    check(refprior.__version__ in refprior_says("--version", folder=folder), "refprior --version")
    check("certified" in refprior_says("exact", "coin", "-n", "3", "--plot", "c.png", folder=folder), "exact coin")
    check((Path(folder) / "c.png").stat().st_size > 10_000, "c.png is small")


def check_without_networks(folder: str) -> None:
    """Without the extra `deep`, the rest says in one line how to install it."""
    try:
        refprior.train  # noqa: B018
    except ImportError as error:
        check(str(error) == f"rp.train needs {REMEDY}", f"rp.train says {error}")
    else:
        check(False, "rp.train without torch")
    for arguments in (("train", "digits_ssl"), ("demo",), ("data", "list")):
        done = subprocess.run([COMMAND, *arguments], cwd=folder, capture_output=True, text=True, timeout=300)
        said = (done.returncode, done.stderr)
        check(said == (2, f"refprior: this command needs {REMEDY}\n"), f"refprior {arguments[0]} says {said}")


def check_networks(folder: str) -> None:
    small = ("--set", "steps=4", "evaluate_every=4", "snapshots=2", "labeled_batch=10", "unlabeled_batch=8")
    refprior_says("train", "digits_ssl", *small, "--out", "run", folder=folder)
    refprior_says("report", "run", "--out", "report.html", folder=folder)
    refprior_says("embed", "run", "--out", "embedding.html", folder=folder)
    for name in ("report.html", "embedding.html"):
        check((Path(folder) / name).stat().st_size > 10_000, f"{name} is small")


def main() -> None:
    check_package()
    check_exact()
    with tempfile.TemporaryDirectory() as folder:
        check_exact_commands(folder)
        deep = importlib.util.find_spec("torch") is not None
        (check_networks if deep else check_without_networks)(folder)
    half = "both halves" if deep else "the exact half"
    print(f"refprior {refprior.__version__} on Python {sys.version.split()[0]}, {half}: as it should be")


if __name__ == "__main__":
    main()
