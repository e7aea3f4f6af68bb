"""Kinds of small patches, found without labels, and how often each occurs in every part of an image.

As Coates and Ng do ("Learning Feature Representations with K-means", 2012): patches are brought to one contrast and
whitened, k-means finds their kinds, and a patch is of a kind as far as it resembles it by more than a threshold.
"""

# n images of c channels, patches of s × s pixels, N = c s² numbers in a patch, P patches in an image, F kinds of
# patches, g × g cells of an image

from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional

STRIDE = 2  # pixels from a patch to the next
_ROUNDS = 10  # of k-means
_CONTRAST = 0.05  # of the mean variance of a patch: what is added to the variance of each
_WHITENING = 0.1  # added to variances along the axes of patches, which are 1 on average
_IN_CACHE = 16  # images at a time: the responses of more leave the processor's cache, which takes twice as long


def patch_features(images: Tensor, filters: Tensor, offset: Tensor, contrast: Tensor, cells: int) -> Tensor:
    """Return the root of the mean response of every filter in every cell of an image: (n, c, h, w) -> (n, F g²).

    The root brings the counts of rare and frequent kinds closer together. An exported graph has no blocks, since its
    number of images is not known.
    """
    rows, columns = ((side - filters.shape[-1]) // STRIDE + 1 for side in images.shape[2:])  # of patches
    if torch.compiler.is_exporting():
        blocks, shares = (images,), cell_shares(rows, columns, cells).to(images)
    else:
        blocks, shares = images.split(_IN_CACHE), _shares_like(rows, columns, cells, images.device, images.dtype)
    means = [responses(block, filters, offset, contrast).flatten(2) @ shares for block in blocks]
    return torch.cat(means).flatten(1).sqrt()


def responses(images: Tensor, filters: Tensor, offset: Tensor, contrast: Tensor) -> Tensor:
    """Return max(0, a_f · x / √(var(x) + contrast) - offset_f) of every patch x: (n, c, h, w) -> (n, F, rows, columns).

    The filters a_f are invariant to the gray level: they combine centering and whitening of the patch with its kind.
    """
    gray, square = (x.mean(1, keepdim=True) for x in (images, images.square()))
    mean, second = (functional.avg_pool2d(x, filters.shape[-1], STRIDE) for x in (gray, square))
    size = ((second - mean.square()).clamp(min=0) + contrast).rsqrt()
    found = functional.conv2d(images.contiguous(memory_format=torch.channels_last), filters, stride=STRIDE)
    return functional.relu(found * size - offset[:, None, None])


@lru_cache(maxsize=8)
def _shares_like(rows: int, columns: int, cells: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Copy the weights of `cell_shares` to a device once, not once per batch."""
    return cell_shares(rows, columns, cells).to(device, dtype)


def cell_shares(rows: int, columns: int, cells: int) -> Tensor:
    """Return the weight of every patch in the mean over every cell: -> (P, g²), columns sum to 1."""
    axes = []  # (places, g): the part of each of g equal intervals that each place along an axis covers
    for places in (rows, columns):
        place, cell = torch.arange(places)[:, None] / places, torch.arange(cells) / cells
        covered = torch.minimum(place + 1 / places, cell + 1 / cells) - torch.maximum(place, cell)
        axes.append(covered.clamp(min=0) * cells)
    return torch.kron(*axes)


def draw_patches(images: Tensor, size: int, count: int, generator: torch.Generator) -> Tensor:
    """Draw patches from anywhere in the images: (n, c, h, w) -> (count, N)."""
    (n, channels, height, width), side = images.shape, torch.arange(size)
    which = torch.randint(n, (count, 1, 1, 1), generator=generator)
    top = torch.randint(height - size + 1, (count, 1, 1, 1), generator=generator) + side[:, None]
    left = torch.randint(width - size + 1, (count, 1, 1, 1), generator=generator) + side
    places = (which, torch.arange(channels)[:, None, None], top, left)
    return images[tuple(place.to(images.device) for place in places)].flatten(1)


def even_contrast(patches: Tensor) -> tuple[Tensor, Tensor]:
    """Return (x - mean(x)) / √(var(x) + contrast), and the contrast: (n, N) -> (n, N), ()."""
    centered = patches - patches.mean(1, keepdim=True)
    variance = centered.square().mean(1, keepdim=True)
    contrast = (_CONTRAST * variance.mean()).clamp(min=1e-12)
    return centered / (variance + contrast).sqrt(), contrast


def whitening(patches: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean patch and (Σ + 0.1)^(-1/2), Σ the covariance: (n, N) -> (N,), (N, N)."""
    mean = patches.double().mean(0)
    centered = patches.double() - mean
    variances, axes = torch.linalg.eigh(centered.T @ centered / len(patches))
    return mean.to(patches), ((axes * (variances.clamp(min=0) + _WHITENING).rsqrt()) @ axes.T).to(patches)


def kinds_of(patches: Tensor, count: int) -> Tensor:
    """Cluster directions by k-means, starting from the first patches: (n, N) -> (F, N) of length 1."""
    directions = functional.normalize(patches)
    kinds = directions[:count]
    for _ in range(_ROUNDS):
        nearest = torch.cat([(block @ kinds.T).argmax(1) for block in directions.split(10_000)])
        sums = torch.zeros_like(kinds).index_add_(0, nearest, directions)
        kinds = functional.normalize(torch.where(sums.norm(dim=1, keepdim=True) > 0, sums, kinds))
    return kinds
