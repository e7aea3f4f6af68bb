"""One operation for every image of a batch: images are sorted by operation, each group is changed at once."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from refprior.views._motions import warp

# Numbers in [0, 1) that are drawn for every image and operation: the magnitude, a second parameter, two free ones.
DRAWS = 4

Pixels = Callable[[Tensor, Tensor], Tensor]  # (n, c, h, w) images, (n, DRAWS) -> images
Motion = Callable[[Tensor, int, int], Tensor]  # (n, DRAWS), height, width -> (n, 6), see motions


@dataclass(frozen=True)
class Table:
    """The operations to choose from, by their names: those that leave the image, change its pixels, or move them."""

    unchanged: tuple[str, ...]
    pixels: dict[str, Pixels]
    motions: dict[str, Motion]

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.unchanged, *self.pixels, *self.motions)


def apply(images: Tensor, table: Table, chosen: Tensor, draws: Tensor) -> Tensor:
    """Operation number `chosen` (n,) of the table's names, with its draws (n, DRAWS), for each image."""
    order = chosen.argsort()
    back = torch.empty_like(order)
    back[order] = torch.arange(len(order), device=order.device)
    counts = torch.bincount(chosen, minlength=len(table.names)).tolist()
    groups = images.index_select(0, order).split(counts)  # copies whole images, unlike images[order]
    numbers = draws[order].split(counts)
    still, changing = len(table.unchanged), len(table.unchanged) + len(table.pixels)
    changed = list(groups[:still])
    for operation, group, number in zip(
        table.pixels.values(), groups[still:changing], numbers[still:changing], strict=True
    ):
        changed.append(operation(group, number) if len(group) else group)
    changed.append(_moved(torch.cat(groups[changing:]), table, numbers[changing:]))
    return torch.cat(changed).index_select(0, back)


def _moved(images: Tensor, table: Table, numbers: tuple[Tensor, ...]) -> Tensor:
    """All motions as one gather."""
    if not len(images):
        return images
    height, width = images.shape[2:]
    motions = zip(table.motions.values(), numbers, strict=True)
    return warp(images, torch.cat([motion(number, height, width) for motion, number in motions]))
