"""Tensors follow the device and dtype of their inputs. Steps on a device are in `tests/device`."""

from copy import deepcopy
from dataclasses import replace
from functools import partial

import torch

from refprior.data import Normalizer, Standardize
from refprior.methods import Batch, ReferencePrior
from refprior.networks import MLP
from refprior.particles import Particles
from refprior.training import Recipe
from refprior.training.loop._begin import State
from refprior.training.loop._draw import Sampler
from refprior.training.loop._loop import differentiate
from refprior.views import Unchanged
from tests.training.recipes import colors

META = torch.device("meta")


def test_images_are_normalized_on_their_device() -> None:
    normalizer = Standardize().fit(colors().training_inputs)
    assert normalizer(torch.zeros(4, 3, 8, 8, dtype=torch.uint8, device=META)).device == META


def test_double_precision_is_kept() -> None:
    task = replace(colors(), classes=("a", "b", "c", "d"), labeled=colors().labeled[torch.arange(0)])
    recipe = Recipe(task=task, network=partial(MLP, (3, 8, 8), 4), method=ReferencePrior())
    particles = Particles(recipe.network, recipe.particles).to(META).double()
    teacher = deepcopy(particles).requires_grad_(False)
    optimizer, sampler = recipe.optimizer.build(particles), Sampler({}, torch.Generator(), Unchanged(), Unchanged())
    state = State(particles, teacher, optimizer, Normalizer(torch.zeros(1)), sampler, torch.zeros(0).long())
    images = torch.randn(4, 3, 8, 8, device=META, dtype=torch.float64)
    batch = Batch(
        labeled=images[:2],
        labels=torch.zeros(2, dtype=torch.int64, device=META),
        views={"weak": images, "strong": images},
        index=torch.zeros(4, device=META).long(),
    )
    loss = differentiate(recipe, task, batch, state)
    assert {t.dtype for t in (loss.total, *loss.terms.values())} == {torch.float64}
