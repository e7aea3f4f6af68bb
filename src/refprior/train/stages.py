"""From one stage to the next: the weights go on, with the same output layer or with a new one."""

from torch import nn

from refprior.particles import Particles
from refprior.train.recipe import Recipe


def first_weights(recipe: Recipe, start: Particles | None) -> Particles:
    """The particles a stage begins with: new ones, or those of the stage before it, with their head or a new one."""
    if start is not None and recipe.head == "same":
        return start
    particles = Particles(recipe.network, recipe.particles, seed=recipe.seed)
    if start is not None:
        transplant(start, particles)
    if recipe.head == "probe":
        head = output_layer(particles.network)
        for name, parameter in particles.network.named_parameters():
            parameter.requires_grad_(name.startswith(f"{head}."))
    return particles


def transplant(old: Particles, new: Particles) -> None:
    """Give the new particles all weights of the old ones but those of the output layer."""
    head = f"network.{output_layer(new.network)}."
    kept = {name: tensor for name, tensor in old.state_dict().items() if not name.startswith(head)}
    body = {name: tensor for name, tensor in new.state_dict().items() if not name.startswith(head)}
    wrong = [n for n in (kept | body) if n not in kept or n not in body or kept[n].shape != body[n].shape]
    if wrong:
        raise ValueError(f"the two stages have different networks: {wrong[0]} is not the same in both")
    new.load_state_dict({**new.state_dict(), **kept})


def output_layer(network: nn.Module) -> str:
    """The name of the last linear layer."""
    linear = [name for name, module in network.named_modules() if isinstance(module, nn.Linear)]
    if not linear:
        raise ValueError("the network has no linear layer: there is no head to draw anew")
    return str(linear[-1])
