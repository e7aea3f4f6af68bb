"""Linear layers and activations of all particles on inputs that they share, with the examples as the last dimension.

The first layer is then one matrix product, and nothing is transposed on the way.
"""

# K particles, B examples, H and J units, D inputs

from collections import OrderedDict
from itertools import pairwise
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

_ELEMENTWISE = (nn.Hardtanh, nn.Tanh, nn.ReLU, nn.LeakyReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Sigmoid, nn.Identity)


def leading_layers(network: nn.Module, x: Tensor) -> tuple[list[nn.Module], nn.Module | None]:
    """The linear layers and activations that a sequence begins with, if its first layer sees flat inputs, and the
    rest of it: None if nothing is left."""
    if type(network) is nn.Linear and x.dim() == 2 and not _has_hooks(network):
        return [network], None
    if type(network).forward is not nn.Sequential.forward or _has_hooks(network):
        return [], network
    layers = list(network._modules.items())
    flattens = bool(layers) and _flattens_all(layers[0][1])
    named = layers[flattens:]
    count = next((i for i, (_, layer) in enumerate(named) if not _is_plain(layer)), len(named))
    if not (flattens or x.dim() == 2) or not count or type(named[0][1]) is not nn.Linear:
        return [], network
    rest = OrderedDict((name, layer) for name, layer in named[count:] if layer is not None)
    return [layer for _, layer in named[:count] if layer is not None], nn.Sequential(rest) if rest else None


def _is_plain(layer: nn.Module | None) -> bool:
    # The exact type: a subclass may do anything, and a parametrized layer is one.
    return type(layer) in (nn.Linear, *_ELEMENTWISE) and layer is not None and not _has_hooks(layer)


def _has_hooks(layer: nn.Module) -> bool:
    return bool(layer._forward_hooks or layer._forward_pre_hooks or layer._backward_hooks)


def _flattens_all(layer: nn.Module | None) -> bool:
    return isinstance(layer, nn.Flatten) and (layer.start_dim, layer.end_dim) == (1, -1)


def batch_last(layers: list[nn.Module], x: Tensor) -> Tensor:
    """Layers of all particles on the inputs they share: (B, ...) -> (K, B, H), in memory (K, H, B)."""
    shape = (len(cast(Tensor, layers[0].weight)), -1, len(x))  # (K, H, B)
    hidden = _shared_linear(cast(nn.Linear, layers[0]), x)
    for before, layer in pairwise(layers):
        if isinstance(layer, nn.Linear):
            hidden = _own_linear(layer, hidden.reshape(shape))
        elif type(layer) is nn.Hardtanh and isinstance(before, nn.Linear):
            # In place: nothing else needs what a linear layer gives, and memory that is new is slower than arithmetic.
            hidden = F.hardtanh_(hidden, layer.min_val, layer.max_val)
        else:
            hidden = layer(hidden)
    return hidden.reshape(shape).transpose(1, 2)


def _shared_linear(linear: nn.Linear, x: Tensor) -> Tensor:
    """W_k x + b_k of one x for all particles, as one matrix product: (B, ...) -> (K·H, B)."""
    weight = linear.weight.flatten(0, 1)
    columns = x.flatten(1).T  # (D, B)
    bias = cast(Tensor | None, linear.bias)
    return weight @ columns if bias is None else torch.addmm(bias.reshape(-1, 1), weight, columns)


def _own_linear(linear: nn.Linear, hidden: Tensor) -> Tensor:
    """W_k h_k + b_k of every particle on its own h_k: (K, H, B) -> (K, J, B)."""
    bias = cast(Tensor | None, linear.bias)
    if bias is None:
        return torch.bmm(linear.weight, hidden)
    return torch.baddbmm(bias.unsqueeze(-1), linear.weight, hidden)
