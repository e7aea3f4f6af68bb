"""`refprior evaluate`: scores of a run under several weightings of the particles."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from refprior._words import counted, printable
from refprior.cli._options import Custom, Device, RunFolder, check_file, check_picture, custom_parts
from refprior.cli._tables import print_table
from refprior.cli._train import show_out_of_fold

if TYPE_CHECKING:
    from refprior._progress import Progress
    from refprior.posterior import Average, LabelQuality, Scores
    from refprior.training import Run, Weighting

READOUTS: "tuple[tuple[str, Weighting, Average], ...]" = (  # weights, weighting of the particles, what is averaged
    ("ema", "prior", "probabilities"),
    ("ema", "likelihood", "probabilities"),
    ("ema", "prior", "logits"),
    ("raw", "prior", "probabilities"),
    ("raw", "likelihood", "probabilities"),
)


def evaluate(
    folder: RunFolder,
    /,
    *,
    device: Device = "cpu",
    custom: Custom = None,
    uncertain: Annotated[
        Path | None, Parameter(help="Picture of the inputs on which the particles disagree most, with their votes.")
    ] = None,
    per_class: Annotated[
        bool, Parameter(help="Print precision, recall, F1 and confusions of each class.", negative=())
    ] = False,
    labels: Annotated[
        Path | None,
        Parameter(
            help="Table (.csv) of the labels, those to check first at the top: the probability that each is right, and "
            "the class suggested by the particles that have not learned it. Needs a run with folds."
        ),
    ] = None,
) -> None:
    """Evaluate a run on its test and validation parts, with several weightings of the particles.

    Weighting by likelihood uses the labels that each particle left out, and needs a run with folds. Weighting by
    answers uses the labels given to `refprior answer`.
    """
    from refprior._progress import working
    from refprior.labeling import Questions
    from refprior.training import load

    check_picture(uncertain)
    check_file(labels)
    with working(f"reading {folder}") as progress:
        run = load(folder, device=device, **custom_parts(folder, custom))
        tables = _consensus_table(run) if run.recipe.readout == "consensus" else _score_tables(run, progress)
        classes = _class_table(run) if per_class else None
        quality = None if labels is None else run.label_quality()
    print(f"{printable(str(folder))}: step {run.step} of {run.recipe.steps}")
    show_out_of_fold(run)
    if not tables:
        print("The task has neither a test nor a validation part.")
    for title, rows in tables.items():
        print(f"\n{title}")
        print_table(rows, keys=1 if run.recipe.readout == "consensus" else 3)
    if classes is not None:
        print("\nPer class: EMA weights, particles weighted by the prior.")
        print_table(classes)
    if labels is not None and quality is not None:
        write_labels(labels, quality, {i: run.data.classes[y] for i, y in Questions.load(folder).checked})
        print(f"Labels: {labels}")
    if uncertain is not None:
        from refprior._files import write_figure
        from refprior.report import uncertain_figure

        with working("drawing the most uncertain inputs"):
            write_figure(uncertain, uncertain_figure(run))
        print(f"Most uncertain inputs: {uncertain}")


def write_labels(path: Path, quality: "LabelQuality", checked: dict[int, str]) -> None:
    """Write a table of all labels by the probability that they are right, with the right classes of checked ones."""
    import csv
    import io

    from refprior._files import write_text

    names = quality.names
    text = io.StringIO(newline="")
    table = csv.writer(text)
    table.writerow(["label", *(["input"] if names else []), "given", "suggested", "right", "checked"])
    for i in quality.order.tolist():
        name = [names[i]] if names else []
        given, right = [quality.given[i], quality.suggested[i]], f"{quality.right[i]:.4f}"
        table.writerow([quality.index[i], *name, *given, right, checked.get(i, "")])
    write_text(path, text.getvalue())


def _score_tables(run: "Run", progress: "Progress") -> dict[str, list[list[str]]]:
    """Score each part of the data under every readout."""
    from refprior import labeling
    from refprior._kinds import noun
    from refprior.posterior import score

    questions = labeling.Questions() if run.path is None else labeling.Questions.load(run.path)
    head = ["weights", "particles by", "mean of", "accuracy %", "NLL", "Brier", "ECE", "I(w; y) nats"]
    parts = {"test": run.task.test, "validation": run.task.validation}
    tables = {}
    for name, part in parts.items():
        if part is None:
            continue
        lines: list[list[str]] = []
        readouts = [readout for readout in READOUTS if run.has_folds or readout[1] == "prior"]
        for weights, by, of in readouts:
            progress(f"scoring the {name} part", len(lines), len(readouts))
            scores = run.evaluate(part, ema=weights == "ema", weighting=by, average=of)
            lines.append([weights, by, of, *_cells(scores)])
        if questions.answers and labeling.outputs_are_classes(run):
            by_answers = labeling.log_weights(run, questions)
            log_p = run.log_probabilities(part.inputs)
            scores = score(log_p, part.labels, by_answers, temperature=run.temperature)
            lines.append(["ema", "answers", "probabilities", *_cells(scores)])
        tables[f"{name} part, {counted(len(part), noun(run.task.shape))}"] = [head, *lines]
    return tables


def _cells(scores: "Scores") -> list[str]:
    """Format scores in the order of the columns."""
    rest = (scores.negative_log_likelihood, scores.brier, scores.calibration_error, scores.information)
    return [f"{100 * scores.accuracy:.1f}", *(f"{value:.3f}" for value in rest)]


def _class_table(run: "Run") -> list[list[str]] | None:
    """Score each class on the test part, or on the validation part without one."""
    from refprior.report import class_rows, run_confusion

    counts = run_confusion(run)
    return None if counts is None else class_rows(counts, run.data.classes)


def _consensus_table(run: "Run") -> dict[str, list[list[str]]]:
    from refprior.training.loop import evaluate_consensus

    lines = [["weights", "test %", "validation %", "stability %"]]
    for name, particles in {"ema": run.ema, "raw": run.particles}.items():
        found, _ = evaluate_consensus(particles, run.normalizer, run.task)
        shown = (None,) * 3 if found is None else (found.test, found.validation, found.stability)
        lines.append([name, *("–" if value is None else f"{100 * value:.1f}" for value in shown)])
    return {"Consensus of the particles: clusters of their predictions, matched to the classes.": lines}
