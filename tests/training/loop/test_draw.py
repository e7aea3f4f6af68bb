"""Batches: streams, views and normalization; and the global generators, which a run leaves alone."""

# ruff: noqa: NPY002 (numpy's legacy generator is its global one)

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from refprior.data import PrincipalComponents, Standardize, Task
from refprior.methods import Batch, FixMatch, InformationOnly, Needs, ReferencePrior, Supervised
from refprior.training import Evaluation, Recipe, train
from refprior.training.loop import _draw
from refprior.training.loop._begin import State, begin
from refprior.training.loop._draw import (
    Stream,
    load_randomness,
    own_randomness,
    part_sizes,
    prepare_data,
    randomness_state,
)
from refprior.training.loop._evaluate import evaluate_all
from refprior.training.loop._loop import draw, optimize
from refprior.views import CTAugment, FlipCrop, Learning, Noise, RandAugment, Shift, Unchanged
from refprior.views._ctaugment import full_bank
from tests.training.interruption import assert_same_run, final_weights, interrupted_at
from tests.training.recipes import CPU, Wants, colors, convolutional, learning_view, pair, perceptron, transferring


def first_batch(recipe: Recipe) -> tuple[Batch, Task, State]:
    task = recipe.read_task()
    state = begin(recipe, task, CPU)
    return draw(recipe, task, state), task, state


def wanting(*views: str, labels: bool = True) -> Wants:
    return Wants(Needs(labels=labels, views=views))  # type: ignore[arg-type]


@pytest.mark.parametrize(("order", "images"), [(2, 12), (3, 12), (5, 10)])  # at order 5, two of 12 are left out
def test_batches_have_the_shapes_and_views_that_methods_expect(order: int, images: int) -> None:
    batch, _, _ = first_batch(perceptron(method=ReferencePrior(order=order)))
    assert batch.labeled.shape == (8, 1, 8, 8)
    assert batch.labels.shape == (8,)
    assert batch.views.keys() == {"weak", "strong"}
    assert batch.views["weak"].shape == batch.views["strong"].shape == (images, 1, 8, 8)
    assert batch.index.shape == (images,)
    assert not batch.views["weak"].equal(batch.views["strong"])


def test_a_batch_may_be_counted_in_tuples() -> None:
    batch, _, _ = first_batch(perceptron(unlabeled_unit="tuples", method=ReferencePrior(order=5)))
    assert batch.views["weak"].shape[0] == 12 * 5


def test_a_method_without_views_gets_no_unlabeled_images() -> None:
    batch, _, state = first_batch(perceptron(method=Supervised()))
    assert not batch.views
    assert batch.index.numel() == 0
    assert state.sampler.streams.keys() == {"labeled"}


@pytest.mark.parametrize("method", [InformationOnly(), wanting("weak", labels=False)], ids=lambda m: type(m).__name__)
def test_a_method_that_does_not_need_labels_draws_none(method: InformationOnly | Wants) -> None:
    batch, _, state = first_batch(perceptron(method=method))
    assert batch.labeled.shape[0] == batch.labels.shape[0] == 0
    assert len(batch.views["weak"]) == 12
    assert state.sampler.streams.keys() == {"unlabeled"}


def test_only_a_method_that_needs_a_source_draws_from_it() -> None:
    with_source, _, _ = first_batch(transferring())
    without, _, _ = first_batch(transferring(method=FixMatch()))
    assert with_source.source.shape == (8, 1, 8, 8)
    assert with_source.source_labels.shape == (8,)
    assert len(without.source) == len(without.source_labels) == 0


def test_the_parts_that_are_drawn_from() -> None:
    task = pair()()
    sizes = {"labeled": 6, "unlabeled": len(task.unlabeled), "source": 60}
    assert part_sizes(Needs(views=("weak",), source=True), task) == sizes
    assert part_sizes(Needs(), task) == {"labeled": 6}
    assert part_sizes(Needs(labels=False), task) == {}


def test_each_view_goes_where_it_belongs() -> None:
    recipe = perceptron(weak=lambda x, _: torch.full_like(x, 10), strong=lambda x, _: torch.full_like(x, 20))
    batch, _, state = first_batch(recipe)
    ten, twenty = (state.normalizer(torch.full((1, 1, 8, 8), v, dtype=torch.uint8)) for v in (10, 20))
    assert batch.labeled.eq(ten).all()
    assert batch.views["weak"].eq(ten).all()
    assert batch.views["strong"].eq(twenty).all()


def test_the_index_names_the_image() -> None:
    batch, task, state = first_batch(perceptron(weak=Unchanged()))
    torch.testing.assert_close(batch.views["weak"], state.normalizer(task.unlabeled[batch.index]))


def test_clean_views_are_the_images_themselves_after_normalization() -> None:
    batch, task, state = first_batch(perceptron(method=wanting("clean", "weak", "strong")))
    assert batch.views["clean"].equal(state.normalizer(task.unlabeled[batch.index]))
    assert not batch.views["weak"].equal(batch.views["clean"])


def test_several_views_of_a_kind_are_drawn_one_by_one() -> None:
    batch, _, _ = first_batch(perceptron(method=wanting("weak", "strong", "weak", "weak", "strong")))
    assert list(batch.views) == ["weak", "strong", "weak_2", "weak_3", "strong_2"]
    for one, other in (("weak", "weak_2"), ("weak_2", "weak_3"), ("strong", "strong_2")):
        assert batch.views[one].shape == batch.views[other].shape == (12, 1, 8, 8)
        assert not batch.views[one].equal(batch.views[other])


NORMALIZED: dict[str, Any] = {"weak": Unchanged(), "strong": Noise(0.5), "steps": 150}


@pytest.mark.parametrize("inputs", [Standardize(), PrincipalComponents(6, unit_length=True)], ids=str)
def test_inputs_that_no_view_needs_as_they_are_stored_are_normalized_once(
    inputs: Standardize | PrincipalComponents,
) -> None:
    recipe = perceptron(**NORMALIZED, inputs=inputs)
    task = recipe.read_task()
    normalizer = recipe.inputs.fit(task.training_inputs)
    ready = prepare_data(recipe, task, normalizer)
    assert ready.unlabeled.dtype == torch.float32
    assert ready.normalize(ready.unlabeled) is ready.unlabeled
    torch.testing.assert_close(ready.unlabeled, normalizer(task.unlabeled))
    torch.testing.assert_close(ready.labeled.inputs, normalizer(task.labeled.inputs))


def test_normalizing_once_changes_no_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = perceptron(**NORMALIZED)
    once = trained(recipe)
    monkeypatch.setattr(_draw, "available_memory", lambda: 0)
    each = trained(recipe)
    for one, other in zip(once.particles.parameters(), each.particles.parameters(), strict=True):
        assert one.equal(other)


@pytest.mark.parametrize("change", [{"weak": Shift()}, {"strong": CTAugment()}, {"steps": 2}], ids=str)
def test_inputs_stay_as_they_are_stored_where_a_view_needs_them_or_few_are_drawn(change: dict[str, Any]) -> None:
    recipe = perceptron(**{**NORMALIZED, **change})
    task = recipe.read_task()
    normalizer = recipe.inputs.fit(task.training_inputs)
    ready = prepare_data(recipe, task, normalizer)
    assert (ready.labeled, ready.normalize) == (task.labeled, normalizer)
    assert ready.unlabeled is task.unlabeled


def test_inputs_that_would_fill_the_memory_are_normalized_batch_by_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = perceptron(**NORMALIZED)
    task = recipe.read_task()
    normalizer = recipe.inputs.fit(task.training_inputs)
    needed = 4 * 64 * (len(task.labeled) + len(task.unlabeled))
    for free, fits in ((2 * needed, True), (2 * needed - 1, False)):
        monkeypatch.setattr(_draw, "available_memory", lambda free=free: free)
        assert (prepare_data(recipe, task, normalizer).unlabeled is not task.unlabeled) is fits


def test_a_run_normalized_once_goes_on_bit_for_bit(tmp_path: Path) -> None:
    recipe = perceptron(**NORMALIZED, inputs=PrincipalComponents(6), network=partial(nn.Linear, 6, 10))
    train(recipe, tmp_path / "whole")
    interrupted_at(recipe, tmp_path / "parts", [20, 70])
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


def test_views_that_are_not_needed_are_not_drawn() -> None:
    """A method that asks for one more view at the end gets the same views before it."""
    draws: Sequence[Batch] = [first_batch(perceptron(method=wanting(*views)))[0] for views in (["weak"], ["weak"] * 2)]
    assert draws[0].labeled.equal(draws[1].labeled)
    assert draws[0].views["weak"].equal(draws[1].views["weak"])


def trained(recipe: Recipe) -> State:
    state = begin(recipe, recipe.read_task(), CPU)
    list(optimize(recipe, recipe.read_task(), state))
    return state


def test_views_that_learn_are_told_from_those_that_do_not() -> None:
    assert isinstance(CTAugment(), Learning)
    assert not any(isinstance(view, Learning) for view in (Unchanged(), Shift(), RandAugment()))


def test_the_bank_moves_in_a_run_and_the_recipe_keeps_its_own() -> None:
    recipe = learning_view()
    strong = trained(recipe).sampler.strong
    assert isinstance(strong, CTAugment)
    assert int((strong.rates != full_bank()).sum()) > 20
    assert isinstance(recipe.strong, CTAugment)
    assert torch.equal(recipe.strong.rates, full_bank())


def test_rates_move_toward_the_probability_of_the_true_class() -> None:
    """A network that gives the classes the probabilities 0.3 and 0.7 whatever it sees."""

    class Constant(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.logits = nn.Parameter(torch.tensor([0.3, 0.7]).log())

        def forward(self, x: Tensor) -> Tensor:
            return self.logits.expand(len(x), 2)

    strong = CTAugment(weak=FlipCrop(pad=1), cutout=4, decay=0.0)  # a rate is the last probability
    _, _, state = first_batch(learning_view(network=Constant, strong=strong, particles=1))
    assert isinstance(state.sampler.strong, CTAugment)
    moved = state.sampler.strong.rates[state.sampler.strong.rates != full_bank()]
    assert {round(rate, 6) for rate in moved.tolist()} == {0.3, 0.7}


@dataclass
class Diary:
    """A view that changes nothing and writes down what it is asked and told."""

    asked: list[Tensor] = field(default_factory=list)
    told: list[tuple[str, Tensor]] = field(default_factory=list)
    draws: list[Tensor] = field(default_factory=list)

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        return images

    def probe(self, images: Tensor, generator: torch.Generator) -> tuple[Tensor, str]:
        self.asked.append(images)
        self.draws.append(generator.get_state())
        return 255 - images, f"policy {len(self.asked)}"

    def update(self, policy: str, proximity: Tensor) -> None:
        self.told.append((policy, proximity))


def normalized() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(192, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2))


def test_the_moving_average_predicts_the_probes_in_evaluation_mode() -> None:
    recipe = learning_view(network=normalized, weak=Unchanged(), strong=Diary())
    state = begin(recipe, colors(), CPU)
    for _ in zip(range(3), optimize(recipe, colors(), state), strict=False):
        pass
    diary = state.sampler.strong
    assert isinstance(diary, Diary)
    before = state.sampler.generator.get_state()
    batch = draw(recipe, colors(), state)
    assert diary.asked[-1].dtype == torch.uint8
    torch.testing.assert_close(state.normalizer(diary.asked[-1]), batch.labeled)
    assert torch.equal(diary.draws[-1], before)  # the views' generator
    probed = state.normalizer(255 - diary.asked[-1])
    alone = [state.teacher.particle(k).eval()(probed).softmax(-1) for k in range(2)]
    expected = torch.stack(alone).mean(0)[torch.arange(6), batch.labels]
    policy, proximity = diary.told[-1]
    assert policy == "policy 4"
    torch.testing.assert_close(proximity, expected)
    assert not proximity.requires_grad


@pytest.mark.parametrize("method", [Supervised(), wanting("strong", labels=False)], ids=["unlabeled", "labeled"])
def test_without_labeled_or_unlabeled_images_nothing_is_probed(method: Supervised | Wants) -> None:
    _, _, state = first_batch(learning_view(method=method, strong=Diary()))
    assert isinstance(state.sampler.strong, Diary)
    assert not state.sampler.strong.asked


def test_a_supervised_run_probes_nothing() -> None:
    diary = trained(learning_view(method=Supervised(), strong=Diary())).sampler.strong
    assert isinstance(diary, Diary)
    assert not diary.asked


def test_an_interrupted_run_equals_the_uninterrupted_one(tmp_path: Path) -> None:
    recipe = learning_view()
    train(recipe, tmp_path / "whole")
    interrupted_at(recipe, tmp_path / "parts", [2, 5, 8])
    assert_same_run(tmp_path / "whole", tmp_path / "parts")
    rates = final_weights(tmp_path / "parts")["strong.rates"]
    strong = trained(replace(recipe)).sampler.strong
    assert isinstance(strong, CTAugment)
    assert torch.equal(rates, strong.state_dict()["rates"])
    assert not torch.equal(rates, full_bank())


def stream(size: int, seed: int = 0, copies: int = 1) -> Stream:
    return Stream(size, torch.Generator().manual_seed(seed), copies)


@given(size=st.integers(1, 50), tuples=st.integers(1, 40), order=st.integers(1, 7), steps=st.integers(1, 6))
@settings(max_examples=100, deadline=None)
def test_every_pass_is_a_permutation(size: int, tuples: int, order: int, steps: int) -> None:
    drawn = stream(size)
    batches = [drawn.take(tuples, order) for _ in range(steps)]
    assert all(b.shape == (tuples, order) for b in batches)
    everything = torch.cat([b.flatten() for b in batches])
    for one_pass in everything.split(size):
        assert len(one_pass.unique()) == len(one_pass)
        assert 0 <= int(one_pass.min()) <= int(one_pass.max()) < size


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_the_orders_of_the_paper_with_a_batch_that_they_do_not_divide(order: int) -> None:
    assert stream(1000).take(448, order).shape == (448, order)


def test_the_indices_do_not_depend_on_how_they_are_taken() -> None:
    first, second = stream(10), stream(10)
    one = torch.cat([first.take(3).flatten() for _ in range(8)])
    assert torch.equal(one, second.take(12, 2).flatten())


def test_a_restored_stream_goes_on_where_it_was() -> None:
    drawn = stream(11)
    drawn.take(4, 3)
    state = drawn.state_dict()
    expected = [drawn.take(5, 2) for _ in range(4)]
    other = stream(11, seed=9)
    other.take(7)
    other.load_state_dict(state)
    assert all(torch.equal(other.take(5, 2), e) for e in expected)


def test_a_saved_state_is_a_copy() -> None:
    drawn = stream(11)
    drawn.take(4)
    state = drawn.state_dict()
    before = state["waiting"].clone()
    drawn.take(40)
    assert torch.equal(state["waiting"], before)


def test_a_state_of_another_pool_is_rejected() -> None:
    drawn = stream(100)
    drawn.take(1)
    with pytest.raises(ValueError, match="this pool has 50"):
        stream(50).load_state_dict(drawn.state_dict())


def test_an_empty_pool_is_rejected() -> None:
    with pytest.raises(ValueError, match="empty pool"):
        stream(0)


@pytest.mark.parametrize("copies", [1, 3, 1311])
def test_copies_are_shuffled_together(copies: int) -> None:
    drawn = stream(50, copies=copies)
    one_pass = drawn.take(50 * copies)
    assert torch.bincount(one_pass, minlength=50).tolist() == [copies] * 50
    other = stream(50, seed=1, copies=copies)
    other.take(7)
    other.load_state_dict(drawn.state_dict())
    assert torch.equal(other.take(64), drawn.take(64))


def test_many_copies_repeat_within_a_batch_as_draws_with_replacement_do() -> None:
    """64 of 50 labels: the authors' batches hold 36.3 different ones, 50 (1 - (49/50)^64)."""

    def different(copies: int) -> float:
        drawn = stream(50, copies=copies)
        return sum(len(drawn.take(64).unique()) for _ in range(1000)) / 1000

    assert different(1311) == pytest.approx(50 * (1 - 0.98**64), abs=0.3)
    assert different(1) > 45


def numbers() -> tuple[float, float, float, float, float]:
    return random.random(), random.gauss(), float(np.random.rand()), float(np.random.randn()), float(torch.rand(()))


def test_every_generator_goes_on_where_it_was() -> None:
    numbers()  # the second of each pair of normal numbers is remembered
    state = randomness_state(CPU)
    first = [numbers() for _ in range(3)]
    load_randomness(state, CPU)
    assert [numbers() for _ in range(3)] == first


def test_a_run_gives_the_generators_back_and_repeats_itself() -> None:
    before = randomness_state(CPU)
    with own_randomness(5, CPU):
        first = numbers()
    assert all(tensor.equal(before[name]) for name, tensor in randomness_state(CPU).items())
    with own_randomness(5, CPU):
        assert numbers() == first
    with own_randomness(6, CPU):
        assert numbers() != first


def noisy(images: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """A view that draws from everything but the generator that it is given."""
    noise = random.random() + random.gauss() + float(np.random.rand() + np.random.randn()) + float(torch.rand(()))
    return (images.float() + 5 * noise).clamp(0, 255).to(images.dtype)


def test_a_view_that_draws_from_the_global_generators_resumes_bit_for_bit(tmp_path: Path) -> None:
    recipe = convolutional(weak=noisy, strong=noisy, evaluate_every=1)
    train(recipe, tmp_path / "whole")
    random.seed(77)
    interrupted_at(recipe, tmp_path / "stopped", [2, 5])
    assert_same_run(tmp_path / "whole", tmp_path / "stopped")


def test_what_draws_while_data_are_read_or_scores_are_made_does_not_change_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package that is imported at that moment may draw, in one process and not in the next."""
    train(perceptron(), tmp_path / "one")
    read = Recipe.read_task

    def reading(recipe: Recipe) -> Task:
        random.random()
        return read(recipe)

    def evaluating(*arguments: Any, **options: Any) -> Evaluation:
        random.random()
        np.random.random()
        return evaluate_all(*arguments, **options)

    monkeypatch.setattr(Recipe, "read_task", reading)
    monkeypatch.setattr("refprior.training.loop._loop.evaluate_all", evaluating)
    train(perceptron(), tmp_path / "two")
    assert_same_run(tmp_path / "one", tmp_path / "two")
