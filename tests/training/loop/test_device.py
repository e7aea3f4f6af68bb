"""Every tensor of a step follows the module's device and dtype: nothing may be made on the CPU by accident.

These machines may have no GPU, so the step runs on the `meta` device, which refuses to mix with CPU tensors.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

from refprior.data import Normalizer, Standardize
from refprior.methods import Batch, FixMatch, Method, ReferencePrior, Supervised
from refprior.networks import MLP, SmallCNN, WideResNet
from refprior.particles import Particles
from refprior.posterior import likelihood_weights, predictive, reliability, uncertainty
from refprior.training import Optimizer, Recipe
from refprior.training.loop._begin import State
from refprior.training.loop._draw import Sampler
from refprior.training.loop._loop import differentiate, update
from refprior.views import Unchanged
from tests.training.recipes import colors

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


TASK = replace(colors(), classes=("a", "b", "c", "d"), labeled=colors().labeled[torch.arange(0)])  # as many as outputs


def recipe_of(network: Callable[[], nn.Module], method: Method, **changes: Any) -> Recipe:
    return Recipe(task=TASK, network=network, method=method, **changes)


def state_of(recipe: Recipe) -> State:
    particles = Particles(recipe.network, recipe.particles).to(META)
    teacher = deepcopy(particles).requires_grad_(False)
    optimizer = recipe.optimizer.build(particles)
    sampler = Sampler({}, torch.Generator(), Unchanged(), Unchanged())
    return State(particles, teacher, optimizer, Normalizer(torch.zeros(1)), sampler, torch.zeros(0).long())


@pytest.mark.parametrize("kind", ["sgd", "adam"])
@pytest.mark.parametrize("method", METHODS, ids=str)
def test_a_step_stays_on_its_device(method: Method, kind: str) -> None:
    for network in NETWORKS:
        recipe = recipe_of(network, method, optimizer=Optimizer(kind=kind))  # type: ignore[arg-type]
        images = torch.randn(2 * method.needs.tuple_size, 3, 8, 8, device=META)
        batch = Batch(
            labeled=torch.randn(5, 3, 8, 8, device=META),
            labels=torch.zeros(5, dtype=torch.int64, device=META),
            views=dict.fromkeys(method.needs.view_names, images),
            index=torch.zeros(len(images), dtype=torch.int64, device=META),
        )
        state = state_of(recipe)
        loss = differentiate(recipe, TASK, batch, state)
        update(recipe, state)
        assert {t.device.type for t in (loss.total, *loss.terms.values())} == {"meta"}
        moved = [*state.particles.parameters(), *state.teacher.parameters(), *state.particles.buffers()]
        assert {t.device.type for t in moved} == {"meta"}


def test_the_posterior_stays_on_its_device() -> None:
    log_p, y = torch.randn(3, 6, 4, device=META), torch.zeros(6, dtype=torch.int64, device=META)
    weights = likelihood_weights(log_p, y, torch.zeros(3, device=META))
    results = [predictive(log_p, weights), *uncertainty(log_p, weights), *reliability(log_p[0], y)]
    assert {t.device.type for t in results} == {"meta"}


def test_images_are_normalized_on_their_device() -> None:
    normalizer = Standardize().fit(colors().training_inputs)
    assert normalizer(torch.zeros(4, 3, 8, 8, dtype=torch.uint8, device=META)).device == META


def test_double_precision_is_kept() -> None:
    recipe = recipe_of(NETWORKS[0], ReferencePrior())
    state = state_of(recipe)
    state.particles.double()
    state.teacher.double()
    images = torch.randn(4, 3, 8, 8, device=META, dtype=torch.float64)
    batch = Batch(
        labeled=images[:2],
        labels=torch.zeros(2, dtype=torch.int64, device=META),
        views={"weak": images, "strong": images},
        index=torch.zeros(4, device=META).long(),
    )
    loss = differentiate(recipe, TASK, batch, state)
    assert {t.dtype for t in (loss.total, *loss.terms.values())} == {torch.float64}
