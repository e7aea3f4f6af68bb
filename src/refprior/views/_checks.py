"""What a view refuses: settings that are not numbers of their range, images that are not bytes, too large a hole."""

from typing import Any

import torch
from torch import Tensor

from refprior._checks import number, whole_number


def check_whole(low: int, high: int | None = None, **settings: Any) -> None:
    """Refuse settings that are not whole numbers of low … high, by their names."""
    for name, value in settings.items():
        whole_number(name, value, at_least=low, at_most=high)


def check_within(low: float, high: float | None = None, **settings: Any) -> None:
    """Refuse settings that are not finite numbers of low … high, by their names."""
    for name, value in settings.items():
        number(name, value, at_least=low, at_most=high)


def check_view(name: str, view: Any) -> None:
    """Refuse what cannot be called."""
    if not callable(view) or isinstance(view, type):
        raise ValueError(f"{name} must be a view such as FlipCrop(), got {view!r}")


def check_hole(size: int, images: Tensor) -> None:
    """Refuse a cutout that is larger than the images: it could paint over all of one."""
    height, width = images.shape[-2:]
    if size > min(height, width):
        raise ValueError(f"a cutout of {size} pixels does not fit into images of {height}×{width}: lower cutout")


def check_bytes(images: Tensor) -> None:
    """Refuse floats: a gray level of 127 would be painted into images of 0 … 1."""
    if images.dtype != torch.uint8:
        raise ValueError(f"this view takes uint8 images of 0 … 255, got {images.dtype}")
