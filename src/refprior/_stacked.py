"""Networks of one kind as one module: every parameter and buffer with a first dimension over them."""

from collections.abc import Callable, Iterator, Sequence
from copy import copy, deepcopy
from typing import Any

import torch
from torch import Tensor, nn


def make_networks(make: Callable[[], nn.Module], count: int, kept: slice) -> list[nn.Module]:
    """Some of `count` new networks of one kind. All are drawn, so that each is the same on any number of ranks."""
    if count < 1:
        raise ValueError(f"need at least one particle, got {count}")
    if isinstance(make, nn.Module):
        raise ValueError("give a function that makes a new network each time, not a network")
    try:
        made = (make() for _ in range(count))
        networks = [network for k, network in enumerate(made) if kept.start <= k < kept.stop]
    except (TypeError, RuntimeError) as error:
        raise ValueError(f"the network cannot be made: {error}") from error
    if not all(isinstance(network, nn.Module) for network in networks):
        raise ValueError(f"the function must make a network, an nn.Module; it made a {type(networks[0]).__name__}")
    if len({id(network) for network in networks}) < len(networks):
        raise ValueError("the function must make a new network each time; it returned the same one again")
    shapes = [{name: tensor.shape for name, tensor in tensors_of(network)} for network in networks]
    if any(other != shapes[0] for other in shapes):
        raise ValueError("the function made networks of different shapes")
    return networks


def tensors_of(network: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Parameters and buffers by their places: a shared module once, a tied weight in all its places."""
    for path, module in network.named_modules():
        for name, tensor in (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)):
            yield f"{path}.{name}".lstrip("."), tensor


def places_of(network: nn.Module) -> Iterator[tuple[dict[str, Any], str, Tensor]]:
    """The same, as what a layer keeps its tensors in, and their names there."""
    for module in network.modules():
        for slots in (module._parameters, module._buffers):
            yield from ((slots, name, tensor) for name, tensor in slots.items() if tensor is not None)


def replace_tensors(network: nn.Module, new: Callable[[str], Tensor]) -> None:
    """Put other values in all places; what was tied stays tied."""
    known: dict[int, Tensor] = {}
    for path, old in list(tensors_of(network)):
        if id(old) not in known:
            value = new(path).detach()
            known[id(old)] = nn.Parameter(value, old.requires_grad) if isinstance(old, nn.Parameter) else value
        module, _, name = path.rpartition(".")
        setattr(network.get_submodule(module), name, known[id(old)])


def stacked(networks: list[nn.Module]) -> nn.Module:
    """One module whose parameters and buffers have a first dimension over the networks."""
    states = [dict(tensors_of(network)) for network in networks]
    all_of_them = deepcopy(networks[0])
    replace_tensors(all_of_them, lambda name: torch.stack([state[name].detach() for state in states]))
    return all_of_them


def without_layer(network: nn.Module, path: Sequence[str]) -> nn.Module:
    """The same network, its other layers shared, that hands the input of one layer through."""
    if not path:
        return nn.Identity()
    copied = copy(network)
    copied._modules = {**network._modules, path[0]: without_layer(network.get_submodule(path[0]), path[1:])}
    return copied
