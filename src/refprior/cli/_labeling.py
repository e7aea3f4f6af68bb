"""`refprior suggest` and `refprior answer`: active learning, with questions and answers in the run folder."""

import logging
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from refprior._words import counted, printable
from refprior.cli._options import (
    Custom,
    RunFolder,
    Set,
    check_file,
    check_folder,
    check_picture,
    custom_parts,
    whole,
)
from refprior.cli._train import show_out_of_fold

if TYPE_CHECKING:
    from torch import Tensor

    from refprior.training import Run

log = logging.getLogger("refprior")


def suggest(
    folder: RunFolder,
    /,
    *,
    budget: Annotated[int, Parameter(converter=whole, help="Number of labels that you can give.")] = 5,
    about: Annotated[
        Literal["auto", "rule", "inputs"],
        Parameter(
            help="Purpose of the labels: to decide which rule is right, or to train on more inputs. auto asks about "
            "the rule if the labels admit several."
        ),
    ] = "auto",
    out: Annotated[Path | None, Parameter(help="Picture to draw. Default: questions.png in the run folder.")] = None,
    custom: Custom = None,
) -> None:
    """Choose the most informative unlabeled inputs to label and draw them; `refprior answer` takes the labels."""
    from refprior import labeling
    from refprior._files import write_figure
    from refprior._progress import working
    from refprior.report import questions_figure
    from refprior.training import load
    from refprior.training.store import locked

    check_picture(out)
    with locked(folder), working(f"choosing inputs of {folder} to label"):
        run = load(folder, **custom_parts(folder, custom))
        questions = labeling.suggest(run, budget, labeling.Questions.load(folder), about=about)
        out = out or folder / "questions.png"
        if questions.open:
            write_figure(out, questions_figure(run, questions))
        questions.save(folder)  # last, so that the picture of written questions always exists
    if not questions.open:
        print(f"{questions.message}; --about inputs asks for labels to train on".capitalize())
        return
    if questions.message:
        print(questions.message)
    print(printable(f"Classes: {', '.join(run.data.classes)}"))
    for number, index in enumerate(questions.open, start=1):
        print(
            printable(f"{number}. {run.task.input_name(index)}" + ("" if run.task.names else " of the unlabeled pool"))
        )
    print(f"Look at {out}, then: refprior answer {folder} LABEL LABEL …")


def answer(
    folder: RunFolder,
    labels: Annotated[
        list[str] | None, Parameter(help="Classes of the suggested inputs, in their order.", negative=())
    ] = None,
    /,
    *,
    out: Annotated[
        Path | None,
        Parameter(help="Table of the class of every unlabeled input. Default: answers.csv in the run."),
    ] = None,
    train: Annotated[
        Path | None,
        Parameter(help="New run folder in which to continue training, with all answers added to the labels."),
    ] = None,
    model: Annotated[
        Path | None, Parameter(help="Folder in which to save the model weighted by all answers, for refprior predict.")
    ] = None,
    move: Annotated[
        bool,
        Parameter(
            help="Move answered photos and those with corrected labels into the folders of their classes.", negative=()
        ),
    ] = False,
    set_: Set = None,
    custom: Custom = None,
) -> None:
    """Take the labels of the suggested inputs and classify the whole pool.

    Each particle is weighted by how well it predicts the answers. With --train, continue training with these labels in
    a new folder; after an interruption, repeat the command without the labels. --set applies to --train. With --move,
    photos move into the folders of their classes: fit them again afterwards.
    """
    check_file(out)
    if model is not None:
        check_folder(model)
    if train is not None:
        check_folder(train)
    elif set_ is not None:
        raise ValueError("--set needs --train FOLDER: it changes the settings of that training")
    elif not labels and model is None and not move:
        raise ValueError(f"give the labels of the suggested inputs: refprior answer {folder} LABEL LABEL …")
    if move and train is not None:
        raise ValueError("--move changes the data of --train: leave one of them out")
    if labels or model is not None:
        _take(folder, labels or [], None if train is not None else out, model, custom)
    if move:
        _move(folder, custom)
    if train is not None:
        _continue(folder, train, out, set_ or {}, custom)


def _take(folder: Path, labels: Sequence[str], out: Path | None, model: Path | None, custom: Path | None) -> None:
    """Write the answers, the resulting class of every unlabeled input, and the weighted model."""
    from refprior import labeling
    from refprior._progress import working
    from refprior.training import load
    from refprior.training.store import locked

    with locked(folder), working(f"classifying the inputs of {folder}"):
        questions = labeling.Questions.load(folder)
        if not (labels or questions.answers):
            raise ValueError(f"{folder} has no answer yet: refprior answer {folder} LABEL LABEL …")
        if labels and not questions.open:
            raise ValueError(f"{folder} has no open question: run refprior suggest {folder} first")
        run = load(folder, **custom_parts(folder, custom))
        classes = run.data.classes
        if unknown := [label for label in labels if label not in classes]:
            raise ValueError(f"no class {unknown[0]!r}; the classes are {', '.join(classes)}")
        if labels:
            questions = questions.answer([classes.index(label) for label in labels])
        evidence = labeling.evidence(run, questions) if labeling.outputs_are_classes(run) else None
        if model is not None:
            if evidence is None:
                raise ValueError("--model needs a run whose outputs are classes: continue with --train")
            labeling.predictor(run, questions).save(model)
        named = labeling.classifier(run, questions)
        found = labeling.classify_pool(run, named, questions)
        test = run.task.test
        right = "" if test is None else _right(run, labeling.classify(run, named, test.inputs))
        out = out or folder / "answers.csv"
        labeling.write_classes(out, run, found)
        questions.save(folder)  # last, once everything else has succeeded
    before = f" and {counted(len(run.task.labeled), 'label')} before" if len(run.task.labeled) else ""
    print(f"{counted(len(questions.answers), 'answer')}{before}{right}")
    if evidence is not None and evidence.explained:
        print(f"The particles are weighted by {evidence}")
    elif evidence is not None and model is None:
        log.warning("%s", evidence)
    print(f"The class of every unlabeled input: {out}")
    if model is not None:
        print(f"The weighted model: {model}")


def _move(folder: Path, custom: Path | None) -> None:
    """Move answered photos into the folders of their classes."""
    from refprior import labeling
    from refprior.training import load
    from refprior.training.store import locked

    with locked(folder):
        run, questions = load(folder, **custom_parts(folder, custom)), labeling.Questions.load(folder)
        moved = labeling.move_answered(run, questions)
    data = getattr(run.recipe.task, "data", "")
    print(f"Moved {counted(len(moved), 'photo')} into the folders of their classes.")
    print(printable(f"Next: refprior fit {shlex.quote(data)} --out {shlex.quote(str(folder))} --fresh"))


def _continue(folder: Path, train: Path, out: Path | None, settings: dict[str, str], custom: Path | None) -> None:
    """Continue training with all answers in a new run folder."""
    from refprior import labeling
    from refprior._progress import watching, working
    from refprior.recipes import override
    from refprior.report import write_report
    from refprior.training import Origin, Stopped, load
    from refprior.training import train as train_recipe
    from refprior.training.store import read_header

    questions, run = labeling.Questions.load(folder), load(folder, **custom_parts(folder, custom))
    recipe = labeling.continuation(run, questions, override(run.recipe, settings) if settings else None)
    header = read_header(folder)
    before = header.origin or Origin(str(header.recipe["method"].get("type", "own")).rpartition(".")[2] + "()")
    corrected = len(labeling.corrections(run, questions))
    counts = {"more": len(questions.answers), "corrected": corrected}
    more = " and ".join(f"{count} {word}" for word, count in counts.items() if count)
    answered = {"answers": f"<{more}, after {folder}>"}  # no command reproduces them
    origin = replace(before, settings={**before.settings, **answered, **settings})
    try:
        with watching(f"{train}", recipe.steps) as watch:
            first = run if recipe.start is run.recipe else None
            after = train_recipe(recipe, train, watch=watch, origin=origin, first_stage=first)
    except Stopped as stopped:
        changed = f" --set {shlex.join(f'{name}={value}' for name, value in settings.items())}" if settings else ""
        given = f" --custom {shlex.quote(str(custom))}" if custom is not None else ""
        again = f"refprior answer {shlex.quote(str(folder))} --train {shlex.quote(str(train))}{changed}{given}"
        raise Stopped(f"{str(stopped).partition(';')[0]}; {again} resumes", stopped.signal_number) from None
    with working("writing the report"):
        write_report([train], train / "report.html")
        named, test = labeling.classifier(after), after.task.test
        right = "" if test is None else _right(after, labeling.classify(after, named, test.inputs))
        out = out or train / "answers.csv"
        found = labeling.classify(after, named, run.task.unlabeled)
        found[list(questions.answered)] = found.new_tensor(questions.answers)
        labeling.write_classes(out, run, found)
    fixed = f", {corrected} corrected" if corrected else ""
    print(f"Trained with {counted(len(after.task.labeled), 'label')}{fixed}{right}")
    show_out_of_fold(after)
    print(f"The class of every unlabeled input of {folder}: {out}")
    print(f"Run folder: {train}")


def _right(run: "Run", found: "Tensor") -> str:
    """Format the accuracy on the test part."""
    from refprior._kinds import noun

    part = run.task.held_out
    share = (found == part.labels).double().mean().item()
    return f": {100 * share:.1f} % of the test {noun(run.task.shape)}s are right"
