"""`refprior suggest` and `refprior answer`: few labels, asked for where they tell most. Thin: parse, call, print."""

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from refprior._words import counted, printable
from refprior.cli._parameters import whole
from refprior.cli._paths import check_file, check_picture

if TYPE_CHECKING:
    from refprior.posterior import Consensus
    from refprior.training import Run

Folder = Annotated[Path, Parameter(help="Folder of a finished run.")]


def suggest(
    folder: Folder,
    /,
    *,
    budget: Annotated[int, Parameter(converter=whole, help="How many labels you can give.")] = 5,
    out: Annotated[Path | None, Parameter(help="The picture to draw. Default: questions.png in the run.")] = None,
) -> None:
    """Choose the unlabelled images whose labels tell most, and draw them; `refprior answer` takes their labels."""
    from refprior import labelling
    from refprior._files import write_figure
    from refprior._progress import working
    from refprior.report import questions_figure
    from refprior.training import load
    from refprior.training._folder import locked

    check_picture(out)
    with locked(folder), working(f"looking for images to ask about in {folder}"):
        run = load(folder)
        questions = labelling.suggest(run, budget, labelling.read_questions(folder))
        out = out or folder / "questions.png"
        write_figure(out, questions_figure(run, questions))
        labelling.write_questions(folder, questions)  # last: who reads the questions has their picture
    print(printable(f"Classes: {', '.join(run.data.classes)}"))
    for number, index in enumerate(questions.open, start=1):
        print(f"{number}. image {index} of the unlabelled pool")
    print(f"Look at {out}, then: refprior answer {folder} LABEL LABEL …")


def answer(
    folder: Folder,
    labels: Annotated[list[str], Parameter(help="The classes of the suggested images, in their order.")],
    /,
    *,
    out: Annotated[
        Path | None, Parameter(help="Table of the class of every unlabelled image. Default: answers.csv in the run.")
    ] = None,
) -> None:
    """Take the labels of suggested images, and classify everything by them."""
    from refprior import labelling
    from refprior._progress import working
    from refprior.training import load
    from refprior.training._folder import locked

    check_file(out)
    with locked(folder), working(f"classifying the images of {folder}"):
        questions = labelling.read_questions(folder)
        if not questions.open:
            raise ValueError(f"{folder} has no open question: refprior suggest {folder} asks some")
        run = load(folder)
        questions = labelling.answer(questions, [_class(label, run.data.classes) for label in labels])
        named = labelling.classifier(run, questions)
        found = [run.data.classes[y] for y in labelling.classify(run, named, run.task.unlabelled).tolist()]
        right = _right(run, named)
        out = out or folder / "answers.csv"
        _write_csv(out, found)
        labelling.write_questions(folder, questions)  # last: answers that count have been acted on
    print(f"{counted(len(questions.answers), 'label')}{right}")
    print(f"The class of every unlabelled image: {out}")


def _right(run: "Run", named: "Consensus") -> str:
    """How many of the test images are right, where there are any to tell."""
    from refprior.labelling import classify

    test = run.task.test
    if test is None:
        return ""
    right = classify(run, named, test.images) == test.labels
    return f": {100 * right.double().mean().item():.1f} % of the test images are right"


def _class(label: str, classes: tuple[str, ...]) -> int:
    if label not in classes:
        raise ValueError(f"no class is called {label!r}; there are {', '.join(classes)}")
    return classes.index(label)


def _write_csv(path: Path, classes: list[str]) -> None:
    from refprior._files import write_text

    text = io.StringIO(newline="")
    csv.writer(text).writerows([("image", "class"), *enumerate(classes)])
    write_text(path, text.getvalue())
