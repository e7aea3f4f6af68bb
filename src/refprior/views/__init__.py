"""Views: batched functions of (images, generator) that draw a transformation for every image.

A view is any callable (n, *shape), torch.Generator -> (n, *shape); a user's own function is one. It gets the inputs as
they are stored; one with an attribute `normalized = True` gets what the network would see.
"""

from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from refprior.views._affine import Distort, Shift, affine, cutout, noise, shift
from refprior.views._ctaugment import CTAugment
from refprior.views._defaults import View, default_views
from refprior.views._randaugment import RandAugment
from refprior.views._vectors import Corrupt, Dropout, DropTokens, MixFeatures, Noise, SwapNoise
from refprior.views._weak import FlipCrop, Unchanged


@runtime_checkable
class Learning(Protocol):
    """A view that learns while it is used as the strong one: each step it is told how well its probes were recognized.

    What it has learned belongs in its `state_dict`, which is saved in the checkpoint.

    >>> import refprior as rp
    >>> isinstance(rp.views.CTAugment(), rp.views.Learning), isinstance(rp.views.RandAugment(), rp.views.Learning)
    (True, False)
    """

    def __call__(self, images: Tensor, generator: torch.Generator, /) -> Tensor: ...

    def probe(self, images: Tensor, generator: torch.Generator, /) -> tuple[Tensor, Any]:
        """Views of labeled images, and what was drawn for them."""

    def update(self, policy: Any, proximity: Tensor, /) -> None:
        """Learn from what was drawn and the probability (n,) that the true classes then got."""


__all__ = [
    "CTAugment",
    "Corrupt",
    "Distort",
    "DropTokens",
    "Dropout",
    "FlipCrop",
    "Learning",
    "MixFeatures",
    "Noise",
    "RandAugment",
    "Shift",
    "SwapNoise",
    "Unchanged",
    "View",
    "affine",
    "cutout",
    "default_views",
    "noise",
    "shift",
]
