"""The loop on the digits: it learns, repeats by seed, and gives methods all that they may look at."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from torch import Tensor

from refprior.losses import supervised
from refprior.methods import Loss, Needs, Step, Supervised
from refprior.training import Optimizer, train
from refprior.training.loop._loop import begin, optimize
from refprior.views import Unchanged
from tests.training.interruption import assert_same_run, final_weights, interrupted_at, stop
from tests.training.recipes import CPU, Own, perceptron


def test_records_come_every_ten_steps_and_at_evaluations() -> None:
    history = train(perceptron()).history
    assert [r.step for r in history] == [5, 10, 12]
    assert all(r.evaluation is not None for r in history)
    assert history[-1].steps == 12
    evaluation = history[-1].evaluation
    assert evaluation is not None
    assert evaluation.test is not None
    assert len(evaluation.test.ema.particle_accuracies) == len(evaluation.test.raw.particle_accuracies) == 2
    assert history[0].terms.keys() >= {"cross_entropy", "marginal_entropy", "conditional_entropy"}
    assert history[0].loss is not None
    assert history[0].learning_rate > 0


def test_between_evaluations_records_have_no_scores() -> None:
    history = train(perceptron(steps=21, evaluate_every=15)).history
    assert [r.step for r in history] == [10, 15, 20, 21]
    assert [r.evaluation is not None for r in history] == [False, True, False, True]


def test_supervised_learning_fits_its_labels() -> None:
    run = train(perceptron(method=Supervised(), steps=150, labeled_batch=50, evaluate_every=1000, weak=Unchanged()))
    loss, evaluation = run.result.terms["cross_entropy"], run.result.evaluation
    assert loss is not None
    assert evaluation is not None
    assert loss < 0.1
    assert evaluation.test is not None
    assert evaluation.test.raw.accuracy > 0.6


def test_bfloat16_trains_close_to_float32() -> None:
    full, half = (train(perceptron(precision=p)).result.loss for p in ("float32", "bfloat16"))
    assert half == pytest.approx(full, rel=0.05)
    assert half != full


def test_a_method_sees_student_teacher_progress_and_its_memory() -> None:
    seen = []

    class Watching:
        needs = Needs(views=("weak",))

        def __call__(self, step: Step) -> Loss:
            count = step.memory.get("count", torch.zeros(()))
            step.memory["count"] = count + 1
            teacher, student = step.teacher(step.batch.labeled), step.student(step.batch.labeled)
            assert not teacher.requires_grad
            assert student.requires_grad
            assert step.classes == 10
            assert step.independent
            seen.append((float(count), step.number, step.progress, step.generator is not None, step.pool_size))
            return Supervised()(step)

    recipe = perceptron(method=Watching(), steps=4)
    task = recipe.read_task()
    list(optimize(recipe, task, begin(recipe, task, CPU)))
    assert seen == [(0, 0, 0, True, 847), (1, 1, 0.25, True, 847), (2, 2, 0.5, True, 847), (3, 3, 0.75, True, 847)]


@pytest.mark.parametrize(("kind", "error"), [("sgd", 2e-6), ("adam", 2e-4)])  # Adam's epsilon sees the scale
@pytest.mark.parametrize("k", [0, 2])
def test_a_particle_learns_as_it_would_alone_whatever_its_weight(kind: str, error: float, k: int) -> None:
    """Five steps of the loop with weights 0.990, 0.002, 0.007: each particle moves as it does by itself."""
    optimizer = Optimizer(kind=kind, learning_rate=0.01, schedule="constant")  # type: ignore[arg-type]
    recipe = perceptron(method=Supervised(), particles=3, steps=5, optimizer=optimizer)
    task = recipe.read_task()
    together, alone = (begin(replace(recipe, particles=count), task, CPU) for count in (3, 1))
    with torch.no_grad():
        together.particles.prior_logits.copy_(torch.tensor([6.0, 0.0, 1.0]))
        for single, many in zip(
            alone.particles.network.parameters(), together.particles.network.parameters(), strict=True
        ):
            single.copy_(many[k : k + 1])
    start = [p.detach().clone() for p in alone.particles.network.parameters()]
    for state in (together, alone):
        list(optimize(replace(recipe, particles=state.particles.count), task, state))
    for single, many, before in zip(
        alone.particles.network.parameters(), together.particles.network.parameters(), start, strict=True
    ):
        torch.testing.assert_close(many[k], single[0], rtol=1e-4, atol=error)
        assert (single - before).abs().max() > 0.001


def test_a_loss_may_say_which_weights_it_averages_by() -> None:
    """A method of weights 0.9 and 0.1: its particles move as those of one with equal weights."""

    @dataclass(frozen=True)
    class Weighted:
        weights: tuple[float, float]
        needs: ClassVar[Needs] = Needs()

        def __call__(self, step: Step) -> Loss:
            weights = torch.tensor(self.weights)
            return supervised(step.student(step.batch.labeled), step.batch.labels, weights.log())._replace(
                weights=weights
            )

    one, other = (
        train(perceptron(method=Weighted(weights), steps=4, ema=0)).particles for weights in ((0.9, 0.1), (0.5, 0.5))
    )
    for uneven, even in zip(one.network.parameters(), other.network.parameters(), strict=True):
        torch.testing.assert_close(uneven, even, rtol=1e-4, atol=1e-6)


def test_parameters_are_those_of_the_student() -> None:
    shapes: list[dict[str, tuple[int, ...]]] = []

    class Decays:
        needs = Needs()

        def __call__(self, step: Step) -> Loss:
            shapes.append({name: tuple(tensor.shape) for name, tensor in step.parameters.items()})
            return Loss.of(Supervised()(step).total + sum(p.square().sum() for p in step.parameters.values()))

    train(perceptron(method=Decays(), steps=1))
    assert shapes == [{"1.weight": (2, 32, 64), "1.bias": (2, 32), "3.weight": (2, 10, 32), "3.bias": (2, 10)}]


def test_a_users_own_module_and_views() -> None:
    assert train(perceptron(network=Own, strong=lambda images, g: images ^ 1, steps=3)).result.step == 3


@dataclass(frozen=True)
class Prototypes:
    """A method that refprior does not know: it keeps a feature per image of the pool, and asks two weak views, mixed
    by chance, and a strong one to agree with what it remembers of them."""

    needs = Needs(views=("weak", "weak", "strong"))
    pull: float = 0.3

    def __call__(self, step: Step) -> Loss:
        views, index = step.batch.views, step.batch.index
        assert step.features is not None
        labeled, first, second, strong = step.predict(
            step.batch.labeled, views["weak"], views["weak_2"], views["strong"]
        )
        features = step.features(views["weak_2"])  # (K, n, F)
        bank = step.memory.setdefault("bank", torch.zeros(step.pool_size, *features.shape[::2]))  # (pool, K, F)
        seen = step.memory.setdefault("last step", torch.full((step.pool_size,), -1))
        mix = torch.rand(len(index), 1, generator=step.generator)
        target = (mix * first.exp() + (1 - mix) * second.exp()).detach()
        agreement = -(target * strong).sum(-1).mean()
        distance = (features - bank[index].transpose(0, 1)).square().mean()
        bank[index] = features.detach().transpose(0, 1)
        seen[index] = step.number
        fit = -labeled[:, torch.arange(len(step.batch.labels)), step.batch.labels].mean()
        return Loss.of(fit + agreement + self.pull * distance, fit=fit, agreement=agreement, distance=distance)


def test_a_method_of_the_users_own_trains_and_remembers() -> None:
    recipe = perceptron(method=Prototypes(), steps=20, evaluate_every=1)
    state = begin(recipe, recipe.read_task(), CPU)
    before = [p.clone() for p in state.particles.parameters()]
    records = [r for r in optimize(recipe, recipe.read_task(), state) if r is not None]
    assert records[-1].terms.keys() == {"fit", "agreement", "distance"}
    moved = [not p.equal(old) for p, old in zip(state.particles.parameters(), before, strict=True)]
    assert sum(moved) == 4  # all but the prior
    bank, seen = state.memory["bank"], state.memory["last step"]
    assert bank.shape == (847, 2, 32)
    assert int((seen >= 0).sum()) == 20 * 12  # the pool is drawn from without repetition
    assert set(seen.tolist()) == set(range(-1, 20))
    assert bank[seen >= 0].abs().sum((1, 2)).min() > 0
    assert not bank[seen < 0].any()


def test_a_method_of_the_users_own_goes_on_bit_for_bit(tmp_path: Path) -> None:
    recipe = perceptron(method=Prototypes(), evaluate_every=1)
    train(recipe, tmp_path / "whole")
    interrupted_at(recipe, tmp_path / "parts", [3, 4, 9])
    with pytest.raises(KeyboardInterrupt):
        train(recipe, tmp_path / "raised", watch=stop)
    train(recipe, tmp_path / "raised")
    for other in ("parts", "raised"):
        assert_same_run(tmp_path / "whole", tmp_path / other)
    assert {"memory.bank", "memory.last step"} <= final_weights(tmp_path / "parts").keys()


def test_what_a_method_remembers_twice_is_saved_twice(tmp_path: Path) -> None:
    """One tensor under two names, and a view of it: none of them is the other's in the checkpoint."""

    class Shares:
        needs = Needs()

        def __call__(self, step: Step) -> Loss:
            loss: Tensor = Supervised()(step).total
            kept = loss.detach().expand(4).clone()
            step.memory.update({"one": kept, "same": kept, "part": kept[1:3]})
            return Loss.of(loss)

    recipe = perceptron(method=Shares(), steps=4, evaluate_every=1)
    train(recipe, tmp_path / "whole")
    interrupted_at(recipe, tmp_path / "parts", [2])
    assert_same_run(tmp_path / "whole", tmp_path / "parts")
    saved = final_weights(tmp_path / "parts")
    assert saved["memory.one"].equal(saved["memory.same"])
    assert saved["memory.part"].shape == (2,)


def test_a_method_remembers_tensors_only() -> None:
    @dataclass(frozen=True)
    class Forgetful:
        needs: ClassVar[Needs] = Needs()

        def __call__(self, step: Step) -> Loss:
            step.memory["count"] = 3  # type: ignore[assignment]
            return Supervised()(step)

    with pytest.raises(ValueError, match=r"a method remembers tensors only: memory\['count'\] is a int"):
        train(perceptron(method=Forgetful(), steps=1))
