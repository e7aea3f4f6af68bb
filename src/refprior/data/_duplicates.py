"""Images that are in two parts at once."""

from torch import Tensor


def duplicates(first: Tensor, second: Tensor) -> list[tuple[int, int]]:
    """Index pairs (i, j) with first[i] equal to second[j], pixel by pixel: (n, *shape), (m, *shape).

    >>> import torch
    >>> import refprior as rp
    >>> images = torch.arange(5).reshape(5, 1)
    >>> rp.data.duplicates(images, images[3:])
    [(3, 0), (4, 1)]
    """
    where: dict[bytes, list[int]] = {}
    for j, image in enumerate(second.cpu().numpy()):
        where.setdefault(image.tobytes(), []).append(j)
    return [(i, j) for i, image in enumerate(first.cpu().numpy()) for j in where.get(image.tobytes(), [])]
