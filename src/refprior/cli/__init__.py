"""The command line: parse, call, print. Torch is imported only by the commands that need it."""

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from refprior import __version__
from refprior._ranks import rank
from refprior._words import counted, duration, in_bytes
from refprior.cli._cells import Where, print_commands, refuse_failed, settings_of, train_cells, whole_numbers
from refprior.cli._data import app as data_app
from refprior.cli._embed import embed
from refprior.cli._ending import in_one_line, listening, warning_in_one_line
from refprior.cli._exact import app as exact
from refprior.cli._export import export
from refprior.cli._fit import fit
from refprior.cli._labelling import answer, suggest
from refprior.cli._matrix import transfer_matrix
from refprior.cli._own_data import own_data, show_own_data
from refprior.cli._parameters import Device, Log, whole
from refprior.cli._paths import check_file, check_folder, check_picture, refuse_empty
from refprior.cli._predict import predict
from refprior.cli._recipes import recipe_lines
from refprior.cli._status import status
from refprior.cli._tables import print_table
from refprior.cli._words import listed

if TYPE_CHECKING:
    from refprior._progress import Tell
    from refprior.posterior import Average, Scores
    from refprior.recipes import Named
    from refprior.training import Record, Run, Weighting, Weights

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
app.command(fit)
app.command(predict)
app.command(export)
app.command(suggest)
app.command(answer)
app.command(transfer_matrix)
app.command(status)

Set = Annotated[
    list[str] | None,
    Parameter(
        name="--set",
        consume_multiple=True,
        negative=(),
        help="Change settings: NAME=VALUE …, for example labels=100 method=FixMatch method.threshold=0.9 steps=1000.",
    ),
]
RecipeName = Annotated[
    str, Parameter(help="Name of the recipe (`refprior recipes` lists them), or FILE.py:FUNCTION of your own.")
]
Seed = Annotated[
    int, Parameter(converter=whole, help="Seed of the split, the initial weights, the batches and the views.")
]
Data = Annotated[
    str | None,
    Parameter(
        help="Your own data in place of the recipe's: a folder of images, a .npz file, a .csv or .parquet table "
        "(--set task.target=COLUMN names its labels), or the name of a data set. All labels are used, or --set "
        "labels=N of them."
    ),
]
SourceData = Annotated[
    str | None,
    Parameter(
        help="Your own data to transfer from. Without them, choose from --data: "
        "--set source_classes=0,1 target_classes=2,3."
    ),
]
KindOfData = Annotated[
    Literal["digits", "photos", "objects", "vectors"] | None,
    Parameter(help="What your own data show; digits are never mirrored. Default: what the recipe is for."),
]


@app.command
def recipes() -> None:
    """List the recipes, one per line."""
    print(listed(recipe_lines(), shutil.get_terminal_size().columns if sys.stdout.isatty() else None))


@app.command
def train(
    recipe: RecipeName,
    /,
    *,
    data: Data = None,
    source_data: SourceData = None,
    kind: KindOfData = None,
    set_: Set = None,
    seed: Seed = 0,
    out: Annotated[Path | None, Parameter(help="Folder of the run. Default: runs/RECIPE,SETTINGS-SEED.")] = None,
    device: Device = "cpu",
    dry_run: Annotated[
        bool, Parameter(help="Measure a few steps, say what the run will take, and stop.", negative=())
    ] = False,
    fresh: Annotated[bool, Parameter(help="Move a run that is there aside and start over.", negative=())] = False,
    save_every: Annotated[
        float | None, Parameter(help="Seconds between checkpoints. Default: 30, or more where saving takes over 1 %.")
    ] = None,
    log: Log = None,
    particle_ranks: Annotated[
        int | None,
        Parameter(
            converter=whole,
            help="Of several processes (torchrun -m refprior train …): how many share the particles out; the rest "
            "divide the inputs. Default: the greatest common divisor of processes and particles.",
        ),
    ] = None,
) -> None:
    """Train a recipe and write its run folder; go on with it where it was interrupted.

    Several processes train one run together: torchrun --nproc-per-node=4 -m refprior train …
    """
    from refprior._progress import working
    from refprior.recipes import named
    from refprior.recipes._named import folder_name
    from refprior.report import rows, write_report

    settings = settings_of(set_)
    own = own_data(data, source_data, kind)
    chosen = named(recipe, settings, own, seed=seed)
    if own is not None and rank() == 0:
        show_own_data(own, chosen.recipe)
    if dry_run:
        return _estimate(chosen, device, particle_ranks)
    before = [Path(name).name for name in (recipe, data, source_data) if name]
    name = folder_name(dict(sorted(settings.items())), *(word.replace(":", "-") for word in before))
    folder = out or Path("runs") / f"{name}-{seed}"
    check_folder(folder)
    _train(chosen, folder, f"{recipe} seed {seed}", device, fresh, save_every, log or (), particle_ranks)
    if rank() > 0:
        return None
    with working("writing the report"):
        groups = write_report([folder], folder / "report.html")
    print_table(_transposed_if_few(rows(groups)))
    return print(f"Run folder: {folder}")


@app.command
def evaluate(
    folder: Annotated[Path, Parameter(help="Folder of a finished run.")],
    /,
    *,
    device: Device = "cpu",
    uncertain: Annotated[
        Path | None, Parameter(help="Draw the inputs that the particles disagree about most, with their votes.")
    ] = None,
    per_class: Annotated[
        bool, Parameter(help="Print precision, recall and F1 of each class, and what it is taken for.", negative=())
    ] = False,
) -> None:
    """Score the weights of a run folder again, with the particles weighted in several ways.

    By likelihood: the labels that trained the particles weigh them, and so count twice.
    """
    from refprior._progress import working
    from refprior.training import load

    check_picture(uncertain)
    with working(f"reading {folder}") as tell:
        run = load(folder, device=device)
        tables = _consensus_table(run) if run.recipe.readout == "consensus" else _score_tables(run, tell)
        classes = _class_table(run) if per_class else None
    print(f"{folder}: step {run.step} of {run.recipe.steps}")
    if not tables:
        print("The task has neither a test nor a validation part: there is nothing to score.")
    for title, rows in tables.items():
        print(f"\n{title}")
        print_table(rows, keys=1 if run.recipe.readout == "consensus" else 3)
    if classes is not None:
        print("\nEach class: the moving average of the weights, particles by prior.")
        print_table(classes)
    if uncertain is not None:
        from refprior._files import write_figure
        from refprior.report import uncertain_figure

        with working("drawing the most uncertain inputs"):
            write_figure(uncertain, uncertain_figure(run))
        print(f"Most uncertain inputs: {uncertain}")


@app.command
def report(
    folders: Annotated[list[Path], Parameter(help="Run folders, or folders of run folders.")],
    /,
    *,
    out: Annotated[Path, Parameter(help="The page to write.")] = Path("report.html"),
    figures: Annotated[Path | None, Parameter(help="Folder for the figures as PNG files too.")] = None,
    columns: Annotated[
        str | None, Parameter(help="A setting, for example labels: one row per method, one column per value of it.")
    ] = None,
    style: Annotated[
        Literal["text", "markdown", "latex"], Parameter(name="--format", help="How to print the table.")
    ] = "text",
) -> None:
    """Write one self-contained HTML page about runs, and print their table.

    It draws the accuracies and entropies of the paper's fig:particle_accuracy_entropy. Runs of cifar10_ssl stand beside
    what the paper printed (tab:cifar10_ssl, tab:app:ema, tab:app:order, tab:app:particles, tab:app:ablation2).
    """
    from refprior._progress import working
    from refprior.report import as_latex, as_markdown, pivot, rows, write_report

    check_file(out)
    if figures is not None:
        check_folder(figures)
    with working("reading runs") as tell:
        groups = write_report(folders, out, figures, columns, tell)
    lines = pivot(groups, columns) if columns else rows(groups)
    if style == "text":
        print_table(lines if columns else _transposed_if_few(lines))
    else:
        print(as_markdown(lines) if style == "markdown" else as_latex(lines))
    print(f"Report: {out}", file=sys.stderr if style != "text" else sys.stdout)


@app.command
def sweep(
    recipe: RecipeName,
    /,
    *,
    out: Annotated[Path, Parameter(help="Folder of the sweep: one run folder per cell.")],
    seeds: Annotated[str, Parameter(help="Seeds, separated by commas.")] = "0,1,2",
    data: Data = None,
    source_data: SourceData = None,
    kind: KindOfData = None,
    set_: Set = None,
    where: Where = Where(),  # noqa: B008
) -> None:
    """Train a recipe for every combination of settings (--set labels=50,100 method=FixMatch,Supervised) and seeds."""
    from refprior.recipes._sweep import cells

    own = own_data(data, source_data, kind)
    chosen = cells(recipe, settings_of(set_), whole_numbers(seeds), own)
    if own is not None:
        show_own_data(own, chosen[0].named().recipe)
    if where.commands:
        return print_commands(chosen, out, where)
    failed = train_cells(chosen, out, where)
    if len(failed) < len(chosen):
        report([out], out=out / "report.html")
    return refuse_failed(failed, chosen)


@app.command
def demo(
    *,
    out: Annotated[Path, Parameter(help="Folder of the runs and the report; a number is added if it exists.")] = Path(
        "runs/demo"
    ),
    seeds: Annotated[int, Parameter(converter=whole, help="How many seeds.")] = 3,
    set_: Set = None,
) -> None:
    """Compare supervised learning with the reference prior on 8×8 digits, 5 labels per class."""
    import torch

    from refprior.recipes import named

    if seeds < 1:
        raise ValueError(f"seeds must be at least 1, got {seeds}")
    check_folder(out)
    torch.set_num_threads(1)  # networks so small lose more time to waking threads than two cores save
    out = _unused(out)
    settings = settings_of(set_)
    if "method" in settings:
        raise ValueError("the demo compares two methods: refprior sweep digits_ssl --set method=… compares others")
    for method in ("Supervised", "ReferencePrior"):
        for seed in range(seeds):
            chosen = named("digits_ssl", {**settings, "method": method}, seed=seed)
            _train(chosen, out / f"{method}-{seed}", f"{method} seed {seed}", "cpu")
    report([out], out=out / "report.html")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line. A user's mistake is one line on stderr and exit code 2; one of ours, exit code 1."""
    given = sys.argv[1:] if arguments is None else arguments
    if sys.stdout is None:  # closed by whoever started us
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    with in_one_line(), listening(), warning_in_one_line():
        refuse_empty(given)
        app(given, exit_on_error=False, print_error=False)


def _train(
    chosen: "Named",
    folder: Path,
    title: str,
    device: str,
    fresh: bool = False,
    save_every: float | None = None,
    log: Sequence[str] = (),
    particle_ranks: int | None = None,
) -> None:
    from refprior._progress import watching
    from refprior.recipes._record import noting_failure
    from refprior.training import train as train_recipe
    from refprior.training._logs import log_to

    with noting_failure(folder), log_to(folder, *log) as write, watching(title, chosen.recipe.steps) as show:

        def watch(record: "Record") -> None:
            show(record)
            write(record)

        train_recipe(
            chosen.recipe,
            folder,
            device=device,
            watch=watch,
            origin=chosen.origin,
            fresh=fresh,
            save_every=save_every,
            particle_ranks=particle_ranks,
        )


def _score_tables(run: "Run", tell: "Tell") -> dict[str, list[list[str]]]:
    """Scores of each part of the data, with the particles weighted in several ways."""
    from refprior.data._task import noun

    head = ["weights", "particles by", "mean of", "accuracy %", "NLL", "Brier", "ECE", "I(w; y) nats"]
    parts = {"test": run.task.test, "validation": run.task.validation}
    tables = {}
    for name, part in parts.items():
        if part is None:
            continue
        lines: list[list[str]] = []
        for weights, by, of in _readouts():
            tell(f"scoring the {name} part", len(lines), len(_readouts()))
            scores = run.evaluate(part, weights=weights, weighting=by, average=of)
            lines.append([weights, by, of, *_numbers(scores)])
        tables[f"{name} part, {counted(len(part), noun(run.task.shape))}"] = [head, *lines]
    return tables


def _class_table(run: "Run") -> list[list[str]] | None:
    """Scores of each class on the test part, or else on the validation part; None without either."""
    from refprior.report import class_rows
    from refprior.training._evaluate import evaluate_consensus, output_confusion

    if run.recipe.readout == "consensus":
        counts = evaluate_consensus(run.ema, run.normaliser, run.task)[1]
    else:
        counts = output_confusion(run.ema, run.normaliser, run.task)
    return None if counts is None else class_rows(counts, run.data.classes)


def _consensus_table(run: "Run") -> dict[str, list[list[str]]]:
    from refprior.training._evaluate import evaluate_consensus

    lines = [["weights", "test %", "validation %", "stability %"]]
    for name, particles in {"ema": run.ema, "raw": run.particles}.items():
        found, _ = evaluate_consensus(particles, run.normaliser, run.task)
        shown = (None,) * 3 if found is None else (found.test, found.validation, found.stability)
        lines.append([name, *("–" if value is None else f"{100 * value:.1f}" for value in shown)])
    return {"The outputs have no names: clusters of all particles' predictions, matched to the classes.": lines}


def _estimate(chosen: "Named", device: str, particle_ranks: int | None) -> None:
    """Print what a recipe will take on this machine, or on all ranks, stage by stage."""
    from refprior._progress import working
    from refprior.training import estimate

    seconds, stages = 0.0, [chosen.recipe]
    while stages[0].start is not None:
        stages.insert(0, stages[0].start)
    for number, stage in enumerate(stages, start=1):
        with working("measuring a few steps"):
            cost = estimate(stage, device, particle_ranks=particle_ranks)
        if rank() > 0:
            continue
        seconds += cost.total_seconds
        if len(stages) > 1:
            print(f"stage {number} of {len(stages)}")
        print(f"parameters   {cost.parameters:,} per particle, {counted(cost.particles, 'particle')}")
        print(f"checkpoint   {cost.state_bytes / 2**20:,.1f} MiB (weights, moving average, optimiser)")
        print(f"memory       {_peak_memory()} so far")
        print(f"a step       {duration(cost.step_seconds)}, an evaluation {duration(cost.evaluation_seconds)}")
        if cost.particle_ranks * cost.data_ranks > 1:
            print(f"ranks        {cost.particle_ranks} share the particles out × {cost.data_ranks} divide the inputs")
            print(f"  computing  {duration(cost.step_seconds - cost.exchange_seconds)} of a step")
            exchange = f"{duration(cost.exchange_seconds)} of a step, waiting included"
            print(f"  exchanging {exchange}; {in_bytes(cost.exchange_bytes)} received by all ranks together")
        print(f"steps        {cost.steps:,} and {counted(cost.evaluations, 'evaluation')}")
    if rank() == 0:
        print(f"the run      about {duration(seconds)}")


def _peak_memory() -> str:
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30:.2f} GiB"


def _readouts() -> list[tuple["Weights", "Weighting", "Average"]]:
    """Which weights, how the particles count, what is averaged."""
    return [
        ("ema", "prior", "probabilities"),
        ("ema", "likelihood", "probabilities"),
        ("ema", "prior", "logits"),
        ("raw", "prior", "probabilities"),
        ("raw", "likelihood", "probabilities"),
    ]


def _numbers(scores: "Scores") -> list[str]:
    values = (scores.negative_log_likelihood, scores.brier, scores.calibration_error, scores.information)
    return [f"{100 * scores.accuracy:.1f}", *(f"{value:.3f}" for value in values)]


def _transposed_if_few(rows: Sequence[Sequence[str]]) -> Sequence[Sequence[str]]:
    """A few recipes side by side, so that the table fits a terminal; many below each other."""
    return list(zip(*rows, strict=True)) if len(rows) <= 5 else rows


def _unused(folder: Path) -> Path:
    """The folder, or the first of FOLDER-2, FOLDER-3, … that does not exist."""
    number, candidate = 1, folder
    while candidate.exists():
        number += 1
        candidate = folder.with_name(f"{folder.name}-{number}")
    return candidate
