"""Every tensor of a step follows the module's device and dtype: nothing may be made on the CPU by accident.

These machines may have no GPU, so the step runs on the `meta` device, which refuses to mix with CPU tensors.
"""

from collections.abc import Callable
from copy import deepcopy
from functools import partial

import pytest
import torch
from torch import nn

from refprior.data import Examples, Task
from refprior.methods import Batch, FixMatch, Method, ReferencePrior, Supervised
from refprior.networks import MLP, SmallCNN, WideResNet
from refprior.particles import Particles
from refprior.posterior import likelihood_weights, predictive, reliability, uncertainty
from refprior.training import Optimiser, Recipe
from refprior.training._loop import State, differentiate, update
from refprior.views import unchanged

META = torch.device("meta")
METHODS: list[Method] = [
    Supervised(),
    ReferencePrior.paper(),
    ReferencePrior.authors_code(),
    ReferencePrior(order=3, jensen=False, stop_gradient=False, trainable_prior=True),
    ReferencePrior(samples=4),
    FixMatch(),
]
NETWORKS: list[Callable[[], nn.Module]] = [
    partial(MLP, (3, 8, 8), 4),
    partial(SmallCNN, (3, 8, 8), 4),
    partial(WideResNet, (3, 8, 8), 4, depth=10),
]


def no_task() -> Task:
    raise AssertionError("not used")


def state_of(recipe: Recipe) -> State:
    particles = Particles(recipe.network, recipe.particles).to(META)
    teacher = deepcopy(particles).requires_grad_(False)
    optimiser = recipe.optimiser.build(particles)
    return State(particles, teacher, optimiser, {}, torch.Generator(), unchanged, unchanged, classes=4)


@pytest.mark.parametrize("kind", ["sgd", "adam"])
@pytest.mark.parametrize("method", METHODS, ids=str)
def test_a_step_stays_on_its_device(method: Method, kind: str) -> None:
    for network in NETWORKS:
        recipe = Recipe(no_task, network, method, optimiser=Optimiser(kind=kind))  # type: ignore[arg-type]
        order = max(1, method.order)
        images = torch.randn(2, order, 3, 8, 8, device=META)
        index = torch.zeros(2, order, dtype=torch.int64, device=META)
        labels = torch.zeros(5, dtype=torch.int64, device=META)
        batch = Batch(torch.randn(5, 3, 8, 8, device=META), labels, images, images, index)
        state = state_of(recipe)
        loss = differentiate(recipe, batch, state)
        update(recipe, state)
        assert {t.device.type for t in (loss.total, *loss.terms.values())} == {"meta"}
        moved = [*state.particles.parameters(), *state.teacher.parameters(), *state.particles.buffers()]
        assert {t.device.type for t in moved} == {"meta"}


def test_the_posterior_stays_on_its_device() -> None:
    log_p, y = torch.randn(3, 6, 4, device=META), torch.zeros(6, dtype=torch.int64, device=META)
    weights = likelihood_weights(log_p, y, torch.zeros(3, device=META))
    results = [predictive(log_p, weights), *uncertainty(log_p, weights), *reliability(log_p[0], y)]
    assert {t.device.type for t in results} == {"meta"}


def test_a_task_normalises_on_the_device_of_the_images() -> None:
    examples = Examples(torch.zeros(2, 1, 2, 2, dtype=torch.uint8), torch.tensor([0, 1]))
    task = Task("t", ("a", "b"), examples, torch.zeros(3, 1, 2, 2, dtype=torch.uint8), examples)
    assert task.normalise(torch.zeros(4, 1, 2, 2, dtype=torch.uint8, device=META)).device == META


def test_double_precision_is_kept() -> None:
    recipe = Recipe(no_task, NETWORKS[0], ReferencePrior())
    state = state_of(recipe)
    state.particles.double()
    state.teacher.double()
    x = torch.randn(2, 2, 3, 8, 8, device=META, dtype=torch.float64)
    batch = Batch(x[0], torch.zeros(2, dtype=torch.int64, device=META), x, x, torch.zeros(2, 2, device=META).long())
    loss = differentiate(recipe, batch, state)
    assert {t.dtype for t in (loss.total, *loss.terms.values())} == {torch.float64}
