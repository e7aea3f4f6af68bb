"""The command line. Each command parses, calls the library and prints; only commands that need torch import it."""

import ast
import inspect
import io
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Sequence
from contextlib import suppress
from importlib.resources import files

from cyclopts import App

from refprior import __version__
from refprior.cli._data import app as data_app
from refprior.cli._doctor import doctor
from refprior.cli._ending import in_one_line, listening, warning_in_one_line
from refprior.cli._evaluate import evaluate
from refprior.cli._exact import app as exact
from refprior.cli._explore import explore
from refprior.cli._fit import fit
from refprior.cli._labeling import answer, suggest
from refprior.cli._matrix import transfer_matrix
from refprior.cli._options import reject_empty
from refprior.cli._predict import export, predict
from refprior.cli._report import embed, report
from refprior.cli._sweep import demo, status, sweep
from refprior.cli._train import train

app = App(
    name="refprior",
    help="Reference priors: exact for small models, and as particles for deep networks.",
    version=__version__,
    help_format="plaintext",
    suppress_keyboard_interrupt=False,
)

app.command(data_app)
app.command(exact)
app.command(embed)
app.command(explore)
app.command(fit)
app.command(predict)
app.command(export)
app.command(suggest)
app.command(answer)
app.command(transfer_matrix)
app.command(status)
app.command(train)
app.command(evaluate)
app.command(report)
app.command(sweep)
app.command(demo)
app.command(doctor)


@app.command
def recipes() -> None:
    """List the recipes."""
    lines = recipe_lines()
    column = max(map(len, lines)) + 2
    width = max(20, shutil.get_terminal_size().columns - column) if sys.stdout.isatty() else 10_000
    for name, meaning in lines.items():
        print(f"{name:{column}}" + f"\n{' ' * column}".join(textwrap.wrap(meaning, width)))


def recipe_lines() -> dict[str, str]:
    """Return the summary of every recipe by name, in the order of `RECIPES`, from the source: imports take seconds."""
    lines = {}
    for file in ("_images.py", "_cifar10.py", "_manifold.py", "_transfer.py"):
        source = files("refprior").joinpath("recipes", file).read_text(encoding="utf-8")
        for node in ast.parse(source).body:
            if not isinstance(node, ast.FunctionDef) or node.name.startswith("_"):
                continue
            complete = len(node.args.args) == len(node.args.defaults)  # others change a recipe
            if complete and isinstance(node.returns, ast.Name) and node.returns.id == "Recipe":
                lines[node.name] = (ast.get_docstring(node) or "").partition("\n")[0]
    return lines


def _join_lines(commands: App) -> None:
    """Join the lines of each paragraph of help, so that they wrap at the width of the terminal."""
    for name in commands:
        if not name.startswith("-"):
            command = commands[name]
            command.help = re.sub(r"(?<!\n)\n(?! *\n)", " ", inspect.cleandoc(command.help))
            _join_lines(command)


_join_lines(app)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line. An invalid request ends with one line on stderr and exit code 2, a failure with 1."""
    given = sys.argv[1:] if arguments is None else arguments
    if sys.stdout is None:  # closed by the parent process
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        with suppress(OSError):
            sys.stdout.reconfigure(errors="backslashreplace")  # as stderr: the locale may lack some characters
    with in_one_line(), listening(), warning_in_one_line():
        reject_empty(given)
        app(given, exit_on_error=False, print_error=False)
