"""From one stage to the next: the weights go on, with the same output layer or with a new one."""

from dataclasses import replace
from typing import cast

import torch
from torch import Tensor, nn

from refprior._mesh import ALONE, Mesh
from refprior.particles import Particles, output_layer
from refprior.training.recipe import Recipe


def new_particles(recipe: Recipe, mesh: Mesh = ALONE) -> Particles:
    """The particles of a recipe with newly drawn weights, under a projection head if the method wants that."""
    outputs, make = recipe.method.needs.projection, recipe.network
    network = (lambda: projected(make(), outputs)) if outputs else make
    return Particles(network, recipe.particles, seed=recipe.seed, execution=recipe.execution, mesh=mesh)


def gathered(recipe: Recipe, particles: Particles) -> Particles:
    """The particles of all ranks, on each of them."""
    whole = new_particles(recipe).to(particles.prior_logits.device)
    with torch.no_grad():
        parts = zip(whole.network.state_dict().values(), particles.network.state_dict().values(), strict=True)
        for all_of_it, own in parts:
            all_of_it.copy_(particles.mesh.gather(own.unsqueeze(1), 1).squeeze(1))
    whole.prior_logits.data.copy_(particles.prior_logits)
    return whole.requires_grad_(particles.prior_logits.requires_grad).train(particles.training)


def projected(network: nn.Module, outputs: int) -> nn.Module:
    """The network with a head of two layers in the place of its output layer, which a later stage draws anew."""
    name = output_layer(network)
    features = cast(nn.Linear, network.get_submodule(name)).in_features
    head = nn.Sequential(nn.Linear(features, features), nn.ReLU(), nn.Linear(features, outputs))
    parent, _, last = name.rpartition(".")
    setattr(network.get_submodule(parent), last, head)
    return network


def first_weights(recipe: Recipe, start: Particles | None, mesh: Mesh = ALONE) -> Particles:
    """The particles a stage begins with: new ones, or those of the stage before it, with their head or a new one."""
    particles = new_particles(recipe, mesh)
    if start is not None and recipe.head == "same":
        particles.load_state_dict(start.state_dict())
    elif start is not None:
        transplant(start, particles)
    if recipe.head == "probe":
        head = output_layer(particles.network)
        for name, parameter in particles.network.named_parameters():
            parameter.requires_grad_(name.startswith(f"{head}."))
    return particles


def check_stages(recipe: Recipe) -> None:
    """Refuse stages whose networks do not fit each other, before the first of them is trained."""
    if recipe.start is None:
        return
    old, new = (new_particles(replace(stage, particles=1, start=None, head="same")) for stage in (recipe.start, recipe))
    if recipe.head != "same":
        transplant(old, new)
        return
    mine, before = ({n: tuple(t.shape) for n, t in p.state_dict().items()} for p in (new, old))
    wrong = next((name for name in mine | before if mine.get(name) != before.get(name)), None)
    if wrong is not None:
        raise ValueError(
            f"the two stages have different networks: {wrong} is {before.get(wrong)} and then {mine.get(wrong)}; "
            "head='new' draws a new output layer"
        )


def transplant(old: Particles, new: Particles) -> None:
    """Give the new particles all weights of the old ones but those of the output layer."""
    head = f"network.{output_layer(new.network)}."
    kept = {name: tensor for name, tensor in old.state_dict().items() if not name.startswith(head)}
    body = {name: tensor for name, tensor in new.state_dict().items() if not name.startswith(head)}
    wrong = [n for n in (kept | body) if n not in kept or n not in body or kept[n].shape != body[n].shape]
    if wrong:
        raise ValueError(f"the two stages have different networks: {wrong[0]} is not the same in both")
    new.load_state_dict({**new.state_dict(), **kept})


def check_head(particles: Particles, images: Tensor) -> None:
    """Refuse a network whose last linear layer is not what gives its outputs: (n, *shape) normalized images."""
    network = particles.particle(0).eval()
    name = output_layer(network)
    seen: list[Tensor] = []
    network.get_submodule(name).register_forward_hook(lambda module, inputs, output: seen.append(output))
    with torch.no_grad():
        outputs = network(images)
    if not seen or seen[-1].shape != outputs.shape or not torch.equal(seen[-1], outputs):
        raise ValueError(f"the outputs are not those of the network's last linear layer, {name}: define its head last")
