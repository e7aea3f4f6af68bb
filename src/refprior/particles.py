"""K networks as one module: the particles that carry the prior of rem:ba_particles.

The weights of all particles are stacked along a first dimension of size K, so that one optimiser, one EMA and one
file hold them all. Two ways of execution give the same numbers to rounding; `benchmarks/particles.py` measures
them, and `execution="auto"` is what it found: a loop for convolutional networks (a vectorised convolution is a
grouped one, which CPUs do slowly), one vectorised call for everything else.
"""

# K particles, B examples, C classes, H hidden units, D inputs

from collections import OrderedDict
from collections.abc import Callable
from copy import deepcopy
from typing import Literal, cast

import torch
from torch import Tensor, nn
from torch.func import functional_call

Execution = Literal["auto", "vectorised", "loop"]
_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


class Particles(nn.Module):
    """K independently initialised copies of a network that maps inputs (B, ...) to logits (B, C).

    make: a function that returns a new network each time it is called; `seed` makes its initialisations repeatable
    without touching the global generator's state.
    """

    def __init__(self, make: Callable[[], nn.Module], count: int, seed: int = 0, execution: Execution = "auto") -> None:
        super().__init__()
        if count < 1:
            raise ValueError(f"need at least one particle, got {count}")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            networks = [make() for _ in range(count)]
        self.count = count
        self.network = _stack(networks)
        self.prior_logits = nn.Parameter(torch.zeros(count))
        self.execution = _fastest(self.network) if execution == "auto" else execution

    @property
    def log_prior(self) -> Tensor:
        """log π(w_k): (K,)."""
        return self.prior_logits.log_softmax(0)

    def forward(self, x: Tensor) -> Tensor:
        """log p(y | x, w_k) of every particle: (B, ...) -> (K, B, C)."""
        logits = self._vectorised(x) if self.execution == "vectorised" else self._loop(x)
        return logits.float().log_softmax(-1) if logits.element_size() < 4 else logits.log_softmax(-1)

    def particle(self, k: int) -> nn.Module:
        """Particle k as an ordinary module with its own weights: (B, ...) -> (B, C) logits."""
        alone = deepcopy(self.network)
        for module in alone.modules():
            for name, parameter in module.named_parameters(recurse=False):
                setattr(module, name, nn.Parameter(parameter.detach()[k].clone(), parameter.requires_grad))
            for name, buffer in module.named_buffers(recurse=False):
                setattr(module, name, buffer[k].clone())
        return alone

    def _loop(self, x: Tensor) -> Tensor:
        # One unbind has one gradient, where K slices would have K of the size of all particles. What it gives are
        # views: batch norm's in-place updates of its statistics reach the stacked buffers.
        state = {name: tensor.unbind() for name, tensor in self._state().items()}
        return torch.stack(
            [functional_call(self.network, {n: t[k] for n, t in state.items()}, (x,)) for k in range(self.count)]
        )

    def _vectorised(self, x: Tensor) -> Tensor:
        network, dims = self.network, None
        state = self._state()
        split = _first_linear(network)
        if split is not None:
            name, linear, network = split
            x, dims = _shared_linear(linear, x), 0
            state = {n: t for n, t in state.items() if not n.startswith(f"{name}.")}
        call = torch.vmap(
            lambda state, x: functional_call(network, state, (x,)), in_dims=(0, dims), randomness="different"
        )
        return cast(Tensor, call(state, x))

    def _state(self) -> dict[str, Tensor]:
        return {**dict(self.network.named_parameters()), **dict(self.network.named_buffers())}


def _stack(networks: list[nn.Module]) -> nn.Module:
    """One module whose parameters and buffers have a first dimension over the networks."""
    stacked = networks[0]
    for path, module in stacked.named_modules():
        twins = [n.get_submodule(path) for n in networks]
        for name, parameter in list(module.named_parameters(recurse=False)):
            values = torch.stack([twin.get_parameter(name).detach() for twin in twins])
            setattr(module, name, nn.Parameter(values, parameter.requires_grad))
        for name, _ in list(module.named_buffers(recurse=False)):
            setattr(module, name, torch.stack([twin.get_buffer(name) for twin in twins]))
    return stacked


def _fastest(network: nn.Module) -> Execution:
    """The faster execution by kind of network, as benchmarks/particles.py measured it."""
    return "loop" if any(isinstance(m, _CONVOLUTIONS) for m in network.modules()) else "vectorised"


def _first_linear(network: nn.Module) -> tuple[str, nn.Linear, nn.Module] | None:
    """(name, first layer, the layers after it) of a sequence that begins with a linear layer."""
    if not isinstance(network, nn.Sequential):
        return None
    names = list(network._modules)
    start = 1 if isinstance(network[0], nn.Flatten) else 0
    linear = network[start] if len(network) > start else None
    if not isinstance(linear, nn.Linear):
        return None
    rest = nn.Sequential(OrderedDict((n, network.get_submodule(n)) for n in names[start + 1 :]))
    return names[start], linear, rest.train(network.training)


def _shared_linear(linear: nn.Linear, x: Tensor) -> Tensor:
    """The first layer of all particles on the inputs they share, as one matrix product: (B, ...) -> (K, B, H).

    The examples are the last dimension in memory: the product is then (K·H, D) times (D, B), which measured twice
    as fast as K products, and the layers after it read it without a copy.
    """
    weight = linear.weight  # (K, H, D)
    particles, hidden, inputs = weight.shape
    product = weight.reshape(particles * hidden, inputs) @ x.flatten(1).to(weight.dtype).T
    hidden_last = product.reshape(particles, hidden, len(x))
    if linear.bias is not None:
        hidden_last = hidden_last + linear.bias.unsqueeze(-1)
    return hidden_last.transpose(1, 2)
