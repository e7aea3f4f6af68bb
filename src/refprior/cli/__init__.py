"""The command line: parse, call, print. Torch is imported only by the commands that need it."""

import os
import shutil
import sys
from collections.abc import Sequence

from cyclopts import App

from refprior import __version__
from refprior.cli._data import app as data_app
from refprior.cli._embed import embed
from refprior.cli._ending import in_one_line, listening, warning_in_one_line
from refprior.cli._evaluate import evaluate
from refprior.cli._exact import app as exact
from refprior.cli._explore import explore
from refprior.cli._export import export
from refprior.cli._fit import fit
from refprior.cli._labeling import answer, suggest
from refprior.cli._matrix import transfer_matrix
from refprior.cli._paths import refuse_empty
from refprior.cli._predict import predict
from refprior.cli._recipes import recipe_lines
from refprior.cli._report import report
from refprior.cli._status import status
from refprior.cli._sweep import demo, sweep
from refprior.cli._train import train
from refprior.cli._words import listed

app = App(
    name="refprior",
    help="Reference priors: exact for small models, as particles for deep networks.",
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


@app.command
def recipes() -> None:
    """List the recipes, one per line."""
    print(listed(recipe_lines(), shutil.get_terminal_size().columns if sys.stdout.isatty() else None))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line. A user's mistake is one line on stderr and exit code 2; one of ours, exit code 1."""
    given = sys.argv[1:] if arguments is None else arguments
    if sys.stdout is None:  # closed by whoever started us
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    with in_one_line(), listening(), warning_in_one_line():
        refuse_empty(given)
        app(given, exit_on_error=False, print_error=False)
