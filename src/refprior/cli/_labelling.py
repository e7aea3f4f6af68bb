"""`refprior suggest` and `refprior answer`: few labels, asked for where they tell most. Thin: parse, call, print."""

import csv
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from refprior.cli._parameters import whole

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
    from refprior.report import questions_figure
    from refprior.training import load

    run = load(folder)
    questions = labelling.suggest(run, budget, labelling.read_questions(folder))
    out = out or folder / "questions.png"
    questions_figure(run, questions).savefig(out, dpi=120)
    labelling.write_questions(folder, questions)
    print(f"Classes: {', '.join(run.data.classes)}")
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
    from refprior.training import load

    questions = labelling.read_questions(folder)
    if not questions.open:
        raise ValueError(f"{folder} has no open question: refprior suggest {folder} asks some")
    run = load(folder)
    questions = labelling.answer(questions, [_class(label, run.data.classes) for label in labels])
    named = labelling.classifier(run, questions)
    out = out or folder / "answers.csv"
    _write_csv(out, [run.data.classes[y] for y in labelling.classify(run, named, run.task.unlabelled).tolist()])
    labelling.write_questions(folder, questions)
    test = labelling.classify(run, named, run.task.test.images)
    accuracy = (test == run.task.test.labels).double().mean().item()
    print(f"{len(questions.answers)} labels: {100 * accuracy:.1f} % of the test images are right")
    print(f"The class of every unlabelled image: {out}")


def _class(label: str, classes: tuple[str, ...]) -> int:
    if label not in classes:
        raise ValueError(f"no class is called {label!r}; there are {', '.join(classes)}")
    return classes.index(label)


def _write_csv(path: Path, classes: list[str]) -> None:
    from refprior._files import write_atomically

    def write(side: Path) -> None:
        with side.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("image", "class"), *enumerate(classes)])

    write_atomically(path, write)
