"""Folds: particles learn nothing from the labels that they leave out, whatever the method."""

import logging
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
import torch
from torch import Tensor

import refprior as rp
from refprior.data import Answered, Examples, Task
from refprior.labeling import Questions, continuation
from refprior.methods import Method, Supervised, Transfer
from refprior.recipes.sweeps._sweep import few_label_methods
from refprior.training import Recipe, train
from refprior.training.loop._begin import State, begin
from refprior.training.loop._draw import PreparedData
from refprior.training.loop._folds import assign_folds, held_out, label_weights, update_trust
from refprior.training.loop._loop import differentiate, draw, optimize
from refprior.views import Unchanged
from tests.training.recipes import CPU, DIGITS, convolutional, first_stage, perceptron, transferring

MIXING = ["MixMatch", "Mixup"]


def with_other_labels(task: Task, changed: Tensor) -> Task:
    """The labels of some inputs replaced by the next class."""
    labels = torch.where(changed, (task.labeled.labels + 1) % len(task.classes), task.labeled.labels)
    return replace(task, labeled=Examples(task.labeled.inputs, labels))


def gradients(recipe: Recipe, task: Task, state: State) -> list[Tensor]:
    """Gradients of a step by parameter, (K, ...) each; the state stays."""
    state = deepcopy(state)
    differentiate(recipe, task, draw(recipe, task, state), state)
    return [p.grad for p in state.particles.network.parameters() if p.grad is not None]


def test_the_labels_of_each_class_and_all_together_are_divided_evenly() -> None:
    assert assign_folds(torch.tensor([0, 0, 1, 0, 1, 2, 2]), 3).tolist() == [0, 1, 1, 2, 2, 2, 0]
    labels = torch.randint(0, 10, (203,), generator=torch.Generator().manual_seed(0))
    folds = assign_folds(labels, 4)
    for c in range(10):
        sizes = folds[labels == c].bincount(minlength=4)
        assert sizes.max() - sizes.min() <= 1
    assert assign_folds(torch.arange(10).repeat_interleave(5), 4).bincount().tolist() == [13, 13, 12, 12]
    assert assign_folds(labels[:0], 4).tolist() == []


def test_labels_that_are_appended_do_not_move_the_others() -> None:
    labels = torch.randint(0, 10, (203,), generator=torch.Generator().manual_seed(1))
    assert assign_folds(labels, 4)[:90].equal(assign_folds(labels[:90], 4))


def test_each_label_is_left_out_by_the_particles_of_its_fold() -> None:
    recipe = convolutional(particles=5, folds=3)
    out = held_out(recipe, recipe.read_task())
    assert out is not None
    folds = assign_folds(recipe.read_task().labeled.labels, 3)
    assert all(out[k].equal(folds == k % 3) for k in range(5))


def test_labels_of_a_fold_never_reach_the_particle_that_leaves_it_out() -> None:
    """After a whole run: particle 1 has the same bits, the others have not."""
    recipe = convolutional(method=Supervised(), folds=4)
    task = recipe.read_task()
    out = held_out(recipe, task)
    assert out is not None

    def trained(seen: Task) -> list[Tensor]:
        state = begin(recipe, task, CPU)
        list(optimize(recipe, seen, state))
        return [*state.particles.network.parameters(), *state.teacher.network.parameters()]

    one, other = trained(task), trained(with_other_labels(task, out[1]))
    assert all(a[1].equal(b[1]) for a, b in zip(one, other, strict=True))
    for k in (0, 2, 3):
        assert not any(a[k].equal(b[k]) for a, b in zip(one, other, strict=True))


def method_of(name: str) -> Method:
    return rp.methods.Dash(warmup=0.0, decay_every=0.2) if name == "Dash" else getattr(rp.methods, name)()


@pytest.mark.parametrize("name", [name for name in few_label_methods() if name not in MIXING])
def test_a_step_of_every_method_ignores_the_labels_of_the_fold(name: str) -> None:
    recipe = perceptron(method=method_of(name), particles=3, folds="auto", labeled_batch=50)
    check_step(recipe)
    task = recipe.read_task()
    unfolded = begin(replace(recipe, folds="off"), task, CPU)
    everything = torch.ones(len(task.labeled), dtype=torch.bool)
    one, other = (gradients(recipe, seen, unfolded) for seen in (task, with_other_labels(task, everything)))
    assert not any(a[0].equal(b[0]) for a, b in zip(one, other, strict=True))  # the labels matter without folds


def check_step(recipe: Recipe) -> None:
    task = recipe.read_task()
    state, out = begin(recipe, task, CPU), held_out(recipe, task)
    assert out is not None
    for k in range(recipe.particles):
        one, other = (gradients(recipe, seen, state) for seen in (task, with_other_labels(task, out[k])))
        assert all(a[k].equal(b[k]) for a, b in zip(one, other, strict=True))
        assert not any(a[k - 1].equal(b[k - 1]) for a, b in zip(one, other, strict=True))


def test_transfer_leaves_out_labels_of_the_target_and_learns_all_of_the_source() -> None:
    check_step(transferring(folds=3))
    recipe = transferring(method=Transfer(beta=0.5), folds=3)
    task = recipe.read_task()
    state, source = begin(recipe, task, CPU), task.source
    assert source is not None
    other = replace(task, source=Examples(source.inputs, (source.labels + 1) % 3))
    one, two = (gradients(recipe, seen, state) for seen in (task, other))
    for k in range(3):
        assert not any(a[k].equal(b[k]) for a, b in zip(one, two, strict=True))


@pytest.mark.parametrize("name", MIXING)
def test_methods_that_mix_labels_are_rejected(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} mixes labels before .* set folds=off"):
        train(perceptron(method=method_of(name), folds=2))


def test_the_gradient_is_that_of_the_mean_over_a_particles_own_labels() -> None:
    recipe = perceptron(
        method=Supervised(), particles=4, folds=4, labeled_batch=50, weak=Unchanged(), strong=Unchanged()
    )
    task = recipe.read_task()
    state, out = begin(recipe, task, CPU), held_out(recipe, task)
    assert out is not None
    sizes = out.sum(1)
    assert sizes.min() < sizes.max()  # so that K / (K - 1) would be wrong
    found = gradients(recipe, task, state)
    for k in range(4):
        own = replace(task, labeled=task.labeled[~out[k]])
        alone = replace(recipe, folds="off", labeled_batch=len(own.labeled))
        unfolded = replace(deepcopy(state), label_weights=None, sampler=begin(alone, own, CPU).sampler)
        wanted = gradients(alone, own, unfolded)
        for a, b in zip(found, wanted, strict=True):
            torch.testing.assert_close(a[k], b[k])


def test_weights_of_labels_average_to_one() -> None:
    recipe = convolutional(particles=4, folds=3)
    weights = label_weights(recipe, recipe.read_task())
    assert weights is not None
    torch.testing.assert_close(weights.mean(1), torch.ones(4))


def test_a_batch_says_which_labels_it_holds() -> None:
    recipe = perceptron(weak=Unchanged())
    task = recipe.read_task()
    state = begin(recipe, task, CPU)
    batch = draw(recipe, task, state, PreparedData.stored(task, lambda inputs: inputs))  # type: ignore[arg-type]
    assert len(batch.labeled_index) == recipe.labeled_batch
    assert batch.labeled.equal(task.labeled.inputs[batch.labeled_index])
    assert batch.labels.equal(task.labeled.labels[batch.labeled_index])


def one_label_of_a_class() -> Task:
    task = DIGITS()
    keep = torch.ones(50, dtype=torch.bool)
    keep[(task.labeled.labels == 7).nonzero()[1:, 0]] = False
    return replace(task, labeled=task.labeled[keep])


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: perceptron(particles=1), "a single particle"),
        (lambda: perceptron(task=one_label_of_a_class), "class '7' has one label"),
        (lambda: perceptron(method=rp.methods.InformationOnly()), "InformationOnly uses no labels"),
    ],
)
def test_auto_makes_no_folds_where_it_cannot_and_reports_why(
    make: Callable[[], Recipe], reason: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "refprior"):
        run = train(replace(make(), folds="auto", steps=2))
    assert f"folds=auto leaves folds off: {reason}" in caplog.text
    same = train(replace(make(), steps=2))
    assert all(a.equal(b) for a, b in zip(run.ema.parameters(), same.ema.parameters(), strict=True))


@pytest.mark.parametrize(
    ("method", "folds", "warned"),
    [
        (rp.ReferencePrior(alpha=0.4), "auto", True),
        (rp.ReferencePrior(alpha=0.4), "off", False),
        (rp.ReferencePrior(alpha=0.4, final_alpha=0.0), "auto", False),
        (rp.ReferencePrior(), "auto", False),
        (rp.methods.AdaptiveReferencePrior(final_alpha=0.4), "auto", True),
    ],
)
def test_scores_of_particles_that_are_rewarded_for_disagreement_are_doubted(
    method: Method, folds: Literal["off", "auto"], warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "refprior"):
        train(perceptron(method=method, folds=folds, steps=1))
    assert ("alpha=0.4 rewards particles that contradict labels of others" in caplog.text) == warned


def test_folds_that_cannot_be_are_rejected() -> None:
    for folds, words in {
        "some": "folds must be 'off', 'auto' or a whole number, got 'some'",
        1: "folds must be .* at least 2",
        3: "3 folds need at least 3 particles",
    }.items():
        with pytest.raises(ValueError, match=words):
            perceptron(folds=folds)
    with pytest.raises(ValueError, match="InformationOnly uses no labels to divide into folds"):
        perceptron(folds=2, method=rp.methods.InformationOnly())
    with pytest.raises(ValueError, match=r"cannot be divided into 2 folds: class '7' has one label.* set folds=off"):
        train(perceptron(folds=2, task=one_label_of_a_class))


def test_folds_are_a_setting_of_the_last_stage() -> None:
    found = rp.recipes.named("digits_ssl", {"folds": "auto"}).recipe
    assert found.folds == "auto"
    assert Recipe.from_json(found.to_json()).folds == "auto"
    assert rp.recipes.named("digits_ssl", {"folds": "4"}).recipe.folds == 4
    with pytest.raises(ValueError, match=r"folds must be one of 'off', 'auto' or a whole number, got 'on'"):
        rp.recipes.named("digits_ssl", {"folds": "on"})
    second = rp.recipes.override(convolutional(start=first_stage(particles=4)), {"folds": "auto"})
    assert second.start is not None
    assert (second.folds, second.start.folds) == ("auto", "off")


def test_a_stage_cannot_hold_out_labels_that_its_first_stage_has_learned() -> None:
    with pytest.raises(ValueError, match="same labels with folds='off', this one has folds='auto'"):
        convolutional(folds="auto", start=convolutional())
    assert convolutional(folds="auto", start=convolutional(folds="auto")).folds == "auto"


def test_a_continued_run_leaves_out_the_same_labels() -> None:
    run = train(perceptron(folds="auto", steps=2))
    recipe = continuation(run, Questions((0, 1, 2), (3, 5, 5)))
    more = train(recipe, first_stage=run)
    before, after = held_out(run.recipe, run.task), held_out(recipe, more.task)
    assert before is not None
    assert after is not None
    assert after[:, :50].equal(before)
    assert after.shape == (2, 53)
    with pytest.raises(ValueError, match="same labels"):
        replace(recipe, folds=2)


def test_a_corrected_label_starts_over_since_folds_follow_the_classes() -> None:
    run = train(perceptron(folds="auto", steps=2))
    y = int(run.task.labeled.labels[0])
    confirmed = Questions((1,), (3,), checked=((0, y),))
    assert continuation(run, confirmed).start is run.recipe
    more = train(continuation(run, confirmed), first_stage=run)
    corrected = Questions((2,), (4,), checked=((0, (y + 1) % 10),))
    for before in (run, more):  # the second stage of `more` has learned the labels of the first
        recipe = continuation(before, corrected)
        assert recipe.start is None
        assert train(recipe).task.labeled.labels[0] == (y + 1) % 10
    with pytest.raises(ValueError, match="no question has been answered and no label corrected yet"):
        continuation(run, Questions(checked=((0, y),)))


def test_a_run_without_folds_for_lack_of_labels_continues_without_them() -> None:
    """Its particles have learned all labels."""
    first = perceptron(task=one_label_of_a_class, folds="auto", steps=2)
    task = Answered(one_label_of_a_class, asked=(0,), answers=(7,))
    assert held_out(replace(first, task=task), task()) is not None
    assert held_out(replace(first, task=task, start=first), task()) is None


def test_trust_is_the_posterior_of_a_moving_average_and_a_step_of_expectation_maximization() -> None:
    before = {"likelihood": torch.tensor([0.5, 0.2, 0.9]), "error_rate": torch.tensor(0.25)}
    after, right = update_trust(before, torch.tensor([1, 0, 1]), torch.tensor([0.4, 1.0, 0.8]), 3)
    p = [0.9 * 0.5 + 0.1 * 1.0, 0.9 * 0.2 + 0.1 * 0.6, 0.9]  # the second was drawn twice, the third never
    torch.testing.assert_close(after["likelihood"], torch.tensor(p))
    r = [0.75 * x / (0.75 * x + 0.25 * (1 - x) / 2) for x in p]
    torch.testing.assert_close(right, torch.tensor(r))
    assert after["error_rate"].item() == pytest.approx((3 - sum(r) + 0.5) / 4)
    assert before["likelihood"].tolist() == torch.tensor([0.5, 0.2, 0.9]).tolist()


@pytest.mark.parametrize("make", [convolutional, transferring])
def test_a_step_weights_labels_by_the_predictions_of_particles_that_hold_them_out(make: Callable[..., Recipe]) -> None:
    recipe = make(folds=2, doubt_labels=True, labeled_batch=6, particles=2, weak=Unchanged())
    task = recipe.read_task()
    state, plain = begin(recipe, task, CPU), begin(replace(recipe, doubt_labels=False), task, CPU)
    state.step = recipe.steps // 3
    batch, same = (draw(recipe, task, found) for found in (state, plain))
    assert batch.labeled.equal(same.labeled)
    assert plain.label_weights is not None
    with torch.no_grad():
        p = state.particles(batch.labeled).exp()
    loss = differentiate(recipe, task, batch, state)
    wanted = torch.full((len(task.labeled),), 1 / len(task.classes))
    for place, (i, y) in enumerate(zip(batch.labeled_index, batch.labels, strict=True)):
        wanted[i] = 0.9 * wanted[i] + 0.1 * p[plain.label_weights[:, i].argmin(), place, y]
    assert state.trust is not None
    torch.testing.assert_close(state.trust["likelihood"], wanted)
    assert loss.terms["label_error_rate"] == state.trust["error_rate"]
    right = 0.9 * wanted / (0.9 * wanted + 0.1 * (1 - wanted) / (len(task.classes) - 1))
    plain.label_weights = plain.label_weights * (1 - 2 * state.step / recipe.steps * (1 - right))
    differentiate(replace(recipe, doubt_labels=False), task, same, plain)
    for one, other in zip(state.particles.parameters(), plain.particles.parameters(), strict=True):
        if one.grad is not None and other.grad is not None:
            torch.testing.assert_close(one.grad, other.grad)


def test_wrong_labels_lose_their_weight() -> None:
    recipe = perceptron(
        task=replace(DIGITS, labels=100, label_noise=0.2),
        method=Supervised(),
        folds="auto",
        doubt_labels=True,
        particles=4,
        steps=300,
        labeled_batch=50,
        optimizer=rp.Optimizer(kind="adam", learning_rate=0.01),
    )
    task = recipe.read_task()
    state = begin(recipe, task, CPU)
    list(optimize(recipe, task, state))
    assert state.trust is not None
    wrong = task.labeled.labels != replace(DIGITS, labels=100)().labeled.labels
    p = state.trust["likelihood"]
    assert p[wrong].mean() < 0.3 * p[~wrong].mean()


def test_doubt_needs_folds() -> None:
    with pytest.raises(ValueError, match="doubt_labels needs particles that hold labels out: set folds='auto' too"):
        perceptron(doubt_labels=True)
    recipe = perceptron(task=one_label_of_a_class, folds="auto", doubt_labels=True, steps=2)
    assert begin(recipe, recipe.read_task(), CPU).trust is None
    assert rp.recipes.named("digits_ssl", {"folds": "auto", "doubt_labels": "true"}).recipe.doubt_labels is True


def test_labeled_inputs_of_the_pool_are_not_drawn_with_folds() -> None:
    recipe = perceptron(particles=4, folds="auto")
    task = recipe.read_task()
    both = replace(task, unlabeled=torch.cat([task.labeled.inputs, task.unlabeled[:60]]), names=())
    known, recipe = len(task.labeled), replace(recipe, unlabeled_batch=32)

    def drawn(recipe: Recipe, task: Task) -> set[int]:
        state = begin(recipe, task, CPU)
        return {int(i) for _ in range(40) for i in draw(recipe, task, state).index.flatten()}

    assert drawn(recipe, both) == set(range(known, known + 60))
    assert min(drawn(replace(recipe, folds="off"), both)) < known
    assert drawn(recipe, replace(task, unlabeled=task.labeled.inputs, names=())) == set(range(known))
