"""The loop: losses fall, precision is chosen once, and numbers that are not finite are found."""

import math
import signal
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from refprior.losses import supervised
from refprior.methods import Loss, Needs, Step, Supervised
from refprior.training import NotFiniteError, Optimizer, Stopped, train
from refprior.training.loop import _loop
from refprior.training.loop._begin import begin
from refprior.training.loop._evaluate import evaluate_all
from refprior.training.loop._loop import (
    Trouble,
    all_finite,
    differentiate,
    draw,
    faster_precision,
    find_bad_scores,
    find_trouble,
    has_bf16,
    optimize,
)
from refprior.training.store._checkpoint import checkpoint_steps, read_checkpoint
from refprior.views import Unchanged
from tests.training.interruption import assert_same_run, final_weights, interrupted_at, signal_at, stop
from tests.training.recipes import CPU, Own, convolutional, perceptron


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


def pretend(monkeypatch: pytest.MonkeyPatch, single: float, half: float, has: bool = True) -> None:
    """A machine that takes so long with each."""
    monkeypatch.setattr(_loop, "has_bf16", lambda device: has)
    monkeypatch.setattr(_loop, "_seconds", lambda particles, x, fast: half if fast else single)


@pytest.mark.parametrize(
    ("single", "half", "has", "expected"),
    [
        (1.0, 0.6, True, "bfloat16"),
        (1.0, 0.95, True, "float32"),  # not worth its digits
        (1.0, 8.8, True, "float32"),
        (1.0, 0.1, False, "float32"),
    ],
)
def test_the_faster_one_is_taken(
    single: float, half: float, has: bool, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, single, half, has)
    found, asked = (train(perceptron(precision=p)).result.loss for p in ("auto", expected))
    assert found == asked


def test_timing_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Statistics of batch norm, gradients and generators stay as they were, and a real clock gives an answer."""
    monkeypatch.setattr(_loop, "has_bf16", lambda device: True)
    recipe = convolutional()
    task = recipe.read_task()
    state = begin(recipe, task, CPU)
    before = {name: tensor.clone() for name, tensor in state.particles.state_dict().items()}
    drawn = torch.get_rng_state()
    batch = draw(recipe, task, state)
    assert faster_precision(state.particles.train(), batch.labeled) in ("float32", "bfloat16")
    torch.testing.assert_close(state.particles.state_dict(), before, rtol=0, atol=0)
    assert all(p.grad is None for p in state.particles.parameters())
    assert torch.equal(torch.get_rng_state(), drawn)


def test_a_run_keeps_its_precision_on_a_machine_that_would_choose_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = perceptron(precision="auto")
    pretend(monkeypatch, 1.0, 0.5)
    train(recipe, tmp_path / "whole")
    with pytest.raises(Stopped):
        train(recipe, tmp_path / "cut", watch=signal_at(5, signal.SIGTERM))
    pretend(monkeypatch, 1.0, 8.8, has=False)
    train(recipe, tmp_path / "cut")
    assert_same_run(tmp_path / "whole", tmp_path / "cut")
    single = train(recipe, tmp_path / "single")
    assert single.result.loss == train(perceptron(precision="float32")).result.loss


def test_it_is_decided_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def has_none(device: torch.device) -> bool:
        asked.append(device)
        return False

    monkeypatch.setattr(_loop, "has_bf16", has_none)
    recipe = perceptron(precision="auto")
    task = recipe.read_task()
    state = begin(recipe, task, CPU)
    for _ in range(3):
        differentiate(recipe, task, draw(recipe, task, state), state)
    assert len(asked) == 1


def test_what_has_no_instructions_for_it_is_not_timed() -> None:
    assert not has_bf16(torch.device("meta"))


RECIPE = convolutional(steps=8)
TASK = RECIPE.read_task()


@dataclass(frozen=True)
class Breaks:
    """A loss of two terms whose second breaks at some steps, for one particle or for all."""

    at: tuple[int, ...]
    particle: int | None = None
    gradient_only: bool = False
    needs: ClassVar[Needs] = Needs()

    def __call__(self, step: Step) -> Loss:
        (log_p,) = step.predict(step.batch.labeled)
        values = log_p.square().mean((1, 2))  # (K,)
        broken = torch.zeros_like(values)
        if step.number + 1 in self.at:
            where = slice(None) if self.particle is None else slice(self.particle, self.particle + 1)
            if self.gradient_only:
                chosen = log_p[where].square().mean((1, 2))
                broken[where] = (chosen - chosen.detach()).square().sqrt()  # 0, with gradient 0 / 0
            else:
                broken[where] = math.inf
        return Loss((values + broken).sum(), {"fine": values.sum().detach(), "broken": broken.sum().detach()})


def test_the_step_and_the_term_are_named_and_the_last_good_checkpoint_stays(tmp_path: Path) -> None:
    with pytest.raises(NotFiniteError, match=r"step 5: term broken is not finite.*lower the .*trouble-step-00000005"):
        train(replace(RECIPE, method=Breaks((5,))), tmp_path / "run", save_every=0.0)
    assert checkpoint_steps(tmp_path / "run")[0] == 4
    batch = load_file(tmp_path / "run" / "trouble-step-00000005.safetensors")
    assert batch["labeled"].shape == (10, 1, 8, 8)
    assert batch["labels"].shape == (10,)


def test_the_particle_is_named() -> None:
    with pytest.raises(NotFiniteError, match="step 3: the gradient is not finite, particle 2:"):
        train(replace(RECIPE, method=Breaks((3,), particle=2, gradient_only=True)))


def test_a_particle_with_bad_weights_is_named() -> None:
    state = begin(RECIPE, TASK, CPU)
    with torch.no_grad():
        next(state.particles.network.parameters())[1] = math.nan
    with pytest.raises(NotFiniteError, match=r"particle 1: lower the learning rate$"):
        list(optimize(RECIPE, TASK, state))


def test_a_skipped_step_leaves_batch_norm_and_memory_as_they_were() -> None:
    class Norm(torch.nn.Sequential):
        def __init__(self) -> None:
            nn = torch.nn
            super().__init__(nn.Flatten(), nn.BatchNorm1d(64), nn.Linear(64, 10))

    calls = []

    def breaking(images: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        calls.append(1)
        return torch.full(images.shape, math.nan) if len(calls) == 4 else images

    recipe = replace(RECIPE, network=Norm, weak=breaking, strong=breaking, skip_not_finite=1)
    run = train(recipe)
    assert run.result.skipped == 1
    assert all(buffer.isfinite().all() for buffer in run.ema.buffers())
    assert run.result.evaluation is not None
    assert run.result.evaluation.test is not None
    assert math.isfinite(run.result.evaluation.test.ema.negative_log_likelihood)


def test_the_priors_gradient_is_looked_at_and_a_large_one_is_finite() -> None:
    state = begin(RECIPE, TASK, CPU)
    batch = draw(RECIPE, TASK, state)
    loss = differentiate(RECIPE, TASK, batch, state)
    parameter = next(state.particles.network.parameters())
    parameter.grad = torch.full_like(parameter, 1e30)  # its sum of squares overflows
    assert find_trouble(state.particles, batch, loss, 1) is None
    state.particles.prior_logits.grad = torch.full((4,), math.nan)
    trouble = find_trouble(state.particles, batch, loss, 1)
    assert trouble is not None
    assert trouble.particles == [0, 1, 2, 3]


def test_skipped_steps_change_no_weights_and_are_bounded(tmp_path: Path) -> None:
    recipe = replace(RECIPE, method=Breaks((3, 5)), skip_not_finite=2)
    run = train(recipe, tmp_path / "run")
    assert run.result.skipped == 2
    found = [r.evaluation.test for r in run.history if r.evaluation is not None]
    weights = [part.raw.negative_log_likelihood for part in found if part is not None]
    assert weights[2] == weights[1]
    assert weights[3] != weights[2]
    assert run.history[2].loss is None
    with pytest.raises(NotFiniteError, match="step 5"):
        train(replace(recipe, skip_not_finite=1))


@pytest.mark.parametrize("rate", [1e4, 1e12, 3e38])
def test_a_learning_rate_that_is_too_high_is_named_and_the_last_good_weights_stay(tmp_path: Path, rate: float) -> None:
    """Whatever it does to losses, weights or scores: the run ends in one line, and what was saved is finite."""
    recipe = convolutional(steps=40, optimizer=replace(RECIPE.optimizer, learning_rate=rate))
    with pytest.raises(NotFiniteError, match=r"\Astep \d+: [^\n]* not finite, [^\n]*: lower the learning rate; the"):
        train(recipe, tmp_path / "run", save_every=0.0)
    assert len(list((tmp_path / "run").glob("trouble-step-*.safetensors"))) == 1
    saved = read_checkpoint(tmp_path / "run", checkpoint_steps(tmp_path / "run")[0]).tensors
    assert all(tensor.isfinite().all() for name, tensor in saved.items() if name.startswith(("particles", "teacher")))


def test_weights_that_are_not_finite_after_the_last_update_are_noticed() -> None:
    recipe = convolutional(steps=1, optimizer=replace(RECIPE.optimizer, learning_rate=3e38))
    with pytest.raises(NotFiniteError, match=r"step 1: the weights after it are not finite, particle 0, 1, 2, 3"):
        train(recipe)


def test_finite_weights_with_predictions_that_are_not_are_noticed() -> None:
    state = begin(RECIPE, TASK, CPU)
    batch = draw(RECIPE, TASK, state)
    with torch.no_grad():
        for parameter in state.particles.network.parameters():
            parameter[2] = 1e30
    found = evaluate_all(RECIPE, TASK, state.normalizer, raw=state.particles, ema=state.teacher)
    trouble = find_bad_scores(found, state.particles, batch, 7)
    assert trouble is not None
    assert (
        str(trouble)
        == "step 7: the loss on the test and validation part is not finite, particle 2: lower the learning rate"
    )
    assert "step 7: the loss on the test and validation part is not finite, particle 2: lower" in str(trouble)


def test_a_sum_that_overflows_is_no_trouble() -> None:
    assert all_finite([torch.full((9,), 3e38)])
    assert not all_finite([torch.tensor([math.inf, -math.inf])])
    assert not all_finite([torch.ones(3), torch.tensor([1.0, math.nan])])


def test_only_the_first_particles_are_named() -> None:
    batch = draw(RECIPE, TASK, begin(RECIPE, TASK, CPU))
    assert "particle 0, 1, 2, 3, 4 and 95 more" in str(Trouble(1, "the gradient is", list(range(100)), batch))
