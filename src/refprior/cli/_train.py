"""`refprior train`, and the cost of a run (`--dry-run`)."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from refprior._process import rank
from refprior._words import counted, duration, in_bytes, printable
from refprior.cli._options import (
    Data,
    Device,
    KindOfData,
    Log,
    RecipeName,
    Seed,
    Set,
    SourceData,
    check_folder,
    custom_data,
    whole,
)
from refprior.cli._report import few_side_by_side
from refprior.cli._tables import print_table

if TYPE_CHECKING:
    from refprior.recipes import CustomData, Named
    from refprior.training import Recipe, Record, Run


def train(
    recipe: RecipeName,
    /,
    *,
    data: Data = None,
    source_data: SourceData = None,
    kind: KindOfData = None,
    set_: Set = None,
    seed: Seed = 0,
    out: Annotated[Path | None, Parameter(help="Run folder. Default: runs/RECIPE,SETTINGS-SEED.")] = None,
    device: Device = "cpu",
    dry_run: Annotated[
        bool, Parameter(help="Time a few steps, print the estimated cost of the run, and stop.", negative=())
    ] = False,
    fresh: Annotated[bool, Parameter(help="Move an existing run aside and start over.", negative=())] = False,
    save_every: Annotated[
        float | None, Parameter(help="Seconds between checkpoints. Default: 30, or more if saving takes over 1 %.")
    ] = None,
    log: Log = None,
    particle_ranks: Annotated[
        int | None,
        Parameter(
            converter=whole,
            help="Number of processes (torchrun -m refprior train …) over which the particles are divided; the others "
            "divide the inputs. Default: the greatest common divisor of processes and particles.",
        ),
    ] = None,
) -> None:
    """Train a recipe and write its run folder; the same command resumes an interrupted run.

    To train one run with several processes: torchrun --nproc-per-node=4 -m refprior train …
    """
    from refprior._progress import watching, working
    from refprior.recipes import named
    from refprior.recipes.sweeps import folder_name, noting_failure
    from refprior.report import rows, write_report
    from refprior.training import log_to
    from refprior.training import train as train_recipe

    settings = set_ or {}
    custom = custom_data(data, source_data, kind)
    chosen = named(recipe, settings, custom, seed=seed)
    if custom is not None and rank() == 0:
        show_custom_data(custom, chosen.recipe)
    if dry_run:
        return _estimate(chosen, device, particle_ranks)
    before = [Path(name).name for name in (recipe, data, source_data) if name]
    name = folder_name(dict(sorted(settings.items())), *(word.replace(":", "-") for word in before))
    folder = out or Path("runs") / f"{name}-{seed}"
    check_folder(folder)
    title, steps = f"{recipe} seed {seed}", chosen.recipe.steps
    with noting_failure(folder), log_to(folder, *(log or ())) as write, watching(title, steps) as show:

        def watch(record: "Record") -> None:
            show(record)
            write(record)

        run = train_recipe(
            chosen.recipe,
            folder,
            device=device,
            watch=watch,
            origin=chosen.origin,
            fresh=fresh,
            save_every=save_every,
            particle_ranks=particle_ranks,
        )
    if rank() > 0:
        return None
    with working("writing the report"):
        groups = write_report([folder], folder / "report.html")
    show_out_of_fold(run)
    print_table(few_side_by_side(rows(groups)))
    return print(f"Run folder: {folder}")


def _estimate(chosen: "Named", device: str, particle_ranks: int | None) -> None:
    """Print the estimated cost of a recipe, stage by stage."""
    import resource

    from refprior._progress import working
    from refprior.training import estimate_cost

    seconds, stages = 0.0, [chosen.recipe]
    while stages[0].start is not None:
        stages.insert(0, stages[0].start)
    for number, stage in enumerate(stages, start=1):
        with working("measuring a few steps"):
            cost = estimate_cost(stage, device, particle_ranks=particle_ranks)
        if rank() > 0:
            continue
        seconds += cost.total_seconds
        if len(stages) > 1:
            print(f"stage {number} of {len(stages)}")
        print(f"parameters   {cost.parameters:,} per particle, {counted(cost.particles, 'particle')}")
        print(f"checkpoint   {cost.state_bytes / 2**20:,.1f} MiB (weights, moving average, optimizer)")
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        print(f"memory       {peak / 2**30:.2f} GiB so far")
        print(f"a step       {duration(cost.step_seconds)}, an evaluation {duration(cost.evaluation_seconds)}")
        if cost.particle_ranks * cost.data_ranks > 1:
            print(f"ranks        {cost.particle_ranks} divide the particles × {cost.data_ranks} divide the inputs")
            print(f"  computing  {duration(cost.step_seconds - cost.exchange_seconds)} of a step")
            exchange = f"{duration(cost.exchange_seconds)} of a step, including waits"
            print(f"  exchanging {exchange}; {in_bytes(cost.exchange_bytes)} received by all ranks together")
            if cost.divides:
                print("             without the sums of the loss, which count as computing")
        print(f"steps        {cost.steps:,} and {counted(cost.evaluations, 'evaluation')}")
    if rank() == 0:
        print(f"the run      about {duration(seconds)}")


def show_out_of_fold(run: "Run") -> None:
    """Print the scores of the labels by particles that have not learned them, and the temperature; else nothing."""
    last = run.history[-1].evaluation if run.history else None
    if last is not None and last.out_of_fold is not None:
        text = str(last.out_of_fold)
        calibrated = f" Temperature of the ensemble: {run.temperature:.2f}." if last.temperature is not None else ""
        print(f"{text[0].upper()}{text[1:]}, with 95 % intervals.{calibrated}")
        show_doubtful_labels(run)


def show_doubtful_labels(run: "Run") -> None:
    """Print the labels that are probably wrong and how to correct them; nothing if there are none."""
    quality = run.label_quality()
    if (quality.right < 0.5).any():
        correct = f". To correct labels: refprior explore {shlex.quote(str(run.path))}" if quality.informative else ""
        print(printable(f"{quality}{correct}"))


def show_custom_data(custom: "CustomData", recipe: "Recipe") -> None:
    """Print what the data hold and how the recipe was adapted, before anything long begins."""
    from refprior.recipes import described

    for place in filter(None, (custom.data, custom.source)):
        show_folder(place)
    say(*described(recipe))


def show_folder(place: str) -> None:
    """Print the contents of a folder of images; nothing for other data."""
    from refprior.data import survey
    from refprior.data.sources import is_folder

    if is_folder(place):
        say(f"{place}:", *str(survey(place)).splitlines())


def say(*lines: str) -> None:
    """Print lines on stderr without control characters."""
    for line in lines:
        print(printable(line), file=sys.stderr, flush=True)
