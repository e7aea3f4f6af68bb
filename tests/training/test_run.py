"""Runs: what they predict, and that a run read back from its folder is the one that was trained."""

import importlib.util
import json
import linecache
import pickle
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import refprior as rp
from refprior.data import FewLabels, Normalizer, PrincipalComponents, Task, task_from_arrays
from refprior.methods import InformationOnly, Loss, Needs, Step, Supervised
from refprior.networks import MLP, SmallCNN
from refprior.posterior import held_out_weights, predictive
from refprior.training import NotFiniteError, Recipe, Run, load, train
from refprior.training.loop import held_out
from refprior.training.loop._evaluate import log_probabilities
from refprior.views import Unchanged
from tests import records
from tests.training.interruption import stop
from tests.training.recipes import DIGITS, Own, ambiguous, colors, convolutional, perceptron, second_stage, two_cues


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return train(convolutional(seed=3), tmp_path_factory.mktemp("runs") / "run")


@pytest.fixture(scope="module")
def run(trained: Run) -> Run:
    """Read back from its folder."""
    assert trained.path is not None
    return load(trained.path)


def assert_same_predictions(one: Run, other: Run, images: Tensor) -> None:
    """Bit for bit, with both kinds of weights and averages."""
    for weights in ("ema", "raw"):
        assert torch.equal(
            one.log_probabilities(images, ema=weights == "ema"),
            other.log_probabilities(images, ema=weights == "ema"),
        )
    np.testing.assert_array_equal(
        one.predict_proba(images, average="logits"), other.predict_proba(images, average="logits")
    )


def test_a_loaded_run_is_the_trained_one(run: Run, trained: Run) -> None:
    assert run.history == trained.history
    assert run.data == trained.data
    assert run.recipe.to_dict() == trained.recipe.to_dict()
    evaluation = run.result.evaluation
    assert evaluation is not None
    assert evaluation.test is not None
    assert run.evaluate() == evaluation.test.ema
    assert run.evaluate(ema=False) == evaluation.test.raw
    assert evaluation.validation is not None
    assert run.evaluate(run.task.validation) == evaluation.validation.ema
    assert_same_predictions(run, trained, trained.task.held_out.inputs)
    assert (run.posterior(weighting="prior") == trained.posterior(weighting="prior")).all()


def at_temperature(run: Run, temperature: float) -> Run:
    """The run as if its last evaluation had found this temperature: few steps leave the particles unsure."""
    last = run.result
    assert last.evaluation is not None
    changed = replace(last, evaluation=replace(last.evaluation, temperature=temperature))
    return replace(run, history=(*run.history[:-1], changed))


def test_predictions_are_the_posterior_predictive(folded: Run) -> None:
    folded = at_temperature(folded, 1.5)
    images = np.asarray(folded.task.held_out.inputs[:7])
    for weighting in ("prior", "likelihood"):
        p = folded.predict_proba(images, weighting=weighting)
        assert p.shape == (7, 10)
        np.testing.assert_allclose(p.sum(1), 1, rtol=1e-5)
    log_p = log_probabilities(folded.ema, folded.normalizer, folded.task.held_out.inputs[:7], 10)
    mixed = predictive(log_p, torch.from_numpy(folded.posterior()))
    expected = (mixed / 1.5).softmax(-1)
    torch.testing.assert_close(torch.from_numpy(p), expected)
    assert not np.allclose(p, folded.predict_proba(images))


def test_the_posterior_is_that_of_the_labels_left_out(folded: Run) -> None:
    """Two particles per fold: both have left out the same labels, so that their likelihoods compare."""
    log_p = torch.from_numpy(folded.log_probabilities(folded.task.labeled.inputs.numpy()))
    out = held_out(folded.recipe, folded.task)
    assert out is not None
    log_prior = folded.ema.log_prior.detach()
    wanted = held_out_weights(log_p, folded.task.labeled.labels, out, log_prior)
    np.testing.assert_allclose(folded.posterior(), wanted.numpy(), rtol=1e-6)
    assert (folded.posterior(weighting="prior") == log_prior.numpy()).all()
    weights = np.exp(folded.posterior())
    np.testing.assert_allclose([weights[0] + weights[2], weights[1] + weights[3]], 0.5, rtol=1e-6)


def test_labels_that_trained_all_particles_cannot_weight_them(run: Run) -> None:
    with pytest.raises(ValueError, match="labels trained all particles and cannot weight them: train it with folds"):
        run.posterior()
    with pytest.raises(ValueError, match="cannot weight them"):
        run.predict_proba(run.task.held_out.inputs[:2], weighting="likelihood")


def test_the_temperature_is_that_of_the_last_evaluation(folded: Run) -> None:
    evaluation = folded.result.evaluation
    assert evaluation is not None
    assert evaluation.test is not None
    assert folded.temperature == evaluation.temperature == folded.out_of_fold().temperature
    assert folded.evaluate() == evaluation.test.ema
    assert folded.evaluate(ema=False) == evaluation.test.raw
    folded = at_temperature(folded, 1.5)
    made = folded.predictor()
    assert (made.temperature, folded.predictor(ema=False).temperature) == (1.5, 1)
    assert made.provenance["calibration"] == {"part": "labels out of fold", "count": 50, "temperature": 1.5}
    images = folded.task.held_out.inputs[:9]
    bare = replace(made, temperature=1.0).predict_proba(images)
    torch.testing.assert_close(made.predict_proba(images), (bare.log() / 1.5).softmax(-1))
    assert folded.evaluate().negative_log_likelihood != evaluation.test.ema.negative_log_likelihood
    assert folded.evaluate(ema=False) == evaluation.test.raw


def test_calibration_can_be_turned_off() -> None:
    run = train(convolutional(folds=2, calibrate=False, steps=2))
    assert run.temperature == run.predictor().temperature == 1
    assert run.result.evaluation is not None
    assert run.result.evaluation.temperature is None
    assert "calibration" not in run.predictor().provenance


def test_images_of_another_kind_are_rejected(run: Run) -> None:
    with pytest.raises(ValueError, match=r"given inputs are torch\.float32, those of the training torch\.uint8"):
        run.predict_proba(np.zeros((2, 1, 8, 8), np.float32))
    with pytest.raises(ValueError, match=r"given inputs are \(8, 8\), those of the training \(1, 8, 8\)"):
        run.predict_proba(np.zeros((2, 8, 8), np.uint8))
    with pytest.raises(ValueError, match=r"given inputs are -1 … 256, those of the training 0 … 255"):
        run.predict_proba(np.array([-1, 256]).repeat(64).reshape(2, 1, 8, 8))
    for wrong in ([[1], [2, 3]], [None], [["a"]]):
        with pytest.raises(ValueError, match="given inputs must be an array, a tensor or a list of numbers") as caught:
            run.predict_proba(wrong)
        assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match=r"given inputs are \(\), those of the training \(1, 8, 8\)"):
        run.predict_proba(3)


def test_whole_numbers_are_taken_for_bytes(run: Run) -> None:
    images = np.asarray(run.task.held_out.inputs[:3])
    expected = run.predict_proba(images)
    for same in (images.astype(np.int64), images.astype(">u2"), images.tolist(), images[::-1].astype(np.int32)[::-1]):
        assert (run.predict_proba(same) == expected).all()


def test_any_kind_of_float_is_taken_where_floats_were_trained_on() -> None:
    images, labels = np.random.default_rng(0).normal(size=(30, 5)).astype(np.float16), np.arange(30) % 2
    task = task_from_arrays((images[:6].astype(np.float64), labels[:6]), images[6:])
    run = train(perceptron(task=task, network=partial(MLP, (5,), 2), weak=Unchanged(), strong=Unchanged(), steps=1))
    expected = run.predict_proba(images.astype(np.float32))
    for same in (images, images.astype(np.float64), images.tolist(), torch.from_numpy(images).double()):
        assert (run.predict_proba(same) == expected).all()
    assert (
        run.predict_proba(np.ones((2, 5), int)).shape == run.predict_proba(torch.ones(2, 5, dtype=torch.bfloat16)).shape
    )
    with pytest.raises(ValueError, match=r"given inputs are torch\.uint8, those of the training torch\.float32"):
        run.predict_proba(np.ones((2, 5), np.uint8))
    with pytest.raises(ValueError, match=r"given inputs are not finite as torch\.float32"):
        run.predict_proba(np.full((2, 5), 1e300))


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"ema": "raw"}, "ema must be True or False, got 'raw'"),
        ({"weighting": "posterior"}, "weighting must be 'prior' or 'likelihood', got 'posterior'"),
        ({"average": "logit"}, "average must be 'probabilities' or 'logits', got 'logit'"),
    ],
)
def test_a_word_that_is_none_of_the_choices_is_rejected(run: Run, setting: dict[str, Any], message: str) -> None:
    images = run.task.held_out.inputs[:2]
    calls: dict[str, Callable[..., object]] = {
        "ema, weighting, average": lambda **s: run.predict_proba(images, **s),
        "ema, weighting, average: scores": run.evaluate,
        "ema, weighting: split": lambda **s: run.uncertainty(images, **s),
        "ema, weighting: particles": run.posterior,
        "ema: predictions": lambda **s: run.log_probabilities(images, **s),
        "ema: clusters": run.consensus,
    }
    (name,) = setting
    for takes, call in calls.items():
        if name in takes.partition(":")[0].split(", "):
            with pytest.raises(ValueError, match=message):
                call(**setting)


@pytest.fixture
def file_run(tmp_path: Path) -> tuple[Run, Path]:
    """A run on a file, in a folder, and the file."""
    task, file = colors(), tmp_path / "colors.npz"
    images = torch.cat([task.labeled.inputs, task.unlabeled, task.held_out.inputs]).numpy()
    np.savez(file, images=images, labels=np.arange(60) % 2, split=np.repeat([0, 1], [40, 20]))
    recipe = perceptron(task=FewLabels(str(file), labels=8), network=partial(MLP, (3, 8, 8), 2))
    return train(recipe, tmp_path / "run"), file


@pytest.mark.parametrize("broken", ["deleted", "torn"])
def test_a_loaded_run_predicts_the_same_bits_without_its_data(file_run: tuple[Run, Path], broken: str) -> None:
    trained, file = file_run
    images = trained.task.held_out.inputs
    if broken == "deleted":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:100])
    assert trained.path is not None
    loaded = rp.load(trained.path)
    assert_same_predictions(loaded, trained, images)
    assert loaded.uncertainty(images).total.equal(trained.uncertainty(images).total)
    assert loaded.data.classes == trained.task.classes
    for use in (lambda: loaded.task, loaded.evaluate, loaded.posterior, loaded.consensus):
        with pytest.raises(ValueError, match=r"colors\.npz"):
            use()


def test_a_loaded_run_rejects_data_that_have_changed(file_run: tuple[Run, Path]) -> None:
    trained, file = file_run
    arrays = dict(np.load(file))
    arrays["images"][40, 0, 0, 0] ^= 1
    np.savez(file, **arrays)
    assert trained.path is not None
    loaded = load(trained.path)
    assert_same_predictions(loaded, trained, trained.task.held_out.inputs)
    with pytest.raises(ValueError, match=r"trained on other data: test: 20 inputs of other content .*task=…"):
        _ = loaded.task
    handed = load(trained.path, task=trained.task)
    assert handed.evaluate() == trained.evaluate()


def test_a_loaded_run_does_not_depend_on_defaults_that_have_changed(
    trained: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    images, expected = trained.task.held_out.inputs, trained.predict_proba(trained.task.held_out.inputs)
    assert trained.path is not None
    monkeypatch.setattr(SmallCNN.__init__, "__defaults__", (3, 5))  # width, hidden
    monkeypatch.setattr(rp.recipes.digits_ssl, "__defaults__", (20, 7))
    defaults = Recipe.__init__.__kwdefaults__ or {}
    monkeypatch.setattr(Recipe.__init__, "__kwdefaults__", {**defaults, "particles": 9})
    loaded = load(trained.path)
    assert loaded.particles.count == 4
    np.testing.assert_array_equal(loaded.predict_proba(images), expected)


def test_a_loaded_run_does_not_depend_on_the_defaults_of_its_recipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = rp.recipes.override(rp.recipes.digits_ssl(), {"steps": 2, "unlabeled_batch": 8})
    trained = train(recipe, tmp_path / "run", origin=rp.training.Origin("digits_ssl"))
    monkeypatch.setattr(rp.recipes.digits_ssl, "__defaults__", (20, 7))
    loaded = load(tmp_path / "run")
    assert_same_predictions(loaded, trained, trained.task.held_out.inputs)
    assert loaded.evaluate() == trained.evaluate()
    assert len(loaded.task.labeled) == 50


def test_components_are_those_of_the_training(tmp_path: Path) -> None:
    recipe = perceptron(inputs=PrincipalComponents(count=12), network=partial(MLP, (12,), 10))
    trained = train(recipe, tmp_path / "run")
    loaded = load(tmp_path / "run")
    assert_same_predictions(loaded, trained, trained.task.held_out.inputs)
    assert loaded.normalizer.axes is not None
    assert trained.normalizer.axes is not None
    assert loaded.normalizer.axes.equal(trained.normalizer.axes)


def test_both_stages_are_loaded_from_their_folders(tmp_path: Path) -> None:
    trained = train(second_stage(), tmp_path / "run")
    assert_same_predictions(load(tmp_path / "run"), trained, trained.task.held_out.inputs)
    first = load(tmp_path / "run" / "start")
    assert first.predict_proba(trained.task.held_out.inputs).shape[-1] == 3
    assert first.recipe.to_dict() == second_stage().to_dict()["start"]


@pytest.mark.parametrize("network", [Own, partial(Own, hidden=6), lambda: Own()], ids=["class", "partial", "lambda"])
def test_a_network_of_the_users_own_must_be_handed_in(network: Callable[[], Own], tmp_path: Path) -> None:
    trained = train(perceptron(network=network), tmp_path / "run")
    with pytest.raises(ValueError, match=r"recipe\.network is the custom .*: pass network=…"):
        load(tmp_path / "run")
    assert_same_predictions(load(tmp_path / "run", network=network), trained, trained.task.held_out.inputs)
    message = r"another network: body\.weight: \(6, 64\) → \(7, 64\); body\.bias: \(6,\) → \(7,\); head\.weight: "
    with pytest.raises(ValueError, match=message):
        load(tmp_path / "run", network=partial(Own, hidden=7))
    with pytest.raises(ValueError, match=r"body\.weight: \(6, 64\) → None; .* and 5 more \(there → now\)"):
        load(tmp_path / "run", network=partial(MLP, (1, 8, 8), 10))


@dataclass(frozen=True)
class OwnMethod:
    """Supervised learning with a factor."""

    needs: ClassVar[Needs] = Needs(views=("weak",))
    factor: float = 2.0

    def __call__(self, step: Step) -> Loss:
        return Loss.of(self.factor * Supervised()(step).total)


def brighter(images: Tensor, generator: torch.Generator) -> Tensor:
    return images.clamp(max=254) + 1


@pytest.mark.parametrize(
    "changes",
    [{"method": OwnMethod()}, {"weak": brighter}, {"strong": brighter}, {"task": lambda: DIGITS()}],
    ids=lambda part: next(iter(part)),
)
def test_a_run_with_other_parts_of_the_users_own_loads_without_them(changes: dict[str, Any], tmp_path: Path) -> None:
    recipe = perceptron(**changes)
    trained = train(recipe, tmp_path / "run")
    loaded = load(tmp_path / "run")
    assert_same_predictions(loaded, trained, trained.task.held_out.inputs)
    (name,) = changes
    message = rf"the run uses a custom {name}: pass {name}=…"
    if name == "task":
        with pytest.raises(ValueError, match=message):
            _ = loaded.task
        assert loaded.evaluate(trained.task.test) == trained.evaluate()
    else:
        with pytest.raises(ValueError, match=message):
            train(loaded.recipe)
        assert loaded.evaluate() == trained.evaluate()
    handed = load(tmp_path / "run", **changes)
    assert handed.recipe.to_dict() == recipe.to_dict()
    assert handed.evaluate() == trained.evaluate()
    train(handed.recipe, tmp_path / "run")


def test_own_parts_of_an_earlier_stage_may_be_missing_too(tmp_path: Path) -> None:
    recipe = perceptron(start=perceptron(method=OwnMethod(), weak=brighter))
    trained = train(recipe, tmp_path / "run")
    assert_same_predictions(load(tmp_path / "run"), trained, trained.task.held_out.inputs)


def test_data_in_memory_are_handed_in_and_compared(tmp_path: Path) -> None:
    task = colors()
    trained = train(perceptron(task=task, network=partial(MLP, (3, 8, 8), 2)), tmp_path / "run")
    with pytest.raises(ValueError, match="a custom task"):
        _ = load(tmp_path / "run").task
    for same in (task, colors(), colors):
        assert load(tmp_path / "run", task=same).evaluate() == trained.evaluate()
    fewer = replace(task, unlabeled=task.unlabeled[1:])
    with pytest.raises(ValueError, match=r"other data: unlabeled: 32 → 31 inputs \(there → now\)"):
        load(tmp_path / "run", task=fewer).evaluate()


def test_images_of_floats_are_taken_as_they_were(tmp_path: Path) -> None:
    random = np.random.RandomState(0)
    images, labels = random.rand(30, 1, 8, 8), np.arange(30) % 2

    def floats() -> Task:
        return task_from_arrays((images[:6], labels[:6]), images[6:20], (images[20:], labels[20:]))

    recipe = perceptron(task=floats, network=partial(MLP, (1, 8, 8), 2), weak=rp.views.Unchanged(), strong=brighter)
    trained = train(replace(recipe, method=Supervised()), tmp_path / "run")
    loaded = load(tmp_path / "run")
    assert loaded.data.dtype == "float32"
    assert_same_predictions(loaded, trained, trained.task.held_out.inputs)
    with pytest.raises(ValueError, match=r"given inputs are torch\.uint8, those of the training torch\.float32"):
        loaded.predict_proba(np.zeros((2, 1, 8, 8), np.uint8))


def test_what_is_no_run_is_rejected_in_one_line(tmp_path: Path, trained: Run) -> None:
    with pytest.raises(ValueError, match=r"\A[^\n]*nowhere is not a run folder: it has no recipe\.json\Z"):
        load(tmp_path / "nowhere")
    assert trained.path is not None
    shutil.copytree(trained.path, tmp_path / "run", ignore=shutil.ignore_patterns("checkpoints"))
    with pytest.raises(ValueError, match="has no checkpoint yet: nothing to load"):
        load(tmp_path / "run")
    with pytest.raises(ValueError, match="netwrok cannot be passed; these can: inputs, method"):
        load(trained.path, netwrok=Own)


def test_a_run_that_stopped_before_its_first_record_has_no_result(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        train(perceptron(), tmp_path / "run", watch=stop)
    run = load(tmp_path / "run")
    assert run.history == ()
    with pytest.raises(ValueError, match="the run has no record yet"):
        _ = run.result
    header = json.loads((tmp_path / "run" / "recipe.json").read_text())
    assert run.predict_proba(DIGITS().held_out.inputs[:3]).shape == (3, len(header["data"]["classes"]))


def test_a_run_that_diverged_at_its_end_keeps_the_weights_before_it(tmp_path: Path) -> None:
    """The last update makes weights whose outputs are no numbers: they are not saved."""

    def unbounded() -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 10))

    wild = replace(perceptron().optimizer, learning_rate=1e30, schedule="constant")
    with pytest.raises(NotFiniteError, match="step 1: the loss on the test and validation part is not finite"):
        train(perceptron(network=unbounded, optimizer=wild, steps=1), tmp_path / "run")
    loaded = load(tmp_path / "run", network=unbounded)
    assert loaded.step == 0
    assert loaded.predict_proba(loaded.task.held_out.inputs).isfinite().all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"classes": ["a", "b"] * 50}, "the network gives 10 outputs for 100 classes"),
        ({"shape": [3, 9, 9]}, r"the weights do not fit inputs of \(3, 9, 9\)"),
        ({"shape": [10**6, 10**6]}, "the folder is damaged"),
        ({"shape": [-1, 8, 8]}, "the weights do not fit inputs of"),
    ],
    ids=["classes", "shape", "huge", "negative"],
)
def test_a_header_that_does_not_fit_the_weights_is_rejected(
    change: dict[str, Any], words: str, tmp_path: Path, trained: Run
) -> None:
    assert trained.path is not None
    shutil.copytree(trained.path, tmp_path / "run")
    header = tmp_path / "run" / "recipe.json"
    records.change(header, data={**records.content(header)["data"], **change})
    with pytest.raises(ValueError, match=rf"\A[^\n]*{words}[^\n]*\Z"):
        load(tmp_path / "run")


NETWORK = """
from torch import nn


class Net(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 10))
"""


def imported(folder: Path, code: str) -> Any:
    """The class of a file of the user's, read anew."""
    (folder / "net_of_mine.py").write_text(code)
    linecache.clearcache()
    spec = importlib.util.spec_from_file_location("net_of_mine", folder / "net_of_mine.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["net_of_mine"] = module
    spec.loader.exec_module(module)
    return module.Net


def test_an_edited_network_of_the_same_shapes_is_noticed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    before = perceptron(network=imported(tmp_path, NETWORK), steps=3)
    with pytest.raises(KeyboardInterrupt):
        train(before, tmp_path / "run", watch=stop, save_every=0)
    load(tmp_path / "run", network=before.network)
    assert not caplog.text
    after = perceptron(network=imported(tmp_path, NETWORK.replace("ReLU", "Tanh")), steps=3)
    with pytest.raises(ValueError, match=r"was made by another recipe: network\.source: \w+ → \w+"):
        train(after, tmp_path / "run")
    load(tmp_path / "run", network=after.network)
    assert "the code of network has changed since the training" in caplog.text


def test_own_parts_of_the_first_stage_are_not_needed(tmp_path: Path) -> None:
    last = perceptron(steps=2)
    first = replace(last, task=lambda: DIGITS(), method=OwnMethod())
    train(replace(last, start=first), tmp_path / "run")
    run = load(tmp_path / "run")
    assert run.task.classes == run.data.classes
    assert run.recipe.task == last.task


def test_a_run_with_inputs_of_its_own_loads_without_them(tmp_path: Path) -> None:
    class Halved:
        def fit(self, parts: Any) -> Normalizer:
            return Normalizer(torch.zeros(()), torch.tensor(2.0))

    trained = train(perceptron(inputs=Halved(), steps=2), tmp_path / "run")
    assert_same_predictions(load(tmp_path / "run"), trained, trained.task.held_out.inputs)


@pytest.mark.parametrize("kind", ["_inductor", "nope", "int32", 3])
def test_a_file_cannot_choose_what_torch_looks_up(kind: object, tmp_path: Path, trained: Run) -> None:
    assert trained.path is not None
    shutil.copytree(trained.path, tmp_path / "run")
    header = tmp_path / "run" / "recipe.json"
    records.change(header, data={**records.content(header)["data"], "dtype": kind})
    with pytest.raises(ValueError, match=r"recipe\.json is not the record of a run: .* at `\$\.data\.dtype`"):
        load(tmp_path / "run")


def test_a_run_can_be_pickled(trained: Run) -> None:
    assert trained.path is not None
    for run in (trained, load(trained.path)):
        again = pickle.loads(pickle.dumps(run))
        assert_same_predictions(again, run, run.task.held_out.inputs)


@pytest.mark.parametrize("content", [None, b"", b"nonsense"], ids=["gone", "empty", "damaged"])
def test_weights_load_without_their_history(
    content: bytes | None, tmp_path: Path, trained: Run, caplog: pytest.LogCaptureFixture
) -> None:
    """metrics.jsonl was lost, or is not what the checkpoint knows of."""
    assert trained.path is not None
    shutil.copytree(trained.path, tmp_path / "run")
    (tmp_path / "run" / "metrics.jsonl").unlink()
    if content is not None:
        (tmp_path / "run" / "metrics.jsonl").write_bytes(content)
    loaded = load(tmp_path / "run")
    assert_same_predictions(loaded, trained, trained.task.held_out.inputs)
    assert (loaded.step, loaded.history) == (trained.step, ())
    assert "loaded without its history" in caplog.text
    with pytest.raises(ValueError, match="the run has no record yet"):
        _ = loaded.result


def test_rules_are_groups_of_particles_on_the_pool() -> None:
    run = train(ambiguous())
    found = run.rules()
    assert found.ambiguous
    assert sorted(k for members in found.members for k in members) == list(range(8))
    assert found.places == tuple(range(400))
    color, shape = (torch.as_tensor(run.task.unlabeled[:, i] > 0).long() for i in (0, 1))
    for cue in (color, shape):
        assert max((labels == cue).double().mean() for labels in found.labels) > 0.95
    same = run.predictor().rules(run.task.unlabeled.numpy(), labeled=run.task.labeled.inputs)
    assert (same.members, same.agreement) == (found.members, found.agreement)
    assert not run.predictor().rules(run.task.unlabeled).ambiguous  # unknown without labeled inputs
    (only,) = train(ambiguous(particles=1)).rules().members
    assert only == (0,)


def test_rules_of_a_large_pool_are_found_at_equal_intervals(run: Run) -> None:
    found, pool = run.rules(most=100), run.task.unlabeled
    assert (len(found.places), found.places[0], found.places[-1]) == (100, 0, len(pool) - 1)
    assert set(np.diff(found.places)) == {len(pool) // 100, len(pool) // 100 + 1}
    one = run.log_probabilities(pool[found.places[7], None])[list(found.members[0])]
    mixed = predictive(one, rp.information.uniform(len(one), one))[0]
    torch.testing.assert_close(found.log_p[0, 7], mixed, atol=1e-5, rtol=1e-5)


def test_rules_need_classes_and_a_pool() -> None:
    labeled = replace(two_cues(), unlabeled=two_cues().unlabeled[:0])
    with pytest.raises(ValueError, match="rules need unlabeled inputs: the pool is empty"):
        train(ambiguous(task=labeled, method=Supervised(), steps=2)).rules()
    with pytest.raises(ValueError, match="the outputs of this run have no names"):
        train(ambiguous(readout="consensus", method=InformationOnly(), steps=2)).rules()


@pytest.fixture(scope="module")
def folded(tmp_path_factory: pytest.TempPathFactory) -> Run:
    train(convolutional(folds=2, steps=9), tmp_path_factory.mktemp("folds") / "run")
    return load(tmp_path_factory.getbasetemp() / "folds0" / "run")


def test_each_label_is_predicted_by_the_particles_that_have_not_learned_it(folded: Run) -> None:
    found, labels = folded.out_of_fold(), folded.task.labeled.labels
    p = folded.log_probabilities(folded.task.labeled.inputs).exp()
    seen = dict.fromkeys(range(10), 0)
    for i, c in enumerate(labels.tolist()):
        fold = (c + seen[c]) % 2
        seen[c] += 1
        wanted = (p[fold, i] + p[fold + 2, i]) / 2
        np.testing.assert_allclose(np.exp(found.log_probabilities[i]), wanted, rtol=1e-5)
    assert found.scores.accuracy == pytest.approx((found.log_probabilities.argmax(-1) == labels.numpy()).mean())
    assert repr(found) == str(found.scores)
    assert found.labels.tolist() == labels.tolist()


def test_out_of_fold_scores_are_in_the_records(folded: Run) -> None:
    assert folded.result.evaluation is not None
    assert folded.result.evaluation.out_of_fold == folded.out_of_fold().scores
    assert folded.out_of_fold(ema=False).scores != folded.out_of_fold().scores


def test_label_quality_names_the_classes(folded: Run) -> None:
    quality, found = folded.label_quality(), folded.out_of_fold()
    assert quality.given.tolist() == [folded.task.classes[c] for c in found.labels]
    assert quality.suggested.tolist() == [folded.task.classes[c] for c in found.log_probabilities.argmax(-1)]
    assert quality.error_rate == pytest.approx(((1 - quality.right).sum() + 0.5) / 51)
    assert quality.index.tolist() == list(range(50))


def test_folds_that_cannot_be_say_why() -> None:
    run = train(perceptron(particles=1, folds="auto", steps=2))
    for ask in (run.out_of_fold, run.label_quality, run.posterior):
        with pytest.raises(ValueError, match=": a single particle would never learn the labels that it leaves out"):
            ask()


def test_a_run_without_folds_has_no_predictions_out_of_fold(run: Run) -> None:
    for ask in (run.out_of_fold, run.label_quality):
        with pytest.raises(ValueError, match="not divided into folds: train it with folds='auto'"):
            ask()
    assert run.result.evaluation is not None
    assert run.result.evaluation.out_of_fold is None
