"""Snapshots: when they are taken, and that they are the particles' predictions."""

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from refprior.recipes import Named, named
from refprior.training import _snapshot as snapshot
from refprior.training import load, train
from refprior.training._loop import log_probabilities
from refprior.training._run import Run

SHORT = {"steps": "9", "unlabelled": "8", "labelled": "10", "evaluate_every": "9", "snapshots": "3"}


@pytest.fixture(scope="module")
def recipe() -> Named:
    return named("digits_ssl", SHORT, seed=3)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, recipe: Named) -> tuple[Path, Run]:
    path = tmp_path_factory.mktemp("runs") / "run"
    return path, train(recipe.recipe, path, origin=recipe.origin)


def test_they_are_denser_in_the_beginning_and_have_both_ends(recipe: Named) -> None:
    assert snapshot.steps(recipe.recipe) == {0, 1, 4, 9}
    assert snapshot.steps(named("digits_ssl", {**SHORT, "snapshots": "0"}, seed=3).recipe) == set()


def test_they_are_predictions_on_the_probe_images(run: tuple[Path, Run]) -> None:
    path, trained = run
    film = snapshot.read(path)
    assert film is not None
    assert [shot.step for shot in film.snapshots] == [0, 1, 4, 9]
    assert film.classes == trained.task.classes
    assert len(film.probe) == snapshot.PROBES
    expected = log_probabilities(trained.particles, trained.task, film.probe.images)
    torch.testing.assert_close(film.snapshots[-1].log_p, expected)
    assert not torch.allclose(film.snapshots[0].log_p, expected)
    matches = (film.probe.images[7] == trained.task.test.images).flatten(1).all(1)
    assert film.probe.labels[7] in trained.task.test.labels[matches]


def test_taking_them_changes_nothing(run: tuple[Path, Run], tmp_path: Path) -> None:
    _, trained = run
    plain, _ = named("digits_ssl", {**SHORT, "snapshots": "0"}, seed=3)
    other = train(plain, tmp_path / "run")
    for p, q in zip(trained.particles.parameters(), other.particles.parameters(), strict=True):
        assert p.equal(q)


def test_checkpoints_serve_where_there_are_none(run: tuple[Path, Run], recipe: Named) -> None:
    path, _ = run
    kept, seen = snapshot.read(path), snapshot.from_checkpoints(path, recipe.recipe)
    assert kept is not None
    assert [shot.step for shot in seen.snapshots] == [0, 9]
    for one, other in ((0, 0), (-1, -1)):
        torch.testing.assert_close(kept.snapshots[one].log_p, seen.snapshots[other].log_p)
    assert load(path, recipe.recipe).recipe == recipe.recipe


def test_a_damaged_checkpoint_is_passed_over_and_one_is_needed(
    run: tuple[Path, Run], recipe: Named, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, _ = run
    shutil.copytree(path / "checkpoints", tmp_path / "checkpoints")
    (tmp_path / "checkpoints" / "step-00000000.safetensors").write_bytes(b"damaged")
    before = torch.get_rng_state()
    seen = snapshot.from_checkpoints(tmp_path, recipe.recipe)
    assert [shot.step for shot in seen.snapshots] == [0, 9]  # the start is known without its checkpoint
    assert "step-00000000.safetensors is damaged: " in caplog.text
    assert torch.equal(torch.get_rng_state(), before)
    shutil.rmtree(tmp_path / "checkpoints")
    with pytest.raises(ValueError, match="holds no snapshot and no checkpoint that can be read"):
        snapshot.from_checkpoints(tmp_path, recipe.recipe)


def test_a_damaged_file_is_named(run: tuple[Path, Run], tmp_path: Path) -> None:
    path, _ = run
    copy = tmp_path / "snapshots"
    copy.mkdir()
    for file in (path / "snapshots").iterdir():
        (copy / file.name).write_bytes(file.read_bytes()[: 1000 if "00000004" in file.name else None])
    with pytest.raises(ValueError, match=r"step-00000004.safetensors cannot be read"):
        snapshot.read(tmp_path)
    assert snapshot.read(tmp_path / "elsewhere") is None


@pytest.mark.parametrize("metadata", [None, {"classes": "{"}, {"classes": "3"}, {"classes": "[3]"}])
def test_images_without_names_of_classes_are_refused(
    run: tuple[Path, Run], tmp_path: Path, metadata: dict[str, str] | None
) -> None:
    path, _ = run
    shutil.copytree(path / "snapshots", tmp_path / "snapshots")
    probe = tmp_path / "snapshots" / "probe.safetensors"
    save_file(load_file(path / "snapshots" / "probe.safetensors"), probe, metadata)
    with pytest.raises(ValueError, match=r"probe.safetensors is damaged: "):
        snapshot.read(tmp_path)
