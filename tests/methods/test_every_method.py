"""What holds for every method that learns from few labels, and for contrastive pretraining."""

import inspect
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import refprior as rp
from refprior.methods import Batch, Contrastive, Dash, Loss, Method, MixMatch, Mixup, Step
from refprior.methods._adaptive import Beliefs
from refprior.networks import MLP
from refprior.particles import Particles
from refprior.recipes.sweeps._sweep import few_label_methods
from refprior.training import train
from refprior.training.loop._begin import projected
from tests.training.interruption import assert_same_run, final_weights, interrupted_at
from tests.training.recipes import colors, perceptron
from tests.training.test_tokens import recipe as on_tokens

C, LABELED, UNLABELED = 3, 5, 6
NAMES = [*few_label_methods(), "Contrastive"]
every_method = pytest.mark.parametrize("name", NAMES)
REPULSIVE = ["DBAT", "DivDis"]  # pairs of particles are penalized for agreement
NOT_FOR_TOKENS = ["MixMatch", "Mixup", "VAT"]


def method_of(name: str) -> Method:
    """With its defaults, but for Dash a warm-up that short runs have."""
    return Dash(warmup=0.2, decay_every=0.2) if name == "Dash" else getattr(rp.methods, name)()


def perceptrons(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return MLP((1, 4, 4), C, hidden=8)


def normalized(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, C))


def copies(make: Callable[[int], nn.Module], method: Method, count: int, seed: int) -> Particles:
    """`count` times the same particle, under a projection head if the method wants that."""
    outputs = method.needs.projection
    return Particles(lambda: projected(make(seed), outputs) if outputs else make(seed), count).double()


def losses(method: Method, student: Particles, teacher: Particles) -> list[tuple[Tensor, list[Tensor]]]:
    """Losses and gradients of three steps, in which the weights stay and the method's memory moves on."""
    found, memory = [], dict[str, Tensor]()
    for number in range(3):
        generator = torch.Generator().manual_seed(number)
        batch = Batch(
            labeled=4 * torch.randn(LABELED, 1, 4, 4, generator=generator, dtype=torch.float64),
            labels=torch.arange(LABELED) % C,
            views={
                view: 4 * torch.randn(UNLABELED, 1, 4, 4, generator=generator, dtype=torch.float64)
                for view in method.needs.view_names
            },
            index=torch.randperm(8, generator=generator)[:UNLABELED],
        )
        step = Step(
            batch=batch,
            student=student,
            teacher=teacher,
            log_prior=student.log_prior,
            progress=0.3 + 0.3 * number,
            number=number,
            generator=generator,
            memory=memory,
            pool_size=8,
            classes=C,
            aside=student.aside,
            each=student.each,
            batch_teacher=partial(teacher.aside, as_in=student),
            ema=0.5,
        )
        total = method(step).total
        found.append((total.detach(), list(torch.autograd.grad(total, list(student.network.parameters())))))
    return found


@pytest.mark.parametrize("name", [name for name in NAMES if name not in REPULSIVE])
@pytest.mark.parametrize("make", [perceptrons, normalized])
def test_copies_of_a_particle_learn_what_it_learns_alone(name: str, make: Callable[[int], nn.Module]) -> None:
    """K = 3 times the same: the loss of K = 1, and a third of its gradient each."""
    method = method_of(name)
    one, three = (
        losses(method, copies(make, method, count, seed=1), copies(make, method, count, seed=2).eval())
        for count in (1, 3)
    )
    for (loss, slopes), (together, thirds) in zip(one, three, strict=True):
        torch.testing.assert_close(together, loss)
        for alone, third in zip(slopes, thirds, strict=True):
            torch.testing.assert_close(3 * third, alone.expand_as(third))
    assert any(slope.abs().max() > 1e-6 for slope in one[-1][1])


MEMORIES = {
    "AdaptiveReferencePrior": {"confidence": (), "pool": (2,)},
    "Dash": {"first_loss": (2,)},
    "FlexMatch": {"labels": (2, 32)},
    "FreeMatch": {"confidence": (2,), "marginal": (2, 2), "histogram": (2, 2)},
    "SoftMatch": {"center": (2,), "variance": (2,), "marginal": (2, 2)},
}


@every_method
def test_an_interrupted_run_ends_as_one_that_was_not(name: str, tmp_path: Path) -> None:
    """Bit for bit, with the method's memory in the checkpoint."""
    network = partial(MLP, (3, 8, 8), 2, hidden=6)
    recipe = perceptron(method=method_of(name), task=colors, network=network, steps=6, evaluate_every=3)
    train(recipe, tmp_path / "whole")
    interrupted_at(recipe, tmp_path / "run", [3])
    assert_same_run(tmp_path / "whole", tmp_path / "run")
    kept = {key: tensor for key, tensor in final_weights(tmp_path / "run").items() if key.startswith("memory")}
    shapes = {key.rpartition(".")[2].rpartition("/")[2]: tuple(tensor.shape) for key, tensor in kept.items()}
    assert shapes == MEMORIES.get(name, {})


def on_ids(name: str) -> Step:
    method = method_of(name)
    batch = Batch(
        labeled=torch.zeros(2, 7, dtype=torch.int64),
        labels=torch.arange(2),
        views={view: torch.zeros(3, 7, dtype=torch.int64) for view in method.needs.view_names},
    )
    particles = Particles(lambda: nn.Linear(7, 2), 2)
    return Step(batch=batch, student=particles, teacher=particles, log_prior=particles.log_prior, each=particles.each)


@pytest.mark.parametrize("name", NOT_FOR_TOKENS)
def test_token_ids_are_refused_in_words(name: str) -> None:
    verb = "perturbed" if name == "VAT" else "mixed"
    with pytest.raises(ValueError, match=rf"^{name} .*token ids cannot be {verb}: use FixMatch or ReferencePrior$"):
        method_of(name)(on_ids(name))


@pytest.mark.parametrize("name", [name for name in NAMES if name not in NOT_FOR_TOKENS])
def test_token_ids_are_learned_from_by_all_others(name: str) -> None:
    run = train(on_tokens(method=method_of(name), steps=3, particles=1))
    assert all(math.isfinite(value) for value in run.result.terms.values() if value is not None)
    assert run.result.loss is not None


def loss_function(name: str) -> Callable[..., Loss]:
    words = {"FixMatch": "fixmatch", "MeanTeacher": "mean_teacher", "ReferencePrior": "reference_prior"}
    words["AdaptiveReferencePrior"] = "adaptive_reference_prior"
    function: Callable[..., Loss] = getattr(rp.losses, words.get(name, name.lower()))
    return function


@every_method
def test_every_method_and_its_loss_are_public_with_the_same_defaults(name: str) -> None:
    function = loss_function(name)
    assert name in rp.methods.__all__
    assert function.__name__ in rp.losses.__all__
    settings = inspect.signature(function).parameters.get("settings")
    assert name == "Supervised" if settings is None else settings.default == getattr(rp.methods, name)()


K = 2


def impossible(seed: int, n: int) -> Tensor:
    """Logits of n inputs in which the last class is impossible, and for some inputs the second too."""
    logits = torch.randn(K, n, C, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    logits[..., 2] = -math.inf
    logits[:, ::2, 1] = -math.inf
    return logits.requires_grad_()


ARGUMENTS: dict[str, Callable[[], Any]] = {
    "y": lambda: torch.tensor([0, 1, 0, 1, 0]),
    "targets": lambda: torch.full((LABELED, C), 1 / 3, dtype=torch.float64),
    "guesses": lambda: torch.full((K, UNLABELED, C), 1 / 3, dtype=torch.float64),
    "thresholds": lambda: torch.full((K, C), 0.5, dtype=torch.float64),
    "limit": lambda: torch.tensor([0.7, 0.05], dtype=torch.float64),
    "beliefs": lambda: Beliefs(
        torch.full((K,), 0.4, dtype=torch.float64),
        torch.tensor([[0.6, 0.4, 0.0]] * K, dtype=torch.float64),
        torch.tensor([[0.7, 0.3, 0.0]] * K, dtype=torch.float64),
    ),
    "averages": lambda: (
        torch.tensor(0.4, dtype=torch.float64),
        torch.tensor([0.6, 0.4, 0.0], dtype=torch.float64),
    ),
    "weights": lambda: torch.ones(K, UNLABELED, dtype=torch.float64),
}


def given(name: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """What a loss function is called with, by name, and the logits that it depends on."""
    arguments: dict[str, Any] = {}
    logits: dict[str, Tensor] = {}
    for number, (key, parameter) in enumerate(inspect.signature(loss_function(name)).parameters.items()):
        if parameter.default is not inspect.Parameter.empty:
            continue
        if key in ARGUMENTS:
            arguments[key] = ARGUMENTS[key]()
        else:
            logits[key] = impossible(number, LABELED if key == "labeled" else UNLABELED)
            arguments[key] = logits[key].log_softmax(-1)
    return arguments, logits


@pytest.mark.parametrize("name", few_label_methods())
def test_impossible_classes_have_finite_losses_and_gradients(name: str) -> None:
    arguments, logits = given(name)
    total = loss_function(name)(**arguments).total
    assert total.isfinite()
    for gradient in torch.autograd.grad(total, list(logits.values()), allow_unused=True):
        assert gradient is None or gradient.isfinite().all()


@pytest.mark.parametrize("name", few_label_methods())
def test_no_gradient_goes_through_what_teaches(name: str) -> None:
    """Weak views, guesses, the teacher, and weights made of them."""
    arguments, logits = given(name)
    teaching = {key: tensor for key, tensor in logits.items() if key in ("weak", "teacher")}
    for key in ("guesses", "weights"):
        if key in arguments:
            teaching[key] = arguments[key] = arguments[key].requires_grad_()
    total = loss_function(name)(**arguments).total
    assert teaching or name in ("Supervised", "VAT", *REPULSIVE)
    for gradient in torch.autograd.grad(total, [logits["labeled"], *teaching.values()], allow_unused=True)[1:]:
        assert gradient is None or gradient.abs().max() == 0


def test_contrastive_needs_nothing_of_the_labels() -> None:
    assert [name for name in NAMES if not method_of(name).needs.labels] == ["Contrastive"]
    assert isinstance(method_of("Contrastive"), Contrastive)
    assert {type(method_of(name)) for name in NOT_FOR_TOKENS} >= {Mixup, MixMatch}
