"""The model card has what made the model, and MLflow loads a saved predictor."""

from pathlib import Path

import numpy as np
import pytest

import refprior as rp


@pytest.fixture(scope="module")
def run() -> rp.Run:
    return rp.train(rp.recipes.override(rp.recipes.digits_ssl(), {"steps": 3, "task.validation": 100}))


def test_the_card_says_what_made_the_model(run: rp.Run) -> None:
    card = run.predictor().card()
    assert card.startswith("---\nlibrary_name: refprior\n")
    assert "| method | methods.ReferencePrior |" in card
    assert "not calibrated" in card
    accuracy = run.result.evaluation.test.ema.accuracy  # type: ignore[union-attr]
    assert f"| test | {accuracy:.3f} |" in card
    assert "fitted to 100 inputs" in run.predictor().calibrated(run.task.validation).card()  # type: ignore[arg-type]


def test_a_model_without_provenance_has_a_card(run: rp.Run) -> None:
    from dataclasses import replace

    card = replace(run.predictor(), provenance={}, classes=tuple(f"a|{i}" for i in range(10))).card()
    assert "# A refprior model" in card
    assert r"a\|0" in card


def test_mlflow_serves_a_saved_predictor(run: rp.Run, tmp_path: Path) -> None:
    pyfunc = pytest.importorskip("mlflow.pyfunc")
    run.predictor().save(tmp_path / "model")
    pyfunc.save_model(
        str(tmp_path / "served"),
        loader_module="refprior.training.pyfunc",
        data_path=str(tmp_path / "model"),
        pip_requirements=["refprior[deep]"],
    )
    images = run.task.test.inputs[:4].numpy()  # type: ignore[union-attr]
    found = pyfunc.load_model(str(tmp_path / "served")).predict(images)
    np.testing.assert_array_equal(found["class"], run.predictor().predict(images))
    np.testing.assert_allclose(found["probabilities"], run.predict_proba(images), rtol=1e-5)
