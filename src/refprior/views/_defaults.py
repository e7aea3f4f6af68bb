"""Which views suit a data set."""

from refprior.views._affine import Distort, Shift
from refprior.views._randaugment import RandAugment
from refprior.views._weak import FlipCrop

Weak = Shift | FlipCrop
Strong = Distort | RandAugment

_DIGITS = Shift(), Distort()
_MNIST = Shift(2), Distort(degrees=15, scale=0.15, pixels=2, noise=16, cutout=8)


def default_views(name: str, shape: tuple[int, ...]) -> tuple[Weak, Strong]:
    """(weak, strong) for a task by its name and image shape.

    Digits are moved and distorted: their mirror images are no digits. Other images are flipped and cropped, and
    strongly changed by RandAugment with a cutout of half the image, as in FixMatch.

    >>> import refprior as rp
    >>> rp.views.default_views("digits", (1, 8, 8))[0]
    Shift(pixels=1)
    """
    if len(shape) != 3:
        raise ValueError(f"default views are for images (channels, height, width), got {shape}: see Dropout, SwapNoise")
    if name.startswith(("digits", "mnist")):
        return _DIGITS if shape[-1] < 16 else _MNIST
    side = min(shape[-2:])
    weak = FlipCrop(pad=max(1, side // 8))
    return weak, RandAugment(weak=weak, cutout=side // 2)
