"""Views: batched functions of (images, generator) that draw a transformation for every image.

A view is any callable (n, *shape), torch.Generator -> (n, *shape); a user's own function is one.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from refprior.views.affine import Distort, Shift, affine, cutout, noise, shift
from refprior.views.ctaugment import CTAugment
from refprior.views.defaults import default_views
from refprior.views.randaugment import RandAugment
from refprior.views.weak import FlipCrop

View = Callable[[Tensor, torch.Generator], Tensor]


def unchanged(images: Tensor, generator: torch.Generator) -> Tensor:
    """The view that changes nothing."""
    return images


__all__ = [
    "CTAugment",
    "Distort",
    "FlipCrop",
    "RandAugment",
    "Shift",
    "View",
    "affine",
    "cutout",
    "default_views",
    "noise",
    "shift",
    "unchanged",
]
