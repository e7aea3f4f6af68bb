"""The loop on the digits: it learns, repeats by seed, and refuses what cannot work before it starts."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from refprior.data import digits, task_from_arrays
from refprior.methods import ReferencePrior, Step, Supervised
from refprior.networks import MLP
from refprior.particles import Particles
from refprior.training import Recipe, train
from refprior.training._loop import begin, draw, log_probabilities, optimise
from refprior.views import Distort, Shift

CPU = torch.device("cpu")
BASE = Recipe(
    task=partial(digits, labels=5),
    network=partial(MLP, (1, 8, 8), 10),
    method=ReferencePrior(),
    particles=2,
    steps=12,
    labelled=8,
    unlabelled=12,
    weak=Shift(),
    strong=Distort(),
    ema=0.9,
    evaluate_every=5,
)


def test_records_come_every_ten_steps_and_at_evaluations() -> None:
    history = train(BASE).history
    assert [r["step"] for r in history] == [5, 10, 12]
    assert all("test" in r for r in history)
    assert history[-1]["epoch"] == 12 / 1024
    assert set(history[-1]["test"]) == {"raw", "ema"}
    assert len(history[-1]["test"]["ema"]["particles"]) == 2
    assert history[0].keys() >= {"loss", "cross_entropy", "marginal_entropy", "conditional_entropy", "learning_rate"}


def test_the_same_seed_gives_the_same_bits_and_another_does_not() -> None:
    first, again, other = (train(replace(BASE, seed=s)) for s in (0, 0, 1))
    for name, tensor in first.ema.state_dict().items():
        assert tensor.equal(again.ema.state_dict()[name])
    assert not first.ema.network.get_parameter("1.weight").equal(other.ema.network.get_parameter("1.weight"))


def test_batches_have_the_shapes_and_views_that_methods_expect() -> None:
    task = BASE.task()
    for order, tuples in ((2, 6), (3, 4), (5, 2)):  # 12 images; at order 5, two are left out
        recipe = replace(BASE, method=ReferencePrior(order=order))
        batch = draw(recipe, task, begin(recipe, task, CPU))
        assert batch.x.shape == (8, 1, 8, 8)
        assert batch.weak.shape == batch.strong.shape == (tuples, order, 1, 8, 8)
        assert batch.index.shape == (tuples, order)
        assert not batch.weak.equal(batch.strong)
    counted = replace(BASE, unlabelled_unit="tuples", method=ReferencePrior(order=5))
    assert draw(counted, task, begin(counted, task, CPU)).weak.shape[:2] == (12, 5)
    alone = replace(BASE, method=Supervised())
    assert draw(alone, task, begin(alone, task, CPU)).weak.numel() == 0


def test_each_view_goes_where_it_belongs() -> None:
    task = BASE.task()
    recipe = replace(BASE, weak=lambda x, _: torch.full_like(x, 10), strong=lambda x, _: torch.full_like(x, 20))
    batch = draw(recipe, task, begin(recipe, task, CPU))
    ten, twenty = (task.normalise(torch.full((1, 1, 8, 8), v, dtype=torch.uint8)) for v in (10, 20))
    assert batch.x.eq(ten).all()
    assert batch.weak.eq(ten).all()
    assert batch.strong.eq(twenty).all()


def test_evaluation_is_in_evaluation_mode_and_leaves_the_mode_alone() -> None:
    def make() -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64), nn.Dropout(0.5), nn.Linear(64, 10))

    task, particles = BASE.task(), Particles(make, 2)
    images = task.test.images[:9]
    particles(task.normalise(images))  # moves the statistics
    alone = [particles.particle(k).eval()(task.normalise(images)).log_softmax(-1) for k in range(2)]
    torch.testing.assert_close(log_probabilities(particles, task, images, batch=4), torch.stack(alone))
    assert particles.training


def test_the_index_names_the_image() -> None:
    recipe = replace(BASE, weak=lambda images, _: images)
    task = recipe.task()
    batch = draw(recipe, task, begin(recipe, task, CPU))
    torch.testing.assert_close(batch.weak.flatten(0, 1), task.normalise(task.unlabelled[batch.index.flatten()]))


def test_supervised_learning_fits_its_labels() -> None:
    recipe = replace(BASE, method=Supervised(), steps=150, labelled=50, evaluate_every=1000, weak=lambda x, _: x)
    run = train(recipe)
    assert run.result["cross_entropy"] < 0.1
    assert run.result["test"]["raw"]["accuracy"] > 0.6


def test_bfloat16_trains_close_to_float32() -> None:
    full, half = (train(replace(BASE, precision=p)).result["loss"] for p in ("float32", "bfloat16"))
    assert half == pytest.approx(full, rel=0.05)
    assert half != full


def test_a_stage_begins_with_the_weights_of_the_one_before() -> None:
    first = replace(BASE, method=Supervised())
    still = replace(BASE.optimiser, learning_rate=1e-12, decay=0.0)
    second = train(replace(BASE, steps=1, optimiser=still, start=first))
    expected = train(first).particles.state_dict()
    for name, tensor in second.particles.state_dict().items():
        torch.testing.assert_close(tensor, expected[name])


def test_a_method_sees_student_teacher_progress_and_its_memory() -> None:
    seen = []

    class Watching:
        order = 1

        def __call__(self, step: Step):  # type: ignore[no-untyped-def]
            count = step.memory.get("count", torch.zeros(()))
            step.memory["count"] = count + 1
            teacher = step.teacher(step.batch.x)
            assert not teacher.requires_grad
            seen.append((float(count), step.progress, step.generator is not None))
            return Supervised()(step)

    recipe = replace(BASE, method=Watching(), steps=4)
    list(optimise(recipe, recipe.task(), begin(recipe, recipe.task(), CPU)))
    assert seen == [(0, 0, True), (1, 0.25, True), (2, 0.5, True), (3, 0.75, True)]


def test_what_cannot_work_is_refused_before_training() -> None:
    wrong = replace(BASE, network=partial(MLP, (1, 8, 8), 7))
    with pytest.raises(ValueError, match="network gives 7 outputs, task 'digits' has 10 classes"):
        train(wrong)
    images, labels = np.zeros((4, 1, 8, 8), np.uint8), np.array([0, 1, 0, 1])
    empty = partial(task_from_arrays, (images, labels), images[:0], (images, labels))
    with pytest.raises(ValueError, match="ReferencePrior needs unlabelled images"):
        train(replace(BASE, task=empty, network=partial(MLP, (1, 8, 8), 2)))


@pytest.mark.parametrize(
    ("view", "made"),
    [
        (lambda images, _: images[:, :, :6], r"\(2, 1, 6, 8\)"),
        (lambda images, _: images[:1], r"\(1, 1, 8, 8\)"),
        (lambda images, _: None, "NoneType"),
    ],
)
@pytest.mark.parametrize("name", ["weak", "strong"])
def test_a_view_that_does_not_keep_the_images_is_refused(name: str, view: object, made: str) -> None:
    with pytest.raises(ValueError, match=rf"the {name} view makes {made} of \(2, 1, 8, 8\)"):
        train(replace(BASE, **{name: view}))  # type: ignore[arg-type]


def test_a_pool_smaller_than_a_batch_is_refused() -> None:
    with pytest.raises(ValueError, match="a step takes 1000 unlabelled images, task 'digits' has 847"):
        train(replace(BASE, unlabelled=1000))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"particles": 0}, "particles must be a whole number of at least 1, got 0"),
        ({"steps": 2.5}, "steps must be a whole number of at least 1, got 2.5"),
        ({"skip_not_finite": -4}, "skip_not_finite must be a whole number of at least 0, got -4"),
        ({"seed": -5}, r"seed must be a whole number of 0 … 4294967295, got -5"),
        ({"task": BASE.task()}, "task must be a function"),
        ({"ema": 1.0}, r"ema must lie in \[0, 1\), got 1.0"),
        ({"method": ReferencePrior(order=13)}, "order 13 does not fit 12 unlabelled images"),
        ({"precision": "float16"}, "precision must be"),
        ({"optimiser": replace(BASE.optimiser, warmup=12)}, "12 steps of warm-up do not fit a run of 12 steps"),
        ({"start": replace(BASE, particles=3)}, "the first stage has 3 particles, this one 2"),
        ({"unlabelled_unit": "pairs"}, "unlabelled_unit must be"),
    ],
)
def test_a_bad_recipe_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(BASE, **changes)  # type: ignore[arg-type]


def test_a_users_own_module_and_views() -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(64, 10)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(self.layer(x.flatten(1)))

    noisy = replace(BASE, network=Own, strong=lambda images, g: images ^ 1, steps=3)
    assert train(noisy).result["step"] == 3
