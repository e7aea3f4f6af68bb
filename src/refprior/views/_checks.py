"""What a view refuses: settings outside their range, and images that are not bytes."""

import math

import torch
from torch import Tensor


def check_within(low: float, high: float, **settings: float) -> None:
    """Refuse settings that are not numbers of low … high, by their names."""
    for name, value in settings.items():
        if not low <= value <= high:
            allowed = f"at least {low:g}" if high == math.inf else f"within {low:g} … {high:g}"
            raise ValueError(f"{name} must be {allowed}, got {value}")


def check_bytes(images: Tensor) -> None:
    """Refuse floats: a grey level of 127 would be painted into images of 0 … 1."""
    if images.dtype != torch.uint8:
        raise ValueError(f"this view takes uint8 images of 0 … 255, got {images.dtype}")
