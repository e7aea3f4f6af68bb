"""What a view is, and which views suit inputs of a kind and shape."""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from refprior._checks import one_of
from refprior._kinds import KINDS, Kind
from refprior.views._images import Distort, FlipCrop, Shift
from refprior.views._randaugment import RandAugment
from refprior.views._vectors import Corrupt, DropTokens, Noise

View = Callable[[Tensor, torch.Generator], Tensor]
_SMALL = 16  # pixels; a smaller digit rotated by ten degrees moves by less than one


@runtime_checkable
class Learning(Protocol):
    """A strong view that learns during training.

    Each step it views labeled inputs, the probes, and receives how well they were recognized. Its state belongs in its
    ``state_dict``, which is saved in the checkpoint.

    Examples
    --------
    >>> import refprior as rp
    >>> isinstance(rp.views.CTAugment(), rp.views.Learning), isinstance(rp.views.RandAugment(), rp.views.Learning)
    (True, False)
    """

    def __call__(self, inputs: Tensor, generator: torch.Generator, /) -> Tensor: ...

    def probe(self, inputs: Tensor, generator: torch.Generator, /) -> tuple[Tensor, Any]:
        """View labeled inputs.

        Parameters
        ----------
        inputs : Tensor, (n, *shape)
            Labeled inputs.
        generator : torch.Generator
            Source of all random draws.

        Returns
        -------
        views : Tensor, (n, *shape)
            The views.
        policy : object
            What was drawn for them, for `update`.
        """

    def update(self, policy: object, proximity: Tensor, /) -> None:
        """Learn from the probes.

        Parameters
        ----------
        policy : object
            What `probe` drew.
        proximity : Tensor, (n,)
            Predicted probability of each true class.
        """


def default_views(kind: Kind | None, shape: tuple[int, ...]) -> tuple[View, View]:
    """Choose the weak and the strong view for inputs of a kind and shape.

    All lengths are shares of the image's shorter side.

    Parameters
    ----------
    kind : {"digits", "photos", "objects", "vectors", "tokens"}
        What the inputs show. Digits, letters and other signs are moved and distorted, and never mirrored. Photos are
        mirrored, moved, and changed by RandAugment with a cutout of half the side, as in FixMatch. Objects are single
        things on a plain ground, such as clothes: the same with smaller moves and cutouts. Vectors get noise, and
        numbers set to zero. Tokens are replaced by id 0. None, the kind of unknown data, is rejected: a view that
        mirrors would spoil digits.
    shape : tuple of int
        Shape of one input.

    Returns
    -------
    weak, strong : callable
        The two views.

    Raises
    ------
    ValueError
        If the kind is unknown, or images are expected and the shape is not (channels, height, width).

    Examples
    --------
    >>> import refprior as rp
    >>> rp.views.default_views("digits", (1, 8, 8))
    (Shift(pixels=1), Distort(degrees=15.0, scale=0.15, pixels=1, noise=16.0, cutout=2))
    """
    one_of("kind", kind, KINDS)
    if kind in ("vectors", "tokens"):
        return (Noise(0.75), Corrupt()) if kind == "vectors" else (DropTokens(0.05), DropTokens(0.2))
    if len(shape) != 3:
        raise ValueError(f"{kind} are images (channels, height, width), got {shape}: say kind='vectors'")
    side = min(shape[-2:])
    little = max(1 if side < _SMALL else 2, round(side / 14))
    if kind == "digits":
        gentle = Distort(degrees=10, scale=0.1, pixels=little, noise=0, cutout=0)
        return Shift(little) if side < _SMALL else gentle, Distort(pixels=little, cutout=round(2 * side / 7))
    weak = FlipCrop(pad=max(1, side // 8) if kind == "photos" else little)
    return weak, RandAugment(weak=weak, cutout=side // 2 if kind == "photos" else round(5 * side / 14))
