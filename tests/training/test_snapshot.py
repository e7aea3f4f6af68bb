"""Snapshots: when they are taken, and that they are the particles' predictions."""

import os
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from refprior.data import FewLabels
from refprior.networks import MLP
from refprior.training import Recipe, Run, read_trajectory, train
from refprior.training import _snapshot as snapshot
from refprior.training.store._header import read_header
from tests.training.recipes import Own, convolutional, perceptron


@pytest.fixture(scope="module")
def recipe() -> Recipe:
    return convolutional(evaluate_every=9, snapshots=3, seed=3)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, recipe: Recipe) -> tuple[Path, Run]:
    path = tmp_path_factory.mktemp("runs") / "run"
    return path, train(recipe, path)


def test_they_are_denser_in_the_beginning_and_have_both_ends(recipe: Recipe) -> None:
    assert snapshot.snapshot_steps(recipe) == {0, 1, 4, 9}
    assert snapshot.snapshot_steps(replace(recipe, snapshots=0)) == set()


def test_they_are_predictions_on_the_probe_images(run: tuple[Path, Run]) -> None:
    path, trained = run
    seen = read_trajectory(path)
    assert [shot.step for shot in seen.snapshots] == [0, 1, 4, 9]
    assert seen.classes == trained.task.classes
    assert len(seen.probe) == snapshot.PROBES
    expected = trained.log_probabilities(seen.probe.inputs, ema=False)
    torch.testing.assert_close(seen.snapshots[-1].log_p, expected)
    assert not torch.allclose(seen.snapshots[0].log_p, expected)
    matches = (seen.probe.inputs[7] == trained.task.held_out.inputs).flatten(1).all(1)
    assert seen.probe.labels[7] in trained.task.held_out.labels[matches]


def test_taking_them_changes_nothing(run: tuple[Path, Run], recipe: Recipe, tmp_path: Path) -> None:
    _, trained = run
    other = train(replace(recipe, snapshots=0), tmp_path / "run")
    for p, q in zip(trained.particles.parameters(), other.particles.parameters(), strict=True):
        assert p.equal(q)


def test_checkpoints_serve_where_there_are_none(run: tuple[Path, Run], tmp_path: Path) -> None:
    path, _ = run
    shutil.copytree(path, tmp_path / "copy", ignore=shutil.ignore_patterns("snapshots"))
    kept, seen = read_trajectory(path), read_trajectory(tmp_path / "copy")
    assert [shot.step for shot in seen.snapshots] == [0, 9]
    for one, other in ((0, 0), (-1, -1)):
        torch.testing.assert_close(kept.snapshots[one].log_p, seen.snapshots[other].log_p)


def test_a_damaged_checkpoint_is_passed_over_and_one_is_needed(
    run: tuple[Path, Run], recipe: Recipe, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, trained = run
    shutil.copytree(path / "checkpoints", tmp_path / "checkpoints")
    (tmp_path / "checkpoints" / "step-00000000.safetensors").write_bytes(b"damaged")
    before = torch.get_rng_state()
    seen = snapshot._from_checkpoints(tmp_path, recipe, trained.task)
    assert [shot.step for shot in seen.snapshots] == [0, 9]  # the start is known without its checkpoint
    assert "step-00000000.safetensors is damaged: " in caplog.text
    assert torch.equal(torch.get_rng_state(), before)
    shutil.rmtree(tmp_path / "checkpoints")
    with pytest.raises(ValueError, match="holds no snapshot and no checkpoint that can be read"):
        snapshot._from_checkpoints(tmp_path, recipe, trained.task)


def test_a_damaged_file_is_named(run: tuple[Path, Run], tmp_path: Path) -> None:
    path, _ = run
    copy = tmp_path / "snapshots"
    copy.mkdir()
    for file in (path / "snapshots").iterdir():
        (copy / file.name).write_bytes(file.read_bytes()[: 1000 if "00000004" in file.name else None])
    with pytest.raises(ValueError, match=r"step-00000004.safetensors cannot be read"):
        snapshot._read_snapshots(tmp_path, read_header(path))
    assert snapshot._read_snapshots(tmp_path / "elsewhere", read_header(path)) is None


@pytest.mark.parametrize("metadata", [None, {"classes": "{"}, {"classes": "3"}, {"classes": "[3]"}])
def test_images_without_names_of_classes_are_rejected(
    run: tuple[Path, Run], tmp_path: Path, metadata: dict[str, str] | None
) -> None:
    path, _ = run
    shutil.copytree(path / "snapshots", tmp_path / "snapshots")
    probe = tmp_path / "snapshots" / "probe.safetensors"
    save_file(load_file(path / "snapshots" / "probe.safetensors"), probe, metadata)
    with pytest.raises(ValueError, match=r"probe.safetensors is damaged: "):
        snapshot._read_snapshots(tmp_path, read_header(path))


def test_a_file_that_is_larger_than_a_snapshot_can_be_is_not_read(run: tuple[Path, Run], tmp_path: Path) -> None:
    path, _ = run
    shutil.copytree(path / "snapshots", tmp_path / "snapshots")
    os.truncate(tmp_path / "snapshots" / "step-00000004.safetensors", 10**12)  # a hole: no room on the disk is needed
    with pytest.raises(ValueError, match=r"step-00000004.safetensors has 1,000,000,000,000 bytes, more than a"):
        snapshot._read_snapshots(tmp_path, read_header(path))


def test_the_users_own_network_need_not_be_handed_in_where_snapshots_were_kept(tmp_path: Path) -> None:
    train(convolutional(network=Own, steps=1, snapshots=1), tmp_path / "kept")
    assert [shot.step for shot in read_trajectory(tmp_path / "kept").snapshots] == [0, 1]
    train(convolutional(network=Own, steps=1), tmp_path / "none")
    with pytest.raises(ValueError, match=r"recipe\.network is the custom tests\.training\.recipes\.Own"):
        read_trajectory(tmp_path / "none")


def test_other_parts_of_the_users_own_are_never_needed(tmp_path: Path) -> None:
    """Snapshots of checkpoints are predictions: the views and the method do not matter."""
    train(convolutional(weak=lambda images, g: images, steps=1), tmp_path / "run")
    assert [shot.step for shot in read_trajectory(tmp_path / "run").snapshots] == [0, 1]


def test_checkpoints_are_not_seen_on_other_data(tmp_path: Path) -> None:
    images, labels, split = np.zeros((20, 8, 8), np.uint8), np.arange(20) % 2, np.repeat([0, 1], 10)
    np.savez(tmp_path / "mine.npz", images=images, labels=labels, split=split)
    task, network = FewLabels(str(tmp_path / "mine.npz"), labels=2), partial(MLP, (1, 8, 8), 2)
    train(perceptron(task=task, network=network, unlabeled_batch=4, steps=1), tmp_path / "run")
    assert len(read_trajectory(tmp_path / "run").snapshots) == 2
    np.savez(tmp_path / "mine.npz", images=images + split[:, None, None].astype(np.uint8), labels=labels, split=split)
    with pytest.raises(ValueError, match="was trained on other data: test: 10 inputs of other content"):
        read_trajectory(tmp_path / "run")
