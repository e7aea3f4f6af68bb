"""One browser for all tests that need it: its start takes seconds. A run whose labels admit several rules."""

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest

from refprior.data import FewLabels
from refprior.estimators import classifier_recipes
from refprior.methods import ReferencePrior
from refprior.recipes import override
from refprior.training import train
from tests.explore.browser import Browser, chromium
from tests.training.recipes import two_cues


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.fixture
def ambiguous_run(tmp_path: Path) -> Path:
    """A run on a table in which color and shape both predict the 40 labels."""
    task = two_cues()
    rows = [*task.labeled.inputs.tolist(), *task.unlabeled.tolist()]
    with (tmp_path / "cues.csv").open("w", newline="") as file:
        names = [task.classes[y] for y in task.labeled.labels.tolist()] + [""] * len(task.unlabeled)
        writer = csv.writer(file)
        writer.writerow(["color", "<i>shape</i>", "label"])
        writer.writerows([*row, name] for row, name in zip(rows, names, strict=True))
    recipes, _ = classifier_recipes(FewLabels(str(tmp_path / "cues.csv"), labels=None), "components")
    method = ReferencePrior(alpha=1.0, gamma=1.0, threshold=0.8, balance=1.0)
    train(override(recipes["components"], {"steps": 300, "particles": 8, "method": method}), tmp_path / "runs" / "run")
    return tmp_path / "runs" / "run"
