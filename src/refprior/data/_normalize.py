"""From inputs as they are stored to those of a network: a recipe says how, and `fit` finds the numbers once.

The fitted `Normalizer` is saved with the weights, so that a trained network never depends on data that may change.
"""

# n inputs of D numbers, J components

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Literal

import torch
from torch import Tensor

from refprior._checks import number, one_of, whole_number
from refprior.data._patches import patch_features

_BLOCK = 1000  # images at a time
_SHORTEST = 1e-12  # length that an input is divided by at least
_NOTHING = 1e-9  # share of the first component's variance


@dataclass(frozen=True, eq=False)
class Normalizer:
    """x ↦ (x - mean) / std, or with axes x ↦ (x - mean) · axes; before it x ↦ x / |x| if `shortest` is given, or with
    filters x ↦ features of the patches of x (`PatchComponents`).

    >>> import torch
    >>> from refprior.data import Standardize
    >>> images = torch.tensor([[[[0.0, 4.0]]], [[[8.0, 4.0]]]])  # two images of one row
    >>> Standardize().fit([images])(images).flatten().tolist()  # doctest: +ELLIPSIS
    [-1.414..., 0.0, 1.414..., 0.0]
    """

    mean: Tensor  # (channels, 1, 1), (*shape) where the mean image is taken away, or (D,) where there are filters
    std: Tensor | None = None  # (channels, 1, 1)
    axes: Tensor | None = None  # (D, J)
    shortest: Tensor | None = None  # (), inputs are divided by their length, or by this if they are shorter
    filters: Tensor | None = None  # (F, channels, size, size) of patches
    offset: Tensor | None = None  # (F,) what responses to filters must be above
    contrast: Tensor | None = None  # (), added to the variance that a patch is divided by

    def __call__(self, images: Tensor) -> Tensor:
        """Floats of the same shape, or components: (n, *shape) -> (n, *shape) or (n, J)."""
        mean = self.mean.to(images.device)
        values = images.to(mean.dtype)
        if self.shortest is not None:
            values = _unit_length(values, float(self.shortest))
        if self.filters is not None and self.offset is not None and self.contrast is not None:
            filters, offset, contrast = (x.to(images.device) for x in (self.filters, self.offset, self.contrast))
            values = patch_features(values, filters, offset, contrast, cells=math.isqrt(len(mean) // len(filters)))
        centered = values - mean
        if self.axes is not None:
            return centered.flatten(1) @ self.axes.to(images.device)
        return centered if self.std is None else centered / self.std.to(images.device)

    def state_dict(self) -> dict[str, Tensor]:
        """The fitted numbers by name."""
        numbers = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: tensor for name, tensor in numbers.items() if tensor is not None}


@dataclass(frozen=True)
class Standardize:
    """Mean 0 and one standard deviation per channel, over all inputs to train with.

    >>> import torch
    >>> from refprior.data import Standardize
    >>> images = torch.randint(0, 256, (100, 1, 8, 8), dtype=torch.uint8)
    >>> inputs = Standardize(scale=0.5).fit([images])(images)
    >>> round(float(inputs.std()), 2)
    0.5
    """

    center: Literal["channel", "pixel"] = "channel"  # subtract the mean of a channel, or the mean image
    scale: float = 1.0  # standard deviation of the inputs

    def __post_init__(self) -> None:
        one_of("center", self.center, ("channel", "pixel"))
        number("scale", self.scale, above=0)

    def fit(self, parts: Sequence[Tensor]) -> Normalizer:
        """The statistics of all parts together: (n, channels, ...) each."""
        mean, std = _statistics(parts)
        if self.center == "pixel" and parts[0].dim() > 2:  # of a vector, each number is a channel
            mean = _mean_image(parts).to(mean.dtype)
            within = std.square() - mean.flatten(1).var(1, correction=0)  # of the total, what is not between pixels
            std = torch.where(within > 1e-12, within, torch.ones_like(within)).sqrt()
        lead = (-1, *[1] * (parts[0].dim() - 2))
        return Normalizer(mean.reshape(lead) if mean.dim() == 1 else mean, (std / self.scale).reshape(lead))


@dataclass(frozen=True)
class PrincipalComponents:
    """The first principal components in place of the features, brought a little nearer to each other in size.

    Gradient descent learns along the directions of largest variance first, and its step size is bounded by the
    largest. In photographs of clothes the first two components hold half of the variance, in digits a sixth: with one
    learning rate, networks do not learn both equally well. Components with a fixed first standard deviation do.

    `PrincipalComponents(64, whitening=0, scaled="all")` is for vectors such as the features of a pretrained network:
    their mean is taken away, they are projected, and all have one scale, so that a number of theirs has the standard
    deviation 1 on average. `unit_length=True` compares them by their angles, `standardize=True` is for features of
    different units, the columns of a table.

    >>> import torch
    >>> from refprior.data import PrincipalComponents
    >>> images = torch.randint(0, 256, (100, 1, 8, 8), dtype=torch.uint8)
    >>> inputs = PrincipalComponents(count=5, scale=2.0).fit([images])(images)
    >>> tuple(inputs.shape), round(float(inputs[:, 0].square().mean().sqrt()), 2)
    ((100, 5), 2.0)
    """

    count: int = 64
    whitening: float = 0.25  # 0 … 1: variances are raised to the power 1 - whitening
    scale: float = 1.0  # standard deviation of what is `scaled`
    unit_length: bool = False  # every input is divided by its length first
    scaled: Literal["first", "all"] = "first"  # the first component, or all of them on average
    standardize: bool = False  # every feature is divided by its standard deviation first

    def __post_init__(self) -> None:
        whole_number("count", self.count, at_least=1)
        number("whitening", self.whitening, at_least=0, at_most=1)
        number("scale", self.scale, above=0)
        one_of("scaled", self.scaled, ("first", "all"))
        if self.standardize and self.unit_length:
            raise ValueError("choose one of standardize and unit_length: the length of features in units of their own")

    def fit(self, parts: Sequence[Tensor]) -> Normalizer:
        """The axes of all parts together: (n, *shape) each."""
        shortest = _SHORTEST if self.unit_length else None
        mean, axes, spread = principal_axes(parts, self.count, self.whitening, shortest, self.standardize)
        size = spread.square().mean().sqrt().item() if self.scaled == "all" else 1.0  # 0 where nothing varies
        kept = None if shortest is None else torch.tensor(shortest, dtype=mean.dtype)
        return Normalizer(mean, axes=axes * (self.scale / (size or 1.0)), shortest=kept)


@dataclass(frozen=True)
class Identity:
    """The inputs as they are, as floats; whole numbers of vectors, which are int64, stay such: token ids.

    >>> import torch
    >>> from refprior.data import Identity
    >>> images = torch.tensor([[3], [5]], dtype=torch.uint8)
    >>> Identity().fit([images])(images).flatten().tolist()
    [3.0, 5.0]
    """

    def fit(self, parts: Sequence[Tensor]) -> Normalizer:
        """Nothing to find out."""
        whole = parts[0].dtype == torch.int64
        return Normalizer(torch.zeros((), dtype=torch.int64 if whole else float_type(parts)))


def principal_axes(
    parts: Sequence[Tensor],
    count: int,
    whitening: float,
    shortest: float | None = None,
    standardize: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """The mean image, the axes of the first components, and the inputs' spread along them: (n, *shape) -> (*shape),
    (D, J), (J,).

    Along axis j the images have the standard deviation (λ_j / λ_1)^((1 - whitening) / 2), λ_j the variance of
    component j. One D × D matrix is kept, in double precision. shortest: as in `Normalizer`.
    """
    pixels = math.prod(parts[0].shape[1:])
    if count > pixels:
        raise ValueError(f"inputs of {pixels} numbers have at most {pixels} components, got count={count}")
    total = sum(len(part) for part in parts)
    mean = _mean_image(parts, shortest).flatten()
    second = torch.zeros(pixels, pixels, dtype=torch.float64, device=parts[0].device)
    for block in _blocks(parts, shortest):
        centered = block.flatten(1).double() - mean
        second += centered.T @ centered
    second /= total
    spread = second.diagonal().sqrt()
    unit = torch.where(spread > 0, 1 / spread, 0) if standardize else torch.ones_like(spread)
    variances, axes = (value.flip(-1)[..., :count] for value in torch.linalg.eigh(unit[:, None] * second * unit))
    axes = axes * axes.gather(0, axes.abs().argmax(0, keepdim=True)).sign()  # the same on every machine: a run may move
    relative = variances / variances[0] if variances[0] > 0 else torch.zeros_like(variances)
    # To standard deviations of relative^((1 - whitening) / 2). A component that does not vary is rounding, which no
    # division may blow up.
    factor = torch.where(relative > _NOTHING, relative ** (-whitening / 2) / variances[0].sqrt(), 0)
    kind = float_type(parts)
    # In the order in which files keep it: a product with the same numbers in another order may round otherwise.
    axes = unit[:, None] * axes * factor
    return mean.reshape(parts[0].shape[1:]).to(kind), axes.to(kind).contiguous(), variances.clamp(min=0).sqrt() * factor


def _statistics(parts: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each channel over all parts: (n, channels, ...) -> (channels,), (channels,).

    In blocks, and in double precision: CIFAR-10 as floats would take 600 MB, and long sums of floats lose digits.
    """
    count, total, square = 0, torch.zeros(()), torch.zeros(())
    for block in _blocks(parts):
        flat = block.double().transpose(0, 1).flatten(1)
        count, total, square = count + flat.shape[1], total + flat.sum(1), square + flat.square().sum(1)
    mean = total / count
    std = (square / count - mean.square()).clamp(min=0).sqrt()
    return mean.to(float_type(parts)), torch.where(std > 1e-6, std, torch.ones_like(std)).to(float_type(parts))


def _mean_image(parts: Sequence[Tensor], shortest: float | None = None) -> Tensor:
    """The mean over all inputs of all parts, in double precision: (n, *shape) -> (*shape)."""
    total = torch.zeros(parts[0].shape[1:], dtype=torch.float64, device=parts[0].device)
    for block in _blocks(parts, shortest):
        total += block.double().sum(0)
    return total / sum(len(part) for part in parts)


def _blocks(parts: Sequence[Tensor], shortest: float | None = None) -> Iterable[Tensor]:
    blocks = (block for part in parts if len(part) for block in part.split(_BLOCK))
    return blocks if shortest is None else (_unit_length(block.double(), shortest) for block in blocks)


def _unit_length(values: Tensor, shortest: float) -> Tensor:
    """Each input divided by its length: (n, *shape) -> (n, *shape). One of zeros stays as it is."""
    lengths: Tensor = values.flatten(1).norm(dim=1).clamp(min=shortest)
    return values / lengths.reshape(-1, *[1] * (values.dim() - 1))


def float_type(parts: Sequence[Tensor]) -> torch.dtype:
    return torch.float64 if parts[0].dtype == torch.float64 else torch.float32
