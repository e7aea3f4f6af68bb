"""Pillow as the oracle: images to try, and an operation of Pillow on a batch, one image after the other."""

from collections.abc import Callable

import numpy as np
import torch
from PIL import Image
from torch import Tensor

Picture = Image.Image
Oracle = Callable[[Picture, float], Picture]


def pictures(channels: int) -> Tensor:
    """24 images of 20×24: noise, low-contrast noise, ramps, flat ones, two-valued ones."""
    random = np.random.RandomState(0)
    noise = random.randint(0, 256, (8, channels, 20, 24))
    faint = random.randint(90, 130, (4, channels, 20, 24))
    ramp = (np.arange(20)[:, None] * 7 + np.arange(24) * 5 + np.arange(4)[:, None, None, None]) % 256
    flat = np.arange(0, 256, 64)[:, None, None, None] * np.ones((1, channels, 20, 24))
    two = np.where(random.rand(4, channels, 20, 24) < 0.9, 17, 203)
    parts = [noise, faint, np.broadcast_to(ramp, (4, channels, 20, 24)), flat, two]
    return torch.from_numpy(np.concatenate(parts).astype(np.uint8))


def to_picture(image: Tensor) -> Picture:
    return Image.fromarray(image[0].numpy() if len(image) == 1 else image.permute(1, 2, 0).numpy())


def from_picture(picture: Picture) -> Tensor:
    pixels = torch.from_numpy(np.array(picture))
    return pixels[None] if pixels.dim() == 2 else pixels.permute(2, 0, 1)


def by_pillow(images: Tensor, oracle: Oracle, magnitude: Tensor) -> Tensor:
    return torch.stack(
        [from_picture(oracle(to_picture(i), m)) for i, m in zip(images, magnitude.tolist(), strict=True)]
    )


def difference(a: Tensor, b: Tensor) -> int:
    assert a.dtype == b.dtype == torch.uint8
    return int((a.int() - b.int()).abs().max())
