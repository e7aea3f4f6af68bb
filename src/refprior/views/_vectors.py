"""Views of vectors: rows of a table, features of another network, sequences; they take inputs of any shape.

Some act on the inputs of the network, after the normalizer: they declare ``normalized = True``. There zero is the mean
and one the standard deviation (with `Standardize()`), whatever the units of the data are.
"""

# n inputs

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from refprior._checks import number, whole_number


@dataclass(frozen=True)
class Dropout:
    """Set each number of the normalized inputs to zero, their mean, at random.

    Parameters
    ----------
    rate : float, default: 0.1
        Probability of zero for each number.

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> inputs, generator = torch.ones(1000, 8), torch.Generator().manual_seed(0)
    >>> round(float(rp.views.Dropout(0.25)(inputs, generator).mean()), 2)
    0.75
    """

    rate: float = 0.1
    normalized: ClassVar[bool] = True

    def __post_init__(self) -> None:
        number("rate", self.rate, at_least=0, at_most=1)

    def __call__(self, inputs: Tensor, generator: torch.Generator) -> Tensor:
        return torch.where(_chosen(inputs, self.rate, generator), torch.zeros_like(inputs), inputs)


@dataclass(frozen=True)
class Noise:
    """Add normal noise to the normalized inputs.

    Parameters
    ----------
    scale : float, default: 0.1
        Standard deviation of the noise, in units of the inputs' standard deviation.

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> inputs, generator = torch.zeros(1000, 8), torch.Generator().manual_seed(0)
    >>> round(float(rp.views.Noise(0.5)(inputs, generator).std()), 1)
    0.5
    """

    scale: float = 0.1
    normalized: ClassVar[bool] = True

    def __post_init__(self) -> None:
        number("scale", self.scale, at_least=0)

    def __call__(self, inputs: Tensor, generator: torch.Generator) -> Tensor:
        drawn = torch.randn(inputs.shape, generator=generator, device=inputs.device)
        return inputs + self.scale * drawn.to(inputs.dtype)


@dataclass(frozen=True)
class Corrupt:
    """Strong view of vectors: `Dropout`, then `Noise`.

    Parameters
    ----------
    dropout : float, default: 0.3
        Probability that a number is set to zero.
    noise : float, default: 0.75
        Standard deviation of the noise.

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> inputs, generator = torch.full((1000, 8), 10.0), torch.Generator().manual_seed(0)
    >>> round(float((rp.views.Corrupt(dropout=0.25, noise=0.5)(inputs, generator) < 5).double().mean()), 2)
    0.25
    """

    dropout: float = 0.3
    noise: float = 0.75
    normalized: ClassVar[bool] = True

    def __post_init__(self) -> None:
        number("dropout", self.dropout, at_least=0, at_most=1)
        number("noise", self.noise, at_least=0)

    def __call__(self, inputs: Tensor, generator: torch.Generator) -> Tensor:
        return Noise(self.noise)(Dropout(self.dropout)(inputs, generator), generator)


@dataclass(frozen=True)
class MixFeatures:
    """Mix each input with another one of the batch.

    The view of x is (1 - λ) x + λ x', with λ drawn uniformly from 0 … share for each input. The other input x' acts as
    noise that looks like the data; a share below 1/2 leaves x the larger part.

    Parameters
    ----------
    share : float, default: 0.4
        Largest share λ of the other input.

    Examples
    --------
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
        number("share", self.share, at_least=0, at_most=1)

    def __call__(self, inputs: Tensor, generator: torch.Generator) -> Tensor:
        n = len(inputs)
        if n < 2:
            return inputs
        further = torch.randint(1, n, (n,), generator=generator, device=inputs.device)
        other = inputs[(torch.arange(n, device=inputs.device) + further) % n]
        drawn = torch.rand((n, *[1] * (inputs.dim() - 1)), generator=generator, device=inputs.device)
        return inputs.lerp(other, (self.share * drawn).to(inputs.dtype))


@dataclass(frozen=True)
class SwapNoise:
    """Replace numbers by the same feature of another row of the batch, for tables.

    The new value of a feature always occurs in the data, so that categories stay categories and whole numbers stay
    whole.

    Parameters
    ----------
    rate : float, default: 0.15
        Probability that a number is replaced.

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> rows, generator = torch.tensor([[0, 10], [1, 11], [2, 12]]), torch.Generator().manual_seed(0)
    >>> swapped = rp.views.SwapNoise(0.5)(rows, generator)
    >>> bool(((swapped[:, 1] >= 10) & (swapped[:, 0] <= 2)).all())
    True
    """

    rate: float = 0.15

    def __post_init__(self) -> None:
        number("rate", self.rate, at_least=0, at_most=1)

    def __call__(self, inputs: Tensor, generator: torch.Generator) -> Tensor:
        n = len(inputs)
        if n < 2:
            return inputs
        flat = inputs.flatten(1)
        further = torch.randint(1, n, flat.shape, generator=generator, device=inputs.device)
        other = (torch.arange(n, device=inputs.device)[:, None] + further) % n
        return torch.where(_chosen(flat, self.rate, generator), flat.gather(0, other), flat).reshape(inputs.shape)


@dataclass(frozen=True)
class DropTokens:
    """Replace token ids at random by the id of a mask or of padding.

    Parameters
    ----------
    rate : float, default: 0.1
        Probability that an id is replaced.
    token : int, default: 0
        The id that replaces it.

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> ids, generator = torch.full((1000, 8), 7), torch.Generator().manual_seed(0)
    >>> round(float((rp.views.DropTokens(0.25, token=0)(ids, generator) == 0).double().mean()), 2)
    0.25
    """

    rate: float = 0.1
    token: int = 0

    def __post_init__(self) -> None:
        number("rate", self.rate, at_least=0, at_most=1)
        whole_number("token", self.token, at_least=0)

    def __call__(self, inputs: Tensor, generator: torch.Generator) -> Tensor:
        if inputs.dtype != torch.int64:
            raise ValueError(f"this view takes token ids, whole numbers (n, length) of int64, got {inputs.dtype}")
        return torch.where(_chosen(inputs, self.rate, generator), self.token, inputs)


def _chosen(inputs: Tensor, rate: float, generator: torch.Generator) -> Tensor:
    """Choose each place with this probability: (n, *shape) -> (n, *shape)."""
    return torch.rand(inputs.shape, generator=generator, device=inputs.device) < rate
