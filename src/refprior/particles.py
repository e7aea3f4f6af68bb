"""K networks as one module: the particles that carry the prior of rem:ba_particles.

The weights of all particles are stacked along a first dimension of size K, so that one optimiser, one EMA and one
file hold them all. Two ways of execution give the same numbers to rounding; `benchmarks/particles.py` measures
them, and `execution="auto"` is what it found: a loop for convolutional networks (a vectorised convolution is a
grouped one, which CPUs do slowly), one vectorised call for everything else.
"""

# K particles, B examples, C classes, H hidden units, D inputs

from collections import OrderedDict
from collections.abc import Callable, Iterator
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
        if execution not in ("auto", "vectorised", "loop"):
            raise ValueError(f"execution must be 'auto', 'vectorised' or 'loop', got {execution!r}")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            networks = _make(make, count)
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
        _replace_tensors(alone, lambda name: self._state()[name][k].clone())
        return alone

    def _loop(self, x: Tensor) -> Tensor:
        # One unbind has one gradient, where K slices would have K of the size of all particles. What it gives are
        # views: batch norm's in-place updates of its statistics reach the stacked buffers.
        state = {name: tensor.unbind() for name, tensor in self._state().items()}
        return torch.stack(
            [_call(self.network, {n: t[k] for n, t in state.items()}, x) for k in range(self.count)],
        )

    def _vectorised(self, x: Tensor) -> Tensor:
        network, dims = self.network, None
        state = self._state()
        split = _first_linear(network, x)
        if split is not None:
            name, linear, network = split
            x, dims = _shared_linear(linear, x), 0
            state = {n: t for n, t in state.items() if not n.startswith(f"{name}.")}
        call = torch.vmap(lambda state, x: _call(network, state, x), in_dims=(0, dims), randomness="different")
        return call(state, x)

    def _state(self) -> dict[str, Tensor]:
        return dict(_tensors(self.network))


def _make(make: Callable[[], nn.Module], count: int) -> list[nn.Module]:
    """`count` new networks of one kind."""
    if count < 1:
        raise ValueError(f"need at least one particle, got {count}")
    if isinstance(make, nn.Module):
        raise ValueError("give a function that makes a new network each time, not a network")
    networks = [make() for _ in range(count)]
    if len({id(network) for network in networks}) < count:
        raise ValueError("the function must make a new network each time; it returned the same one again")
    shapes = [{name: tensor.shape for name, tensor in _tensors(network)} for network in networks]
    if any(other != shapes[0] for other in shapes):
        raise ValueError("the function made networks of different shapes")
    return networks


def _tensors(network: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Parameters and buffers by the place where they stand: a shared module once, a tied weight in all its places."""
    for path, module in network.named_modules():
        for name, tensor in (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)):
            yield f"{path}.{name}".lstrip("."), tensor


def _replace_tensors(network: nn.Module, new: Callable[[str], Tensor]) -> None:
    """Put other values in all places; what was tied stays tied."""
    known: dict[int, Tensor] = {}
    for path, old in list(_tensors(network)):
        if id(old) not in known:
            value = new(path).detach()
            known[id(old)] = nn.Parameter(value, old.requires_grad) if isinstance(old, nn.Parameter) else value
        module, _, name = path.rpartition(".")
        setattr(network.get_submodule(module), name, known[id(old)])


def _stack(networks: list[nn.Module]) -> nn.Module:
    """One module whose parameters and buffers have a first dimension over the networks."""
    states = [dict(_tensors(network)) for network in networks]
    stacked = deepcopy(networks[0])
    _replace_tensors(stacked, lambda name: torch.stack([state[name].detach() for state in states]))
    return stacked


def _call(network: nn.Module, state: dict[str, Tensor], x: Tensor) -> Tensor:
    # `state` names every place, so nothing is left to tie.
    return cast(Tensor, functional_call(network, state, (x,), tie_weights=False))


def _fastest(network: nn.Module) -> Execution:
    """The faster execution by kind of network, as benchmarks/particles.py measured it."""
    modules = list(network.modules())
    if any(isinstance(m, _CONVOLUTIONS) for m in modules):
        return "loop"
    cumulative = (m for m in modules if isinstance(m, nn.modules.batchnorm._BatchNorm) and m.momentum is None)
    return "loop" if any(cumulative) else "vectorised"  # vmap cannot read the number of batches


def _first_linear(network: nn.Module, x: Tensor) -> tuple[str, nn.Linear, nn.Module] | None:
    """(name, first layer, the layers after it) of a plain sequence that begins with a linear layer on flat inputs."""
    if type(network).forward is not nn.Sequential.forward:
        return None
    layers = list(network._modules.items())
    flattens = bool(layers) and _flattens_all(layers[0][1])
    (name, linear), *rest = layers[flattens:] or [("", None)]
    if not (flattens or x.dim() == 2) or type(linear) is not nn.Linear or linear._forward_pre_hooks:
        return None
    after = nn.Sequential(OrderedDict((n, m) for n, m in rest if m is not None))
    if {id(p) for p in linear.parameters()} & {id(p) for p in after.parameters()}:
        return None  # the first layer's weights occur again
    return name, linear, after


def _flattens_all(layer: nn.Module | None) -> bool:
    return isinstance(layer, nn.Flatten) and (layer.start_dim, layer.end_dim) == (1, -1)


def _shared_linear(linear: nn.Linear, x: Tensor) -> Tensor:
    """The first layer of all particles on the inputs they share, as one matrix product: (B, ...) -> (K, B, H).

    The examples are the last dimension in memory: the product is then (K·H, D) times (D, B), which is faster than K
    products (benchmarks/particles.py), and the layers after it read it without a copy.
    """
    weight = linear.weight  # (K, H, D)
    particles, hidden, inputs = weight.shape
    product = weight.reshape(particles * hidden, inputs) @ x.flatten(1).T
    hidden_last = product.reshape(particles, hidden, len(x))
    if linear.bias is not None:
        hidden_last = hidden_last + linear.bias.unsqueeze(-1)
    return hidden_last.transpose(1, 2)
