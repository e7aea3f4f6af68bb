"""Inputs of any kind on figures and in reports: images are drawn, everything else is written."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from refprior.cli._evaluate import evaluate
from refprior.cli._labeling import answer, suggest
from refprior.cli._report import report
from refprior.data import Task, task_from_arrays
from refprior.labeling import Questions
from refprior.methods import InformationOnly, Supervised
from refprior.networks import MLP
from refprior.report import questions_figure, uncertain_figure
from refprior.report._figures import as_png
from refprior.report._tiles import draw_input
from refprior.training import Recipe, Run, load, train
from tests.training.recipes import colors
from tests.training.test_tokens import recipe as tokens

FEATURES = ["age", "height of the tallest of all", "$x$", *(f"f{i}" for i in range(12))]


def rows(*, test: bool = True, validation: bool = False) -> Task:
    """Vectors of 15 features with names, three classes, and a pool whose rows have names."""
    random, labels = np.random.default_rng(0), np.arange(120) % 3
    values = random.normal(size=(120, 15)) + 2 * np.eye(3, 15)[labels]
    kept = (values[80:], labels[80:])
    return task_from_arrays(
        (values[:12], labels[:12]),
        values[12:80],
        kept if test else None,
        validation=kept if validation else None,
        classes=["low", "middle", "high"],
        names=[f"row {i}" for i in range(68)],
        features=FEATURES,
    )


def vectors(**parts: bool) -> Recipe:
    return Recipe(
        task=partial(rows, **parts),
        network=partial(MLP, (15,), 3),
        method=Supervised(),
        steps=4,
        labeled_batch=12,
        evaluate_every=2,
        ema=0.9,
    )


def sequences() -> Task:
    """Five steps of four features: neither an image nor a vector."""
    labels = np.arange(40) % 2
    values = np.random.default_rng(0).normal(size=(40, 5, 4)) + labels[:, None, None]
    return task_from_arrays((values[:8], labels[:8]), values[8:30], (values[30:], labels[30:]))


def nameless() -> Recipe:
    """No label at all, and outputs that mean nothing."""
    whole = rows(test=False)
    task = replace(whole, labeled=whole.labeled[torch.arange(0)])
    return replace(vectors(), task=task, method=InformationOnly(), readout="consensus", unlabeled_batch=20)


KINDS: dict[str, Callable[[], Recipe]] = {
    "vectors": vectors,
    "vectors without test": partial(vectors, test=False, validation=True),
    "vectors without both": partial(vectors, test=False),
    "tokens": lambda: tokens(steps=4, evaluate_every=2),
    "sequences": lambda: replace(vectors(), task=sequences, network=partial(MLP, (5, 4), 2), labeled_batch=8),
    "colors": lambda: replace(vectors(), task=colors, network=partial(MLP, (3, 8, 8), 2), labeled_batch=8),
    "no label": nameless,
}


def written(figure: Figure) -> str:
    assert as_png(figure).startswith(b"\x89PNG")
    return "\n".join(text.get_text() for axes in figure.axes for text in axes.texts)


@pytest.mark.parametrize("kind", KINDS)
def test_every_command_and_figure_takes_every_kind_of_input(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = train(KINDS[kind](), tmp_path / "run")
    monkeypatch.setattr("refprior.training.load", partial(handed_in, run))  # the parts are of the test's own
    report([tmp_path / "run"], out=tmp_path / "report.html", figures=tmp_path / "figures")
    evaluate(tmp_path / "run", uncertain=tmp_path / "most.png", per_class=True)
    suggest(tmp_path / "run", budget=3)
    answer(tmp_path / "run", [run.data.classes[0]])
    said = capsys.readouterr().out
    assert ("image" in said) == (kind == "colors")
    assert ("precision %" in said) == (kind not in ("vectors without both", "no label"))
    page = (tmp_path / "report.html").read_text()
    assert ("no accuracy" in page) == (kind in ("vectors without both", "no label"))
    assert ("Each class" in page) == ("Confusion" in page) == ("precision %" in said)
    assert "<td>labeled_batch</td>" in page
    shown = [uncertain_figure(run, count=3), questions_figure(run, Questions((0, 1)))]
    assert [bool(written(figure)) for figure in shown] == [kind != "colors"] * 2
    assert all(bool(axes.images) == (kind == "colors") for figure in shown for axes in figure.axes)


def handed_in(run: Run, path: Path, **options: object) -> Run:
    recipe = run.recipe
    return load(path, network=recipe.network, task=recipe.task, weak=recipe.weak, strong=recipe.strong)


def test_a_row_is_shown_by_the_names_of_its_features() -> None:
    axes = Figure().add_subplot()
    draw_input(axes, torch.tensor([1.5, -2.0, 1e-9] + 12 * [7.0]), FEATURES)
    first, second, third, *_, last = axes.texts[0].get_text().splitlines()
    assert first.split() == ["age", "1.5"]
    assert second.split() == ["height", "of", "the…", "-2"]
    assert third.split() == [r"\$x\$", "1e-09"]
    assert last == "… 15 values in all"


def test_token_ids_are_shown_in_their_order() -> None:
    short, long = (Figure().add_subplot() for _ in range(2))
    draw_input(short, torch.tensor([5, 0, 31]))
    draw_input(long, torch.arange(1000))
    assert short.texts[0].get_text() == "5 0 31"
    assert long.texts[0].get_text().startswith("0 1 2 3 4 5")
    assert long.texts[0].get_text().endswith("… 1000 ids in all")


def test_a_question_about_a_file_names_it(tmp_path: Path) -> None:
    run = train(vectors())
    titles = [axes.get_title() for axes in questions_figure(run, Questions((3, 7))).axes]
    assert titles == ["1. row 3", "2. row 7"]
    with pytest.raises(ValueError, match="no open question"):
        questions_figure(run, Questions((3,), (1,)))
