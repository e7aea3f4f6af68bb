"""Run folders: what is written, read back, refused."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from refprior.networks import MLP
from refprior.posterior import predictive
from refprior.recipes import again, named
from refprior.training import _folder as folder
from refprior.training import load, train
from refprior.training._describe import describe
from refprior.training._loop import log_probabilities

SHORT = {"steps": "6", "unlabelled": "8", "labelled": "10", "evaluate_every": "3"}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "run"
    recipe, origin = named("digits_ssl", SHORT, seed=3)
    train(recipe, path, origin=origin)
    return path


def test_a_run_folder_can_be_read_without_the_program(finished: Path) -> None:
    assert sorted(p.name for p in finished.iterdir()) == [
        ".lock",
        "checkpoints",
        "metrics.jsonl",
        "recipe.json",
    ]
    header = json.loads((finished / "recipe.json").read_text())
    assert header["origin"] == {"recipe": "digits_ssl", "arguments": {"seed": 3}, "settings": SHORT}
    assert header["recipe"]["method"]["type"] == "refprior.methods._reference_prior.ReferencePrior"
    assert header["recipe"]["task"] == {"type": "refprior.data._digits.digits", "labels": 5, "seed": 3}
    assert header["environments"][0]["packages"].keys() >= {"refprior", "torch", "numpy"}
    steps = [json.loads(line)["step"] for line in (finished / "metrics.jsonl").read_text().splitlines()]
    assert steps == [3, 6]


def test_a_loaded_run_is_the_trained_one(finished: Path) -> None:
    header = folder.read_json(finished / folder.RECIPE)
    run = load(finished, again(header["origin"]))
    for kind in ("ema", "raw"):
        assert run.evaluate(kind).accuracy == run.result["test"][kind]["accuracy"]


def test_predictions_are_the_posterior_predictive(finished: Path) -> None:
    run = load(finished, again(folder.read_json(finished / folder.RECIPE)["origin"]))
    images = np.asarray(run.task.test.images[:7])
    for weights in ("prior", "likelihood"):
        p = run.predict(images, weights)
        assert p.shape == (7, 10)
        np.testing.assert_allclose(p.sum(1), 1, rtol=1e-5)
    log_p = log_probabilities(run.ema, run.task, run.task.test.images[:7])
    expected = predictive(log_p, run.posterior("likelihood")).exp()
    np.testing.assert_array_equal(p, np.asarray(expected))
    assert not np.allclose(p, run.predict(images))


def test_the_posterior_is_that_of_the_labelled_images(finished: Path) -> None:
    run = load(finished, again(folder.read_header(finished)["origin"]))
    labelled = run.task.labelled
    log_p = log_probabilities(run.ema, run.task, labelled.images)
    likelihood = [log_p[k, range(len(labelled)), labelled.labels].sum() for k in range(run.ema.count)]
    torch.testing.assert_close(run.posterior("likelihood"), torch.stack(likelihood).log_softmax(0))


def test_images_of_another_kind_are_refused(finished: Path) -> None:
    run = load(finished, again(folder.read_header(finished)["origin"]))
    with pytest.raises(ValueError, match=r"given images are torch.float32, labelled torch.uint8"):
        run.predict(np.zeros((2, 1, 8, 8), np.float32))
    with pytest.raises(ValueError, match=r"given images are \(8, 8\), labelled \(1, 8, 8\)"):
        run.predict(np.zeros((2, 8, 8), np.uint8))


def test_positional_arguments_are_part_of_the_record() -> None:
    assert describe(partial(MLP, (1, 8, 8), classes=10)) == {
        "type": "refprior.networks.MLP",
        "shape": [1, 8, 8],
        "classes": 10,
    }


def test_a_torn_line_is_named(finished: Path, tmp_path: Path) -> None:
    text = (finished / "metrics.jsonl").read_text()
    (tmp_path / "metrics.jsonl").write_text(text + '{"step": 7')
    with pytest.raises(ValueError, match=r"metrics\.jsonl, line 3"):
        folder.read_records(tmp_path)


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "file.json"
    folder.write_json(target, {"old": True})

    def fail(side: Path) -> None:
        side.write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        folder.write_atomically(target, fail)
    assert folder.read_json(target) == {"old": True}
    (tmp_path / "a folder").mkdir()
    with pytest.raises(OSError, match="a folder"):
        folder.write_text(tmp_path / "a folder", "text")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a folder", "file.json"]


def test_a_run_made_from_python_says_so() -> None:
    with pytest.raises(ValueError, match="made from Python"):
        again(None)
