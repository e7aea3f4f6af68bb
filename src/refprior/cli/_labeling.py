"""`refprior suggest` and `refprior answer`: few labels, asked for where they tell most. Thin: parse, call, print."""

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from refprior._words import counted, printable
from refprior.cli._parameters import Custom, custom_parts, settings_of, whole
from refprior.cli._paths import check_file, check_folder, check_picture

if TYPE_CHECKING:
    from torch import Tensor

    from refprior.labeling import Questions
    from refprior.training import Origin, Run

Folder = Annotated[Path, Parameter(help="Folder of a finished run.")]


def suggest(
    folder: Folder,
    /,
    *,
    budget: Annotated[int, Parameter(converter=whole, help="How many labels you can give.")] = 5,
    out: Annotated[Path | None, Parameter(help="The picture to draw. Default: questions.png in the run.")] = None,
    custom: Custom = None,
) -> None:
    """Choose the unlabeled inputs whose labels tell most, and draw them; `refprior answer` takes their labels."""
    from refprior import labeling
    from refprior._files import write_figure
    from refprior._progress import working
    from refprior.report import questions_figure
    from refprior.training import load
    from refprior.training.store import locked

    check_picture(out)
    with locked(folder), working(f"looking for inputs to ask about in {folder}"):
        run = load(folder, **custom_parts(folder, custom))
        questions = labeling.suggest(run, budget, labeling.read_questions(folder))
        out = out or folder / "questions.png"
        write_figure(out, questions_figure(run, questions))
        labeling.write_questions(folder, questions)  # last: who reads the questions has their picture
    print(printable(f"Classes: {', '.join(run.data.classes)}"))
    for number, index in enumerate(questions.open, start=1):
        print(
            printable(f"{number}. {run.task.input_name(index)}" + ("" if run.task.names else " of the unlabeled pool"))
        )
    print(f"Look at {out}, then: refprior answer {folder} LABEL LABEL …")


def answer(
    folder: Folder,
    labels: Annotated[
        list[str] | None, Parameter(help="The classes of the suggested inputs, in their order.", negative=())
    ] = None,
    /,
    *,
    out: Annotated[
        Path | None, Parameter(help="Table of the class of every unlabeled input. Default: answers.csv in the run.")
    ] = None,
    train: Annotated[
        Path | None,
        Parameter(help="New run folder: go on from the weights of the run, with its labels and all answers joined."),
    ] = None,
    set_: Annotated[
        list[str] | None,
        Parameter(
            name="--set",
            consume_multiple=True,
            negative=(),
            help="With --train: settings to change, NAME=VALUE …, for example steps=300.",
        ),
    ] = None,
    custom: Custom = None,
) -> None:
    """Take the labels of suggested inputs, and classify everything by them.

    With --train, training goes on with them in a new folder. After an interruption, give --train again, without labels.
    """
    check_file(out)
    if train is not None:
        check_folder(train)
    elif set_ is not None:
        raise ValueError("--set changes settings of the training that --train FOLDER begins: give that too")
    elif not labels:
        raise ValueError(f"give the labels of the suggested inputs: refprior answer {folder} LABEL LABEL …")
    settings = settings_of(set_)
    if labels:
        _take(folder, labels, None if train is not None else out, custom)
    if train is not None:
        _go_on(folder, train, out, settings, custom)


def _take(folder: Path, labels: Sequence[str], out: Path | None, custom: Path | None) -> None:
    """Keep the answers, and what they say about everything."""
    from refprior import labeling
    from refprior._progress import working
    from refprior.training import load
    from refprior.training.store import locked

    with locked(folder), working(f"classifying the inputs of {folder}"):
        questions = labeling.read_questions(folder)
        if not questions.open:
            raise ValueError(f"{folder} has no open question: refprior suggest {folder} asks some")
        run = load(folder, **custom_parts(folder, custom))
        questions = labeling.answer(questions, [_class(label, run.data.classes) for label in labels])
        named = labeling.classifier(run, questions)
        found = labeling.classify_pool(run, named, questions)
        test = run.task.test
        right = "" if test is None else _right(run, labeling.classify(run, named, test.inputs))
        out = out or folder / "answers.csv"
        labeling._write_classes(out, run, found)
        labeling.write_questions(folder, questions)  # last: answers that count have been acted on
    before = f" and {counted(len(run.task.labeled), 'label')} before" if len(run.task.labeled) else ""
    print(f"{counted(len(questions.answers), 'answer')}{before}{right}")
    print(f"The class of every unlabeled input: {out}")


def _go_on(folder: Path, train: Path, out: Path | None, settings: dict[str, str], custom: Path | None) -> None:
    """Train on with all answers in a new run folder."""
    from refprior import labeling
    from refprior._progress import watching, working
    from refprior.recipes import override
    from refprior.report import write_report
    from refprior.training import Stopped, load
    from refprior.training import train as train_recipe

    questions, run = labeling.read_questions(folder), load(folder, **custom_parts(folder, custom))
    recipe = labeling.continued(run, questions, override(run.recipe, settings) if settings else None)
    try:
        with watching(f"{train}", recipe.steps) as watch:
            after = train_recipe(recipe, train, watch=watch, origin=_origin(folder, questions, settings), start=run)
    except Stopped as stopped:
        changed = f" --set {shlex.join(f'{name}={value}' for name, value in settings.items())}" if settings else ""
        given = f" --custom {shlex.quote(str(custom))}" if custom is not None else ""
        again = f"refprior answer {shlex.quote(str(folder))} --train {shlex.quote(str(train))}{changed}{given}"
        raise Stopped(f"{str(stopped).partition(';')[0]}; {again} goes on", stopped.signal_number) from None
    with working("writing the report"):
        write_report([train], train / "report.html")
        named, test = labeling.classifier(after), after.task.test
        right = "" if test is None else _right(after, labeling.classify(after, named, test.inputs))
        out = out or train / "answers.csv"
        found = labeling.classify(after, named, run.task.unlabeled)
        found[list(questions.answered)] = found.new_tensor(questions.answers)
        labeling._write_classes(out, run, found)
    print(f"Trained with {counted(len(after.task.labeled), 'label')}{right}")
    print(f"The class of every unlabeled input of {folder}: {out}")
    print(f"Run folder: {train}")


def _origin(folder: Path, questions: "Questions", settings: dict[str, str]) -> "Origin":
    """Where the new run comes from: the recipe of the old one, its folder, and what was changed."""
    from refprior.training import Origin
    from refprior.training.store import read_header

    header = read_header(folder)
    before = header.origin or Origin(str(header.recipe["method"].get("type", "own")).rpartition(".")[2] + "()")
    answered = {"answers": f"<{len(questions.answers)} more, after {folder}>"}  # no command makes them again
    return replace(before, settings={**before.settings, **answered, **settings})


def _right(run: "Run", found: "Tensor") -> str:
    """How many inputs of the test part are right."""
    from refprior._kinds import noun

    part = run.task.held_out
    share = (found == part.labels).double().mean().item()
    return f": {100 * share:.1f} % of the test {noun(run.task.shape)}s are right"


def _class(label: str, classes: tuple[str, ...]) -> int:
    if label not in classes:
        raise ValueError(f"no class is called {label!r}; there are {', '.join(classes)}")
    return classes.index(label)
