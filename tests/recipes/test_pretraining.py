"""A first stage without labels under a projection head, and the second stage on its body: SelfMatch."""

import contextlib
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

from refprior.cli import main
from refprior.methods import Contrastive, FixMatch, Method, Supervised
from refprior.networks import MLP, SmallCNN, WideResNet
from refprior.particles import Particles, output_layer
from refprior.recipes import cifar10_ssl, digits_ssl, fashion_ssl, mnist_ssl, named, pretrained
from refprior.report import rows, write_report
from refprior.training import Recipe, Stopped, load, train
from refprior.training.loop._begin import begin, new_particles, projected
from tests.training.interruption import assert_same_run, interrupted_at, signal_at
from tests.training.recipes import CPU, Own, colors, perceptron

FIRST = Contrastive(projection=8)


def self_match(**changes: object) -> Recipe:
    network = partial(MLP, (3, 8, 8), 2, hidden=6)
    second = perceptron(method=FixMatch(), task=colors, network=network, steps=4, evaluate_every=2)
    return replace(pretrained(second, method=FIRST, steps=4), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "make",
    [
        partial(MLP, (1, 8, 8), 10),
        partial(SmallCNN, (1, 8, 8), 10, width=4),
        partial(WideResNet, (3, 32, 32), 10, depth=10),
        Own,
    ],
    ids=["MLP", "SmallCNN", "WideResNet", "own"],
)
def test_a_projection_head_has_two_layers_and_takes_the_place_of_the_output_layer(
    make: partial[torch.nn.Module],
) -> None:
    plain, network = make(), projected(make(), outputs=7)
    name = output_layer(plain)
    features = plain.get_submodule(name).in_features
    head = network.get_submodule(name)
    assert [tuple(p.shape) for p in head.parameters()] == [(features, features), (features,), (7, features), (7,)]
    assert [type(layer).__name__ for layer in head.children()] == ["Linear", "ReLU", "Linear"]
    body = [n for n, _ in plain.named_parameters() if not n.startswith(f"{name}.")]
    assert [n for n, _ in network.named_parameters() if not n.startswith(f"{name}.")] == body


def test_the_body_goes_on_and_the_head_is_new() -> None:
    recipe = self_match()
    assert recipe.start is not None
    first = train(recipe.start)
    state = begin(recipe, recipe.read_task(), CPU, first.particles)
    old, new = first.particles.state_dict(), state.particles.state_dict()
    fresh = Particles(recipe.network, recipe.particles, seed=recipe.seed).state_dict()
    head = f"network.{output_layer(state.particles.network)}."
    assert {tuple(old[n].shape[1:]) for n in old if n.startswith(head)} == {(6, 6), (6,), (8, 6), (8,)}
    for name, tensor in new.items():
        assert tensor.equal(fresh[name] if name.startswith(head) else old[name])
    untrained = new_particles(recipe.start).state_dict()
    assert not new["network.1.weight"].equal(untrained["network.1.weight"])  # the first stage has taught the body


def test_both_stages_resume_bit_for_bit(tmp_path: Path) -> None:
    recipe = self_match()
    train(recipe, tmp_path / "whole")
    with pytest.raises(Stopped):
        train(recipe, tmp_path / "run", watch=signal_at(2))  # in the first stage
    interrupted_at(recipe, tmp_path / "run", [])
    assert_same_run(tmp_path / "whole", tmp_path / "run")
    assert_same_run(tmp_path / "whole" / "start", tmp_path / "run" / "start")
    with pytest.raises(Stopped):
        train(recipe, tmp_path / "second", watch=in_second_stage)
    assert load(tmp_path / "second").step == 2
    train(recipe, tmp_path / "second")
    assert_same_run(tmp_path / "whole", tmp_path / "second")


def in_second_stage(record: object) -> None:
    if "pseudo_label" in getattr(record, "terms", {}):
        signal_at(2)(record)  # type: ignore[arg-type]


def test_the_first_stage_alone_has_no_classes_and_says_so(tmp_path: Path) -> None:
    recipe = self_match()
    train(recipe, tmp_path / "run")
    first = load(tmp_path / "run" / "start", task=colors)
    assert first.particles.features(first.normalizer(first.task.unlabeled)).shape == (2, 32, 6)
    for ask in (
        lambda: first.predict(first.task.unlabeled),
        lambda: first.predict_proba(first.task.unlabeled),
        lambda: first.log_probabilities(first.task.unlabeled),
        lambda: first.uncertainty(first.task.unlabeled),
        first.evaluate,
        first.consensus,
        first.predictor,
    ):
        with pytest.raises(
            ValueError, match=r"^this run is a first stage without classes: train another on it with st"
        ):
            ask()
    assert all(record.evaluation is None or record.evaluation.test is None for record in first.history)
    assert {"contrastive", "agreement"} <= set(first.result.terms)
    assert len(load(tmp_path / "run", task=colors).predict(first.task.unlabeled)) == len(first.task.unlabeled)


def test_runs_with_a_first_stage_and_first_stages_alone_are_reported(tmp_path: Path) -> None:
    recipe = self_match()
    train(recipe, tmp_path / "run")
    assert recipe.start is not None
    train(recipe.start, tmp_path / "alone")
    groups = write_report([tmp_path], tmp_path / "report.html")
    table = {row[0]: dict(zip(rows(groups)[0], row, strict=True)) for row in rows(groups)[1:]}
    scores = {cells["ensemble, EMA %"] for cells in table.values()}
    assert len(groups) == 2  # the first stage of a run is a part of it
    assert "–" in scores  # and alone it has no accuracy
    assert len(scores) == 2
    assert "Contrastive" in (tmp_path / "report.html").read_text()


def test_contrastive_learning_brings_views_of_an_input_together() -> None:
    """Digits: after some steps far more views than before find their partner, one of 32."""
    run = train(perceptron(method=Contrastive(), steps=120, evaluate_every=1, unlabeled_batch=32, particles=1))
    agreement = [record.terms["agreement"] or 0.0 for record in run.history]
    first, last = (sum(part) / 20 for part in (agreement[:20], agreement[-20:]))
    assert last > 1.5 * first > 1.5 / 32


@pytest.mark.parametrize("method", [None, Supervised()])
def test_pretrained_puts_a_stage_before_a_recipe(method: Method | None) -> None:
    recipe = digits_ssl()
    second = pretrained(recipe, method=method, steps=7)
    assert second.start == replace(recipe, method=method or Contrastive(), steps=7)
    assert second == replace(recipe, start=second.start, head="new")
    start = pretrained(recipe).start
    assert start is not None
    assert start.steps == recipe.steps


@pytest.mark.parametrize("make", [digits_ssl, mnist_ssl, fashion_ssl, cifar10_ssl])
def test_recipes_of_images_take_pretraining(make: partial[Recipe]) -> None:
    assert make(pretraining="contrastive").to_dict() == pretrained(make()).to_dict()
    assert make(pretraining="none").to_dict() == make().to_dict()
    with pytest.raises(ValueError, match="pretraining must be 'none' or 'contrastive', got 'rotation'"):
        make(pretraining="rotation")


def test_self_match_by_name_reads_back() -> None:
    recipe = named("digits_ssl", {"method": "FixMatch", "pretraining": "contrastive"}, seed=3).recipe
    assert (recipe.method, recipe.seed) == (FixMatch(), 3)
    assert recipe.start is not None
    assert (recipe.start.method, recipe.start.seed) == (Contrastive(), 3)
    assert Recipe.from_dict(recipe.to_dict()).to_dict() == recipe.to_dict()


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    out, error = capsys.readouterr()
    assert (end.value.code, out, len(error.strip().splitlines())) == (2, "", 1)
    return error


def test_self_match_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = ["method=FixMatch", "pretraining=contrastive", "steps=3", "unlabeled_batch=8", "particles=1"]
    monkeypatch.chdir(tmp_path)
    with contextlib.suppress(SystemExit):
        main(["train", "digits_ssl", "--out", "run", "--set", *settings, "evaluate_every=3"])
    assert "FixMatch" in capsys.readouterr().out
    first, second = load(tmp_path / "run" / "start"), load(tmp_path / "run")
    assert (first.recipe.method, second.recipe.method, second.recipe.head) == (Contrastive(), FixMatch(), "new")
    assert (first.step, second.step) == (3, 3)
    assert second.result.evaluation is not None
    assert "this run is a first stage without classes: train another" in refused(["evaluate", "run/start"], capsys)


def test_other_pretraining_is_refused_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    mistake = refused(["train", "digits_ssl", "--set", "pretraining=rotation"], capsys)
    assert "pretraining must be one of 'none', 'contrastive', got 'rotation'" in mistake
