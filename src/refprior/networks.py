"""The paper's networks, small networks, and an output layer for your network: (B, ...) -> logits (B, C)."""

import math
from collections.abc import Iterable, Sequence
from copy import deepcopy
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from refprior._checks import number, one_of, whole_number
from refprior._recomputing import keep_activations

__all__ = ["MLP", "Linear", "Pretrained", "SmallCNN", "WideResNet"]

Shape = tuple[int, ...]
HeadInit = Literal["xavier", "torch"]


class Linear(nn.Sequential):
    """One linear layer, multinomial logistic regression, for the features of another network.

    Parameters
    ----------
    shape : tuple of int
        Shape of one input.
    classes : int
        Number of classes.
    scale : float, default: 0.1
        Approximate standard deviation of the initial logits for inputs of standard deviation 1. A particle with small
        logits starts almost undecided, so that the labels decide.

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> tuple(rp.networks.Linear((64,), classes=10)(torch.zeros(2, 64)).shape)
    (2, 10)
    """

    def __init__(self, shape: Shape, classes: int, scale: float = 0.1) -> None:
        inputs = math.prod(shape)
        _positive(inputs=inputs, classes=classes)
        number("scale", scale, above=0)
        layer = nn.Linear(inputs, classes)
        nn.init.normal_(layer.weight, std=scale / math.sqrt(inputs))
        nn.init.zeros_(layer.bias)
        super().__init__(nn.Flatten(), layer)


class MLP(nn.Sequential):
    """The paper's MNIST network (appendix Setup): one hidden layer with hardtanh.

    Hardtanh, since maximizing the information drives activations up and a ReLU has no upper bound.

    Parameters
    ----------
    shape : tuple of int
        Shape of one input.
    classes : int
        Number of classes.
    hidden : int, default: 32
        Number of hidden units.

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> tuple(rp.networks.MLP((1, 8, 8), classes=10)(torch.zeros(2, 1, 8, 8)).shape)
    (2, 10)
    """

    def __init__(self, shape: Shape, classes: int, hidden: int = 32) -> None:
        _positive(inputs=math.prod(shape), hidden=hidden, classes=classes)
        super().__init__(
            nn.Flatten(),
            nn.Linear(math.prod(shape), hidden),
            nn.Hardtanh(),
            nn.Linear(hidden, classes),
        )


class SmallCNN(nn.Sequential):
    """Two strided convolutions and a hidden layer, for images of 8×8 to 32×32 on a CPU.

    It has no global pooling, since position matters in digits. Group norm keeps no statistics and does not couple the
    labeled and unlabeled images of a batch.

    Parameters
    ----------
    shape : (int, int, int)
        Channels, height and width of an image.
    classes : int
        Number of classes.
    width : int, default: 16
        Channels of the first convolution; the second has twice as many.
    hidden : int, default: 64
        Number of hidden units.

    Raises
    ------
    ValueError
        If the inputs are not images.

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> tuple(rp.networks.SmallCNN((1, 8, 8), classes=10)(torch.zeros(2, 1, 8, 8)).shape)
    (2, 10)
    """

    def __init__(self, shape: Shape, classes: int, width: int = 16, hidden: int = 64) -> None:
        if len(shape) != 3:
            raise ValueError(f"SmallCNN takes images (channels, height, width), got {tuple(shape)}: MLP takes vectors")
        channels, height, columns = shape
        _positive(channels=channels, height=height, width=width, hidden=hidden, classes=classes)
        flat = 2 * width * math.ceil(height / 4) * math.ceil(columns / 4)
        super().__init__(
            nn.Conv2d(channels, width, kernel_size=5, stride=2, padding=2),
            nn.GroupNorm(_groups(width), width),
            nn.ReLU(),
            nn.Conv2d(width, 2 * width, kernel_size=3, stride=2, padding=1),
            nn.GroupNorm(_groups(2 * width), 2 * width),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(flat, hidden),
            nn.ReLU(),
            nn.Linear(hidden, classes),
        )


class WideResNet(nn.Module):
    """The paper's WRN-28-2 (appendix Setup): 1,467,610 parameters for 10 classes.

    It differs from the standard network in the places that are options here (docs/differences.md): batch norm
    statistics move slowly, the first blocks of stages 2 and 3 give their raw input to the first convolution, and
    activations are leaky. The paper names both LeakyReLU 0.1 and ReLU; the authors' code has ReLU in the blocks
    (``slope=0``) and LeakyReLU 0.1 before the pooling.

    Parameters
    ----------
    shape : (int, int, int)
        Channels, height and width of an image.
    classes : int
        Number of classes.
    depth : int, default: 28
        Number of layers, 6 · blocks + 4.
    width : int, default: 2
        Factor of the number of channels.
    slope : float, default: 0.1
        Negative slope of the activations in the blocks.
    final_slope : float, default: 0.1
        Negative slope of the activation before the pooling.
    momentum : float, default: 0.001
        Momentum of the batch norm statistics.
    raw_transitions : bool, default: True
        Whether the first blocks of stages 2 and 3 give their raw input to the first convolution.
    head_init : {"xavier", "torch"}, default: "xavier"
        Draw the weights of the head by Xavier's rule, or by torch's default as in the authors' code, whose standard
        deviation is less than half as large.
    spare_shortcuts : bool, default: False
        Whether every block has the weights of a shortcut, as in the authors' code. They are unused where the number of
        channels stays.

    Raises
    ------
    ValueError
        If a size is not positive, or the depth is not 6 · blocks + 4.

    Examples
    --------
    >>> import refprior as rp
    >>> sum(p.numel() for p in rp.networks.WideResNet((3, 32, 32), classes=10).parameters())
    1467610
    """

    def __init__(
        self,
        shape: Shape,
        classes: int,
        depth: int = 28,
        width: int = 2,
        slope: float = 0.1,
        final_slope: float = 0.1,
        momentum: float = 0.001,
        raw_transitions: bool = True,
        head_init: HeadInit = "xavier",
        spare_shortcuts: bool = False,
    ) -> None:
        super().__init__()
        _positive(channels=shape[0], width=width, classes=classes)
        one_of("head_init", head_init, ("xavier", "torch"))
        if depth < 10 or (depth - 4) % 6:
            raise ValueError(f"depth must be 6·blocks + 4, got {depth}; take 10, 16, 22 or 28")
        blocks = (depth - 4) // 6
        self.blocks = blocks
        widths = [16, 16 * width, 32 * width, 64 * width]
        self.final_slope = final_slope
        self.stem = nn.Conv2d(shape[0], widths[0], kernel_size=3, padding=1, bias=False)
        self.stages = nn.Sequential(
            *_stage(widths[0], widths[1], blocks, 1, slope, momentum, raw=False),
            *_stage(widths[1], widths[2], blocks, 2, slope, momentum, raw=raw_transitions),
            *_stage(widths[2], widths[3], blocks, 2, slope, momentum, raw=raw_transitions),
        )
        self.norm = nn.BatchNorm2d(widths[3], momentum=momentum)
        self.head = nn.Linear(widths[3], classes)
        if spare_shortcuts:
            _add_spare_shortcuts(self.modules())
        _initialize(self.modules(), head_init)

    def forward(self, x: Tensor) -> Tensor:
        """Compute logits: (B, channels, height, width) -> (B, classes).

        Parameters
        ----------
        x : Tensor, (B, channels, height, width)
            Normalized images.

        Returns
        -------
        Tensor, (B, classes)
            Logits.
        """
        # All that follows keeps this layout: CPUs convolve faster with the channels last (benchmarks/step.py).
        x = x.contiguous(memory_format=torch.channels_last)
        x = self.stages[: self.blocks](self.stem(x))
        with keep_activations():
            x = self.norm(self.stages[self.blocks :](x))
            x = F.leaky_relu(x, self.final_slope, inplace=True).mean((2, 3))
            return self.head(x)  # type: ignore[no-any-return]


class Pretrained(nn.Module):
    """A copy of a network that computes features, with a new random output layer.

    Particles need different initial weights, which copies of one network do not have. Every particle has its own body.
    If it is frozen and not perturbed, it is faster to compute the features once and train `Linear` on them.

    Parameters
    ----------
    body : nn.Module
        The network, (B, ...) -> (B, features).
    features : int
        Number of its features.
    classes : int
        Number of classes.
    freeze : bool, default: True
        Train only the output layer; batch norm and dropout of the body stay in evaluation mode.
    perturb : float, default: 0.0
        Add normal noise to the body's weights, in units of each tensor's standard deviation, so that bodies differ too.

    Raises
    ------
    ValueError
        If the body is not an ``nn.Module``.

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> body = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 5), torch.nn.ReLU())
    >>> particles = rp.Particles(lambda: rp.networks.Pretrained(body, features=5, classes=10), count=4)
    >>> tuple(particles(torch.zeros(2, 1, 8, 8)).shape)
    (4, 2, 10)
    """

    def __init__(self, body: nn.Module, features: int, classes: int, freeze: bool = True, perturb: float = 0.0) -> None:
        super().__init__()
        if not isinstance(body, nn.Module):
            raise ValueError(f"body must be an nn.Module, got a {type(body).__name__}")
        _positive(features=features, classes=classes)
        number("perturb", perturb, at_least=0)
        self.freeze = freeze
        self.body = deepcopy(body).requires_grad_(not freeze)
        with torch.no_grad():
            for weight in self.body.parameters() if perturb else ():
                weight.add_(perturb * weight.std(correction=0) * torch.randn_like(weight))
        self.head = nn.Linear(features, classes)
        self.train()

    def forward(self, x: Tensor) -> Tensor:
        """Compute logits: (B, ...) -> (B, classes).

        Parameters
        ----------
        x : Tensor, (B, ...)
            Inputs of the body.

        Returns
        -------
        Tensor, (B, classes)
            Logits.
        """
        return self.head(self.body(x).flatten(1))  # type: ignore[no-any-return]

    def train(self, mode: bool = True) -> "Pretrained":
        """Set training or evaluation mode; a frozen body stays in evaluation mode.

        Parameters
        ----------
        mode : bool, default: True
            Whether to train.

        Returns
        -------
        Pretrained
            This network.
        """
        super().train(mode)
        if self.freeze:
            self.body.eval()
        return self


class Block(nn.Module):
    """Two 3×3 convolutions around a residual connection, each after batch norm and activation.

    Where the number of channels changes, the shortcut is a 1×1 convolution. It sees the normalized, activated input
    in the first block of the network, as everywhere in the standard WRN; a `raw` block gives its raw input to both the
    shortcut and the first convolution, so that its first batch norm has no effect.
    """

    def __init__(self, inputs: int, outputs: int, stride: int, slope: float, momentum: float, raw: bool) -> None:
        super().__init__()
        self.slope = slope
        self.raw = raw
        self.norm1 = nn.BatchNorm2d(inputs, momentum=momentum)
        self.conv1 = nn.Conv2d(inputs, outputs, kernel_size=3, stride=stride, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs, momentum=momentum)
        self.conv2 = nn.Conv2d(outputs, outputs, kernel_size=3, padding=1, bias=False)
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False) if inputs != outputs else None

    def forward(self, x: Tensor) -> Tensor:
        convs = [self.conv1] if self.shortcut is None else [self.conv1, self.shortcut]
        inside, *around = [conv(x) for conv in convs] if self.raw else _activated(x, self.norm1, self.slope, convs)
        (inside,) = _activated(inside, self.norm2, self.slope, [self.conv2])
        return inside.add_(around[0] if around else x)


def _activated(x: Tensor, norm: nn.BatchNorm2d, slope: float, convs: Sequence[nn.Conv2d]) -> list[Tensor]:
    """Apply convolutions to x after batch norm and leaky activation: (B, F, h, w) each.

    In training on a CPU, only x is saved for the backward pass, which recomputes the other two to the same bits. That
    halves the memory for 2 % more time, since convolutions take almost all of it (benchmarks/step.py).
    """
    # The values of this particle; during the backward pass the layers hold those of all particles.
    weights, mean, variance = [conv.weight for conv in convs], norm.running_mean, norm.running_var
    again = False

    def run(x: Tensor, scale: Tensor, shift: Tensor) -> list[Tensor]:
        nonlocal again
        # Statistics move the first time only. Recomputation stops before the convolutions: they save just their inputs.
        if again:
            copies = [statistic if statistic is None else statistic.clone() for statistic in (mean, variance)]
            inside = F.batch_norm(x, copies[0], copies[1], scale, shift, training=True, eps=norm.eps)
        else:
            inside, again = norm(x), True
        inside = F.leaky_relu(inside, slope, inplace=True)
        return [conv._conv_forward(inside, weight, None) for conv, weight in zip(convs, weights, strict=True)]

    if not (norm.training and _can_recompute(x) and type(norm) is nn.BatchNorm2d):
        return run(x, norm.weight, norm.bias)
    found: list[Tensor] = checkpoint(
        run, x, norm.weight, norm.bias, use_reentrant=False, preserve_rng_state=False, determinism_check="none"
    )
    return found


def _can_recompute(x: Tensor) -> bool:
    return torch.is_grad_enabled() and x.device.type == "cpu" and not torch._C._are_functorch_transforms_active()


def _stage(
    inputs: int, outputs: int, blocks: int, stride: int, slope: float, momentum: float, raw: bool
) -> list[Block]:
    first = Block(inputs, outputs, stride, slope, momentum, raw)
    return [first, *(Block(outputs, outputs, 1, slope, momentum, raw=False) for _ in range(blocks - 1))]


def _add_spare_shortcuts(modules: Iterable[nn.Module]) -> None:
    """Add weights of 1×1 convolutions that no block calls."""
    for block in list(modules):
        if isinstance(block, Block) and block.shortcut is None:
            block.spare = nn.Conv2d(block.conv1.in_channels, block.conv1.out_channels, 1, bias=False)


def _initialize(modules: Iterable[nn.Module], head: HeadInit) -> None:
    """Draw convolutions by Kaiming normal with fan-out, the head by Xavier normal or torch's default; biases are 0."""
    for module in modules:
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        elif isinstance(module, nn.Linear):
            if head == "xavier":
                nn.init.xavier_normal_(module.weight)
            nn.init.zeros_(module.bias)


def _positive(**sizes: int) -> None:
    for name, size in sizes.items():
        whole_number(name, size, at_least=1)


def _groups(channels: int) -> int:
    """Return a number of groups with about four channels each."""
    return next(g for g in range(max(1, channels // 4), 0, -1) if channels % g == 0)
