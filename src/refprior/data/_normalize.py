"""From stored inputs to the inputs of a network: a recipe names the transform, and `fit` finds its numbers once.

The fitted `Normalizer` is saved with the weights, so that a trained network never depends on data that may change.
"""

# n inputs of D numbers, J components

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Literal

import torch
from torch import Tensor

from refprior._checks import number, one_of, whole_number
from refprior.data._maps import Bins, Neighbors, Trees
from refprior.data._patches import patch_features

_MAPS = {"bins": Bins, "trees": Trees, "neighbors": Neighbors}
_BLOCK = 1000  # inputs at a time
_SHORTEST = 1e-12  # the least length that an input is divided by
_NOTHING = 1e-9  # share of the first component's variance


@dataclass(frozen=True, eq=False)
class Normalizer:
    """A fitted transform from stored inputs to the inputs of a network.

    It maps x to (x - mean) / std, or to (x - mean) · axes if there are axes. Before that, x is divided by its length if
    ``shortest`` is given, or replaced by the features of its patches if there are filters, by bins, or by vectors of
    leaves. Means over neighbors are added last. The transforms of `refprior.data` fit one.

    Parameters
    ----------
    mean : Tensor, (channels, 1, 1), (...) or (D,)
        What is subtracted: the mean of each channel, the mean input, or the mean features of patches.
    std : Tensor, (channels, 1, 1), optional
        What is divided by.
    axes : Tensor, (D, J), optional
        Axes to project on.
    shortest : Tensor, (), optional
        Inputs are divided by their length, or by this if they are shorter.
    filters : Tensor, (F, channels, size, size), optional
        Filters of patches.
    offset : Tensor, (F,), optional
        Threshold of the response to each filter.
    contrast : Tensor, (), optional
        Added to the variance that a patch is divided by.
    columns : Tensor, (D,), optional
        Columns to take from wider inputs.
    bins : Bins, optional
        Bins of the numbers.
    trees : Trees, optional
        Trees with a vector in each leaf.
    neighbors : Neighbors, optional
        Anchors and what their neighbors get from them.
    parts : tuple of Normalizer, default: ()
        Transforms whose results are placed side by side; the rest is not used then.

    Examples
    --------
    >>> import torch
    >>> from refprior.data import Standardize
    >>> images = torch.tensor([[[[0.0, 4.0]]], [[[8.0, 4.0]]]])  # two images of one row
    >>> Standardize().fit([images])(images).flatten().tolist()  # doctest: +ELLIPSIS
    [-1.414..., 0.0, 1.414..., 0.0]
    """

    mean: Tensor
    std: Tensor | None = None
    axes: Tensor | None = None
    shortest: Tensor | None = None
    filters: Tensor | None = None
    offset: Tensor | None = None
    contrast: Tensor | None = None
    columns: Tensor | None = None
    bins: Bins | None = None
    trees: Trees | None = None
    neighbors: Neighbors | None = None
    parts: tuple["Normalizer", ...] = ()

    def __call__(self, inputs: Tensor) -> Tensor:
        """Transform inputs to floats of the same shape, or to components: (n, *shape) -> (n, *shape) or (n, J)."""
        if self.device not in (None, inputs.device):
            return self.to(inputs.device)(inputs)
        if self.columns is not None:
            inputs = inputs[:, self.columns]
        if self.parts:
            return torch.cat([part(inputs) for part in self.parts], 1)
        values = inputs.to(self.mean.dtype)
        if self.shortest is not None:
            values = _unit_length(values, float(self.shortest))
        if self.filters is not None and self.offset is not None and self.contrast is not None:
            cells = math.isqrt(len(self.mean) // len(self.filters))
            values = patch_features(values, self.filters, self.offset, self.contrast, cells=cells)
        for feature in (self.bins, self.trees):
            values = values if feature is None else feature(values)
        centered = values - self.mean
        if self.axes is not None:
            found = centered.flatten(1) @ self.axes
            return found if self.neighbors is None else self.neighbors(found)
        return centered if self.std is None else centered / self.std

    @cached_property
    def device(self) -> torch.device | None:
        """Where the tensors are; None if there are only single numbers."""
        return next((tensor.device for tensor in self.state_dict().values() if tensor.dim()), None)

    def to(self, device: torch.device) -> "Normalizer":
        """Move all tensors to a device but single numbers, for which the host would have to wait.

        Parameters
        ----------
        device : torch.device
            Where to move them.

        Returns
        -------
        Normalizer
            The same transform on that device.
        """
        tensors = self.state_dict().items()
        return Normalizer.from_tensors({name: t.to(device if t.dim() else "cpu") for name, t in tensors})

    def state_dict(self) -> dict[str, Tensor]:
        """Collect the fitted tensors.

        Returns
        -------
        dict of str to Tensor
            The tensors that are not None, by name; those of bins, trees, neighbors and parts after a dot.
        """
        found = {}
        for name, value in ((f.name, getattr(self, f.name)) for f in fields(self)):
            if isinstance(value, Tensor):
                found[name] = value
            elif isinstance(value, Bins | Trees | Neighbors):
                found |= {f"{name}.{f.name}": getattr(value, f.name) for f in fields(value)}
        for place, part in enumerate(self.parts):
            found |= {f"parts.{place}.{name}": tensor for name, tensor in part.state_dict().items()}
        return found

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> "Normalizer":
        """Invert `state_dict`.

        Parameters
        ----------
        tensors : mapping of str to Tensor
            The fitted tensors by name.

        Returns
        -------
        Normalizer
            The fitted transform; a TypeError or ValueError if the names do not fit.
        """
        groups: dict[str, Any] = {}
        for name, tensor in tensors.items():
            group, dot, rest = name.partition(".")
            if dot:
                groups.setdefault(group, {})[rest] = tensor
            else:
                groups[name] = tensor
        for name, kind in _MAPS.items():
            if name in groups:
                groups[name] = kind(**groups[name])
        numbered: dict[int, dict[str, Tensor]] = {}
        for name, tensor in groups.pop("parts", {}).items():
            place, _, rest = name.partition(".")
            numbered.setdefault(int(place), {})[rest] = tensor
        return cls(**groups, parts=tuple(cls.from_tensors(numbered[place]) for place in sorted(numbered)))


@dataclass(frozen=True)
class Standardize:
    """Inputs with mean 0 and one standard deviation per channel, over all training inputs.

    Parameters
    ----------
    center : {"channel", "pixel"}, default: "channel"
        Subtract the mean of each channel, or the mean image.
    scale : float, default: 1.0
        Standard deviation of the result.

    Examples
    --------
    >>> import torch
    >>> from refprior.data import Standardize
    >>> images = torch.randint(0, 256, (100, 1, 8, 8), dtype=torch.uint8)
    >>> inputs = Standardize(scale=0.5).fit([images])(images)
    >>> round(float(inputs.std()), 2)
    0.5
    """

    center: Literal["channel", "pixel"] = "channel"
    scale: float = 1.0

    def __post_init__(self) -> None:
        one_of("center", self.center, ("channel", "pixel"))
        number("scale", self.scale, above=0)

    def fit(self, parts: Sequence[Tensor]) -> Normalizer:
        """Fit mean and standard deviation.

        Parameters
        ----------
        parts : sequence of Tensor, (n, channels, ...)
            The inputs of all parts to train with.

        Returns
        -------
        Normalizer
            The fitted transform.
        """
        mean, std = _statistics(parts)
        if self.center == "pixel" and parts[0].dim() > 2:  # in a vector, each number is a channel
            mean = _mean_input(parts).to(mean.dtype)
            within = std.square() - mean.flatten(1).var(1, correction=0)  # the variance that is not between pixels
            std = torch.where(within > 1e-12, within, torch.ones_like(within)).sqrt()
        lead = (-1, *[1] * (parts[0].dim() - 2))
        return Normalizer(mean.reshape(lead) if mean.dim() == 1 else mean, (std / self.scale).reshape(lead))


@dataclass(frozen=True)
class PrincipalComponents:
    """The first principal components of the inputs, partially whitened.

    Gradient descent learns along the directions of largest variance first, and the largest variance bounds its step
    size. In photographs of clothes the first two components hold half of the variance, in digits a sixth: one learning
    rate does not suit both. It does after the first component is scaled to a fixed standard deviation.

    For vectors such as the features of a pretrained network, use ``PrincipalComponents(64, whitening=0,
    scaled="all")``: it centers and projects them and applies one scale, so that components have the standard deviation
    1 on average. Use ``unit_length=True`` to compare vectors by their angles, and ``standardize=True`` for features of
    different units, such as the columns of a table.

    Parameters
    ----------
    count : int, default: 64
        Number of components.
    whitening : float, default: 0.25
        Variances are raised to the power 1 - whitening, between 0 (as they are) and 1 (all equal).
    scale : float, default: 1.0
        Standard deviation of what is ``scaled``.
    unit_length : bool, default: False
        Divide every input by its length first.
    scaled : {"first", "all"}, default: "first"
        Whether ``scale`` holds for the first component, or for all of them on average.
    standardize : bool, default: False
        Divide every feature by its standard deviation first.

    Examples
    --------
    >>> import torch
    >>> from refprior.data import PrincipalComponents
    >>> images = torch.randint(0, 256, (100, 1, 8, 8), dtype=torch.uint8)
    >>> inputs = PrincipalComponents(count=5, scale=2.0).fit([images])(images)
    >>> tuple(inputs.shape), round(float(inputs[:, 0].square().mean().sqrt()), 2)
    ((100, 5), 2.0)
    """

    count: int = 64
    whitening: float = 0.25
    scale: float = 1.0
    unit_length: bool = False
    scaled: Literal["first", "all"] = "first"
    standardize: bool = False

    def __post_init__(self) -> None:
        whole_number("count", self.count, at_least=1)
        number("whitening", self.whitening, at_least=0, at_most=1)
        number("scale", self.scale, above=0)
        one_of("scaled", self.scaled, ("first", "all"))
        if self.standardize and self.unit_length:
            raise ValueError("standardize and unit_length cannot be combined: choose one of them")

    def fit(self, parts: Sequence[Tensor]) -> Normalizer:
        """Fit mean and axes.

        Parameters
        ----------
        parts : sequence of Tensor, (n, ...)
            The inputs of all parts to train with.

        Returns
        -------
        Normalizer
            The fitted transform.
        """
        shortest = _SHORTEST if self.unit_length else None
        mean, axes, spread = principal_axes(parts, self.count, self.whitening, shortest, self.standardize)
        size = spread.square().mean().sqrt().item() if self.scaled == "all" else 1.0  # 0 where nothing varies
        least = None if shortest is None else torch.tensor(shortest, dtype=mean.dtype)
        return Normalizer(mean, axes=axes * (self.scale / (size or 1.0)), shortest=least)


@dataclass(frozen=True)
class Identity:
    """The inputs as they are, as floats; int64 vectors such as token ids stay integers.

    Examples
    --------
    >>> import torch
    >>> from refprior.data import Identity
    >>> images = torch.tensor([[3], [5]], dtype=torch.uint8)
    >>> Identity().fit([images])(images).flatten().tolist()
    [3.0, 5.0]
    """

    def fit(self, parts: Sequence[Tensor]) -> Normalizer:
        """Return a transform that only changes the type.

        Parameters
        ----------
        parts : sequence of Tensor, (n, ...)
            The inputs of all parts to train with.

        Returns
        -------
        Normalizer
            The transform.
        """
        whole = parts[0].dtype == torch.int64
        return Normalizer(torch.zeros((), dtype=torch.int64 if whole else float_type(parts)))


def principal_axes(
    parts: Sequence[Tensor],
    count: int,
    whitening: float,
    shortest: float | None = None,
    standardize: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the mean, the axes of the first components, and the standard deviations along them: (n, *shape) each ->
    (*shape), (D, J), (J,).

    Along axis j the inputs have the standard deviation (λ_j / λ_1)^((1 - whitening) / 2), λ_j the variance of
    component j. One D × D matrix is held, in double precision. shortest: as in `Normalizer`.
    """
    features = math.prod(parts[0].shape[1:])
    if count > features:
        raise ValueError(f"inputs of {features} numbers have at most {features} components, got count={count}")
    total = sum(len(part) for part in parts)
    mean = _mean_input(parts, shortest).flatten()
    second = torch.zeros(features, features, dtype=torch.float64, device=parts[0].device)
    for block in _blocks(parts, shortest):
        centered = block.flatten(1).double() - mean
        second += centered.T @ centered
    second /= total
    spread = second.diagonal().sqrt()
    unit = torch.where(spread > 0, 1 / spread, 0) if standardize else torch.ones_like(spread)
    variances, axes = (value.flip(-1)[..., :count] for value in torch.linalg.eigh(unit[:, None] * second * unit))
    axes = (
        axes * axes.gather(0, axes.abs().argmax(0, keepdim=True)).sign()
    )  # the same on every machine: a run may be resumed on another
    relative = variances / variances[0] if variances[0] > 0 else torch.zeros_like(variances)
    # To standard deviations of relative^((1 - whitening) / 2). A component that does not vary is rounding error, which
    # must not be amplified.
    factor = torch.where(relative > _NOTHING, relative ** (-whitening / 2) / variances[0].sqrt(), 0)
    kind = float_type(parts)
    # In the memory order that files restore: a product with the same numbers in another order may round differently.
    axes = unit[:, None] * axes * factor
    return mean.reshape(parts[0].shape[1:]).to(kind), axes.to(kind).contiguous(), variances.clamp(min=0).sqrt() * factor


def _statistics(parts: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Return mean and standard deviation of each channel over all parts: (n, channels, ...) -> (channels,) each.

    In blocks and in double precision: CIFAR-10 as floats would take 600 MB, and long sums of floats lose digits.
    """
    count, total, square = 0, torch.zeros(()), torch.zeros(())
    for block in _blocks(parts):
        flat = block.double().transpose(0, 1).flatten(1)
        count, total, square = count + flat.shape[1], total + flat.sum(1), square + flat.square().sum(1)
    mean = total / count
    std = (square / count - mean.square()).clamp(min=0).sqrt()
    return mean.to(float_type(parts)), torch.where(std > 1e-6, std, torch.ones_like(std)).to(float_type(parts))


def _mean_input(parts: Sequence[Tensor], shortest: float | None = None) -> Tensor:
    """Return the mean over all inputs of all parts, in double precision: (n, *shape) -> (*shape)."""
    total = torch.zeros(parts[0].shape[1:], dtype=torch.float64, device=parts[0].device)
    for block in _blocks(parts, shortest):
        total += block.double().sum(0)
    return total / sum(len(part) for part in parts)


def _blocks(parts: Sequence[Tensor], shortest: float | None = None) -> Iterable[Tensor]:
    blocks = (block for part in parts if len(part) for block in part.split(_BLOCK))
    return blocks if shortest is None else (_unit_length(block.double(), shortest) for block in blocks)


def _unit_length(values: Tensor, shortest: float) -> Tensor:
    """Divide each input by its length: (n, *shape) -> (n, *shape). Zeros stay zeros."""
    lengths: Tensor = values.flatten(1).norm(dim=1).clamp(min=shortest)
    return values / lengths.reshape(-1, *[1] * (values.dim() - 1))


def float_type(parts: Sequence[Tensor]) -> torch.dtype:
    return torch.float64 if parts[0].dtype == torch.float64 else torch.float32
