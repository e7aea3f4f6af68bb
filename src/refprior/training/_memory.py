"""What a run takes at the least, from shapes alone: refused before anything is made if it cannot fit."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from refprior import _process
from refprior._mesh import ALONE, Mesh
from refprior._process import check_memory
from refprior.particles import Particles
from refprior.training.recipe import Recipe

_LOADED = 3  # copies of the weights: themselves, their moving average, and what is read from the file


def check_training_fits(recipe: Recipe, mesh: Mesh = ALONE) -> None:
    """Refuse networks that cannot fit: weights, gradient, moving average, what the optimizer remembers."""
    stage: Recipe | None = recipe
    while stage is not None:
        here = stage.particles * _process.local_world() // mesh.particle if mesh.size > 1 else stage.particles
        _check(stage.network, here, 4 + (stage.optimizer.kind != "sgd"))
        stage = stage.start


def check_loading_fits(network: Callable[[], nn.Module], particles: int) -> None:
    """Refuse networks that cannot fit when they only predict."""
    _check(network, particles, _LOADED)


def _check(network: Callable[[], nn.Module], particles: int, copies: int) -> None:
    numbers, size = network_size(network)
    check_memory(
        float(copies) * particles * size,
        f"particles={particles:,}, each a network of {numbers:,} numbers,",
        "lower particles, or make the network smaller",
    )


def network_size(make: Callable[[], nn.Module]) -> tuple[int, int]:
    """How many numbers one network has, and in how many bytes; made without memory where its code allows that."""
    try:
        with torch.device("meta"), _WithoutNormal():
            network = make()
    except (TypeError, RuntimeError, NotImplementedError):
        with torch.random.fork_rng(devices=[]):
            network = Particles(make, 1).network
    if not isinstance(network, nn.Module):
        raise ValueError(f"the function must make a network, an nn.Module; it made a {type(network).__name__}")
    tensors = list(network.state_dict().values())
    return sum(t.numel() for t in tensors), sum(t.numel() * t.element_size() for t in tensors)


class _WithoutNormal(TorchFunctionMode):
    """Initial weights are not drawn: on tensors without memory, the first normal one takes seconds of imports."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return args[0] if function is Tensor.normal_ else function(*args, **(kwargs or {}))
