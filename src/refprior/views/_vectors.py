"""Views of vectors: rows of a table, features of another network, sequences; they take inputs of any shape.

Some act on what the network sees, after the normalizer: they declare `normalized`. There zero is the mean and one the
standard deviation (with `Standardize()`), whatever the units of the data are.
"""

# n inputs

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from refprior._checks import whole_number
from refprior.views._checks import check_within


@dataclass(frozen=True)
class Dropout:
    """Each number of the normalized inputs set to zero, their mean, with probability `rate`.

    >>> import torch
    >>> import refprior as rp
    >>> inputs, generator = torch.ones(1000, 8), torch.Generator().manual_seed(0)
    >>> round(float(rp.views.Dropout(0.25)(inputs, generator).mean()), 2)
    0.75
    """

    rate: float = 0.1
    normalized: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_within(0, 1, rate=self.rate)

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        return torch.where(_chosen(images, self.rate, generator), torch.zeros_like(images), images)


@dataclass(frozen=True)
class Noise:
    """Normal noise on the normalized inputs; `scale` is its standard deviation, in units of theirs.

    >>> import torch
    >>> import refprior as rp
    >>> inputs, generator = torch.zeros(1000, 8), torch.Generator().manual_seed(0)
    >>> round(float(rp.views.Noise(0.5)(inputs, generator).std()), 1)
    0.5
    """

    scale: float = 0.1
    normalized: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_within(0, scale=self.scale)

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        drawn = torch.randn(images.shape, generator=generator, device=images.device)
        return images + self.scale * drawn.to(images.dtype)


@dataclass(frozen=True)
class Corrupt:
    """`Dropout`, then `Noise`: the strong view of vectors.

    >>> import torch
    >>> import refprior as rp
    >>> inputs, generator = torch.full((1000, 8), 10.0), torch.Generator().manual_seed(0)
    >>> round(float((rp.views.Corrupt(dropout=0.25, noise=0.5)(inputs, generator) < 5).double().mean()), 2)
    0.25
    """

    dropout: float = 0.3  # probability that a number is set to zero
    noise: float = 0.75  # standard deviation
    normalized: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_within(0, 1, dropout=self.dropout)
        check_within(0, noise=self.noise)

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        return Noise(self.noise)(Dropout(self.dropout)(images, generator), generator)


@dataclass(frozen=True)
class MixFeatures:
    """Each input mixed with another of the batch: (1 - λ) x + λ x', λ drawn evenly from 0 … `share` for each.

    The other one stands for noise that looks like the data; a share below 1/2 leaves the input the larger part.

    >>> import torch
    >>> import refprior as rp
    >>> inputs, generator = torch.tensor([[0.0], [1.0]]), torch.Generator().manual_seed(0)
    >>> mixed = rp.views.MixFeatures(0.4)(inputs, generator)
    >>> bool((mixed - inputs).abs().max() <= 0.4)
    True
    """

    share: float = 0.4
    normalized: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_within(0, 1, share=self.share)

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        n = len(images)
        if n < 2:
            return images
        further = torch.randint(1, n, (n,), generator=generator, device=images.device)
        other = images[(torch.arange(n, device=images.device) + further) % n]
        drawn = torch.rand((n, *[1] * (images.dim() - 1)), generator=generator, device=images.device)
        return images.lerp(other, (self.share * drawn).to(images.dtype))


@dataclass(frozen=True)
class SwapNoise:
    """Each number replaced, with probability `rate`, by the same feature of another row of the batch: for tables.

    What a feature becomes is always a value that it has in the data, so that categories and whole numbers stay such.

    >>> import torch
    >>> import refprior as rp
    >>> rows, generator = torch.tensor([[0, 10], [1, 11], [2, 12]]), torch.Generator().manual_seed(0)
    >>> swapped = rp.views.SwapNoise(0.5)(rows, generator)
    >>> bool(((swapped[:, 1] >= 10) & (swapped[:, 0] <= 2)).all())
    True
    """

    rate: float = 0.15

    def __post_init__(self) -> None:
        check_within(0, 1, rate=self.rate)

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        n = len(images)
        if n < 2:
            return images
        flat = images.flatten(1)
        further = torch.randint(1, n, flat.shape, generator=generator, device=images.device)
        other = (torch.arange(n, device=images.device)[:, None] + further) % n
        return torch.where(_chosen(flat, self.rate, generator), flat.gather(0, other), flat).reshape(images.shape)


@dataclass(frozen=True)
class DropTokens:
    """Each token id replaced by `token`, the id of a mask or of padding, with probability `rate`.

    >>> import torch
    >>> import refprior as rp
    >>> ids, generator = torch.full((1000, 8), 7), torch.Generator().manual_seed(0)
    >>> round(float((rp.views.DropTokens(0.25, token=0)(ids, generator) == 0).double().mean()), 2)
    0.25
    """

    rate: float = 0.1
    token: int = 0

    def __post_init__(self) -> None:
        check_within(0, 1, rate=self.rate)
        whole_number("token", self.token, at_least=0)

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        if images.dtype != torch.int64:
            raise ValueError(f"this view takes token ids, whole numbers (n, length) of int64, got {images.dtype}")
        return torch.where(_chosen(images, self.rate, generator), self.token, images)


def _chosen(inputs: Tensor, rate: float, generator: torch.Generator) -> Tensor:
    """Places that are drawn with this probability: (n, *shape) -> (n, *shape)."""
    return torch.rand(inputs.shape, generator=generator, device=inputs.device) < rate
