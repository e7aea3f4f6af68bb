"""Runs without a test part, or without any part to measure with: they say what they can."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from refprior._progress import _accuracy
from refprior.data import Standardize, Task
from refprior.methods import InformationOnly
from refprior.report import group, rows, summarize, uncertain_figure, write_report
from refprior.report._embed import write_embedding
from refprior.report._tables import pivot
from refprior.training import Evaluation, Recipe, Run, load, read_trajectory, train
from refprior.training.loop._begin import check_views
from refprior.training.loop._evaluate import evaluate_all
from tests.training.recipes import DIGITS, perceptron

WHOLE = DIGITS()


def without(*, validation: bool) -> Task:
    return replace(WHOLE, test=None, validation=WHOLE.validation if validation else None)


def trained(path: Path, *, validation: bool, **changes: object) -> Run:
    return train(perceptron(task=without(validation=validation), snapshots=2, **changes), path)


def evaluation(run: Run) -> Evaluation:
    assert run.result.evaluation is not None
    return run.result.evaluation


def test_the_validation_part_is_reported_where_there_is_no_test_part(tmp_path: Path) -> None:
    run = trained(tmp_path / "run", validation=True)
    found = evaluation(run)
    assert found.test is None
    assert found.accuracy is None
    assert found.validation is not None
    assert run.evaluate() == found.validation.ema
    assert _accuracy(run.result) == [f"validation {100 * found.validation.ema.accuracy:.1f}%"]
    head, line = rows(group([summarize(tmp_path / "run")]))
    assert head == ["recipe", "seeds", "validation, EMA %", "seconds"]
    assert line[2] == f"{100 * found.validation.ema.accuracy:.1f}"


def test_without_any_part_to_measure_with_loss_and_terms_are_reported(tmp_path: Path) -> None:
    run = trained(tmp_path / "run", validation=False)
    assert evaluation(run) == Evaluation()
    assert _accuracy(run.result) == []
    assert {"cross_entropy", "marginal_entropy"} <= run.result.terms.keys()
    assert rows(group([summarize(tmp_path / "run")]))[0] == ["recipe", "seeds", "seconds"]
    with pytest.raises(ValueError, match="neither a test nor a validation part"):
        run.evaluate()
    again = load(tmp_path / "run", task=run.task)
    assert again.history == run.history
    assert (again.predict_proba(run.task.unlabeled[:3]) == run.predict_proba(run.task.unlabeled[:3])).all()


@pytest.mark.parametrize("validation", [True, False])
def test_reports_and_figures_are_drawn_of_what_there_is(tmp_path: Path, validation: bool) -> None:
    run = trained(tmp_path / "run", validation=validation)
    groups = write_report([tmp_path / "run"], tmp_path / "report.html", pictures=tmp_path)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert ("Particles and ensemble" in text) == ("Calibration" in text) == validation
    assert "The two entropies" in text
    assert "Test accuracy" not in text
    assert ("accuracy at the last step on the validation part" in text) == validation
    assert ("there is no accuracy" in text) != validation
    assert pivot(groups, "particles")[1][1] == "–"
    titles = [axes.get_title() for axes in uncertain_figure(run, count=3).axes]
    assert all(title.startswith("truth") == validation for title in titles)


def test_snapshots_are_of_the_pool_where_there_is_no_test_part(tmp_path: Path) -> None:
    trained(tmp_path / "run", validation=False, particles=4)
    seen = read_trajectory(tmp_path / "run")
    assert not seen.known
    assert torch.equal(seen.probe.inputs[0], WHOLE.unlabeled[0])
    write_embedding([seen], tmp_path / "page.html", picture=tmp_path / "page.png")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    data = json.loads(re.findall(r'id="data"[^>]*>(.*?)</script>', page, re.DOTALL)[0])
    assert (data["known"], data["named"], data["runs"][0]["agreement"]) == (False, False, None)
    assert "truth" not in data["landmarks"]
    assert "on 200 unlabeled images" in data["summary"]


def consensual(**changes: object) -> Recipe:
    recipe = perceptron(method=InformationOnly(), readout="consensus", particles=4, task=without(validation=False))
    return replace(recipe, **changes)  # type: ignore[arg-type]


def test_a_consensus_without_labels_has_its_stability_only() -> None:
    run = train(consensual())
    found = evaluation(run).consensus
    assert found is not None
    assert (found.test, found.validation) == (None, None)
    assert found.stability is not None
    assert _accuracy(run.result) == [f"consensus, stability {100 * found.stability:.1f}%"]


def test_predictions_that_are_not_finite_have_no_consensus() -> None:
    run = train(consensual(steps=1))
    with torch.no_grad():
        run.ema.network.get_parameter("1.weight").fill_(math.nan)
    scored = evaluate_all(run.recipe, run.task, run.normalizer, raw=run.particles, ema=run.ema)
    assert scored == Evaluation()


def test_views_and_networks_are_tried_on_images_that_training_may_look_at() -> None:
    seen = []

    def view(images: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        seen.append(images)
        return images

    check_views(perceptron(weak=view, strong=view), Standardize().fit(WHOLE.training_inputs), WHOLE)
    assert all(torch.equal(images, WHOLE.labeled.inputs[:2]) for images in seen)
