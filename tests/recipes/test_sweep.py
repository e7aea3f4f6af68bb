"""Many runs at once: their processes end with the one that started them; and what `method=all` is."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from refprior.methods import VAT, Contrastive, FixMatch, MeanTeacher, MixMatch, Mixup
from refprior.recipes import digits_ssl, sweep
from refprior.recipes.sweeps._sweep import cells, matrix_cells
from refprior.training import Recipe, load
from refprior.training.store import _folder as folder
from tests.recipes.sweeping import left_of, processes_of, sweeping


def test_the_workers_of_a_killed_sweep_save_their_cells_and_end(tmp_path: Path) -> None:
    settings = ("steps=100000", "evaluate_every=100000")
    with sweeping("--jobs", "2", folder=tmp_path, settings=settings, seeds="0,1,2,3") as running:
        while len([p for p in tmp_path.rglob("metrics.jsonl") if p.stat().st_size]) < 2:
            assert running.poll() is None
            time.sleep(0.1)
        assert len(processes_of(running.pid)) > 2
        running.kill()
        running.wait()
        assert not left_of(running.pid, 30)
    cells = sorted(path.parent for path in tmp_path.rglob("recipe.json"))
    assert [cell.name for cell in cells] == ["seed-0", "seed-1"]  # no further cell was taken
    for cell in cells:
        assert load(cell).step > 0  # saved on the way out: no checkpoint was due yet
        with folder.locked(cell):
            pass


FEW_LABELS = [
    "AdaptiveReferencePrior",
    "DBAT",
    "Dash",
    "DivDis",
    "FixMatch",
    "FlexMatch",
    "FreeMatch",
    "MeanTeacher",
    "MixMatch",
    "Mixup",
]
FEW_LABELS += ["ReferencePrior", "SoftMatch", "Supervised", "UDA", "VAT"]


def all_methods(**settings: str) -> list[Recipe]:
    return [cell.named().recipe for cell in cells("digits_ssl", {"steps": "2", **settings, "method": "all"}, [0])]


def test_a_sweep_that_a_launcher_started_is_rejected(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its cells would take themselves for ranks of one run, and wait for each other."""
    for name, value in {"RANK": "1", "WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    said = "a sweep needs a single process, and this is one of 2 processes: start it without torchrun"
    with pytest.raises(ValueError, match=said):
        sweep("digits_ssl", tmp_path / "sweep", settings={"steps": "2"}, seeds=[0])
    with pytest.raises(ValueError, match=said):
        matrix_cells("transfer", ["a", "b"], {}, [0])
    assert not list(tmp_path.iterdir())


def test_all_methods_are_those_of_few_labels_and_self_match() -> None:
    recipes = all_methods()
    assert sorted(type(r.method).__name__ for r in recipes if r.start is None) == FEW_LABELS
    (self_match,) = [r for r in recipes if r.start is not None]
    assert (self_match.method, self_match.head) == (FixMatch(), "new")
    assert self_match.start is not None
    assert self_match.start.method == Contrastive()


def test_four_methods_have_adam_as_published_and_the_others_what_the_recipe_has() -> None:
    usual = digits_ssl().optimizer
    for recipe in all_methods():
        adam = isinstance(recipe.method, Mixup | MixMatch | MeanTeacher | VAT)
        expected = replace(usual, kind="adamw", learning_rate=0.002, decay=0.02, schedule="constant")
        assert recipe.optimizer == (expected if adam else usual)


@pytest.mark.parametrize("order", [("optimizer.learning_rate", "method"), ("method", "optimizer.learning_rate")])
def test_what_is_set_by_name_holds_for_all_methods(order: tuple[str, ...]) -> None:
    values = {"method": "all", "optimizer.learning_rate": "0.007"}
    chosen = cells("digits_ssl", {name: values[name] for name in order}, [0])
    assert {cell.named().recipe.optimizer.learning_rate for cell in chosen} == {0.007}
    assert {cell.named().recipe.optimizer.kind for cell in chosen} == {"sgd", "adamw"}


def test_all_methods_after_pretraining() -> None:
    recipes = all_methods(pretraining="contrastive")
    assert len(recipes) == len(FEW_LABELS)
    assert all(r.start is not None and r.start.method == Contrastive() for r in recipes)


def own(seed: int = 0) -> Recipe:
    return replace(digits_ssl(seed=seed), particles=2)


def test_a_recipe_without_pretraining_has_no_self_match() -> None:
    assert len(cells(own, {"method": "all"}, [0])) == len(FEW_LABELS)


@pytest.mark.thorough
def test_a_sweep_takes_a_recipe(tmp_path: Path) -> None:
    recipe = digits_ssl(labels=50)
    outcomes = sweep(recipe, tmp_path, settings={"steps": "2", "optimizer.learning_rate": "0.02,0.03"}, seeds=[4])
    assert [outcome.problem for outcome in outcomes] == [None, None]
    runs = [load(tmp_path / outcome.cell.name) for outcome in outcomes]
    assert sorted((run.recipe.optimizer.learning_rate, run.recipe.steps, run.recipe.seed) for run in runs) == [
        (0.02, 2, 4),
        (0.03, 2, 4),
    ]
