"""Inputs of a network from patches: of what is counted of them, the directions on which two views of an image agree."""

# n images of c channels, F kinds of patches, g × g cells, D = F g² features, J components

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from refprior._checks import number, whole_number
from refprior._process import check_memory
from refprior.data._normalize import Normalizer, float_type
from refprior.data._patches import draw_patches, even_contrast, kinds_of, whitening

_PATCHES = 100_000  # that the kinds are found from
_THRESHOLD = 1.0  # what the response to a kind must be above
_BLOCK = 1000  # images at a time
_MATRICES = 8  # of D × D numbers, at the same time

View = Callable[[Tensor, torch.Generator], Tensor]


@dataclass(frozen=True)
class PatchComponents:
    """Components of an image's patches on which two views of the image agree: (n, c, h, w) -> (n, count).

    A network that sees pixels learns its filters first, for which a few hundred labels are too few. These filters need
    none: `filters` kinds of whitened patches, counted in cells × cells parts of the image. view: what should change
    the components little, such as the strong view of the recipe; without one they are principal components. They are
    found from at most `images` of the training images, with a few matrices of (filters · cells²)² numbers. The same
    `seed` gives the same features, whatever the seed of the run.

    >>> import torch
    >>> from refprior.data import PatchComponents
    >>> images = torch.randint(0, 256, (50, 1, 8, 8), dtype=torch.uint8)
    >>> inputs = PatchComponents(count=5, filters=16, size=3, cells=2).fit([images])(images)
    >>> tuple(inputs.shape), round(float(inputs.square().mean().sqrt()), 2)
    ((50, 5), 1.0)
    """

    count: int = 128
    filters: int = 400
    size: int = 8  # of a patch, pixels
    cells: int = 3  # along each side of the image
    view: View | None = None
    ridge: float = 0.3  # added to the variances of features, as a share of their mean
    scale: float = 1.0  # standard deviation of the components, on average
    images: int = 20_000
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("count", "filters", "size", "cells", "images"):
            whole_number(name, getattr(self, name), at_least=1)
        whole_number("seed", self.seed, at_least=0)
        number("ridge", self.ridge, above=0)
        number("scale", self.scale, above=0)
        if self.view is not None and (not callable(self.view) or isinstance(self.view, type)):
            raise ValueError(f"view must be a view or none, got {self.view!r}")
        if getattr(self.view, "normalized", False):
            raise ValueError(f"view must change images as they are stored, and {self.view!r} changes what networks see")
        if self.count > self.features:
            raise ValueError(f"{self.filters} filters in {self.cells}×{self.cells} cells are {self.features} features, "
                             f"which have no count={self.count} components")  # fmt: skip

    @property
    def features(self) -> int:
        """D."""
        return self.filters * self.cells**2

    @torch.no_grad()
    def fit(self, parts: Sequence[Tensor]) -> Normalizer:
        """The filters and axes of all parts together: (n, c, h, w) each."""
        self._check(parts)
        generator = torch.Generator().manual_seed(self.seed)
        images = _some(parts, self.images, generator)
        counted = self._filters(images, float_type(parts), generator)
        mean, total, shared = agreement(self._pairs(images, counted))
        axes = agreeing_axes(total, shared, self.count, self.ridge)
        size = ((axes * (total @ axes)).sum(0).mean()).sqrt().item()  # 0 where nothing varies
        kind = counted.mean.dtype
        return replace(counted, mean=mean.to(kind), axes=(axes * (self.scale / (size or 1.0))).to(kind).contiguous())

    def _filters(self, images: Tensor, kind: torch.dtype, generator: torch.Generator) -> Normalizer:
        """Filters as `patches.responses` has them, not centered nor projected."""
        patches, contrast = even_contrast(draw_patches(images, self.size, _PATCHES, generator).to(kind))
        mean, white = whitening(patches)
        filters = kinds_of((patches - mean) @ white, self.filters) @ white
        offset = filters @ mean + _THRESHOLD
        # Kinds of patches without a gray level see none, and by this not even by rounding.
        filters = (filters - filters.mean(1, keepdim=True)).reshape(-1, images.shape[1], self.size, self.size)
        return Normalizer(mean.new_zeros(self.features), filters=filters, offset=offset, contrast=contrast)

    def _pairs(self, images: Tensor, features: Normalizer) -> Iterator[tuple[Tensor, Tensor]]:
        """The features of two views of every image: (n, D) each."""
        generator = torch.Generator(images.device).manual_seed(self.seed)
        for block in images.split(_BLOCK):
            first, second = (block if self.view is None else self.view(block, generator) for _ in range(2))
            yield features(first), features(second)

    def _check(self, parts: Sequence[Tensor]) -> None:
        shape = tuple(parts[0].shape[1:])
        if len(shape) != 3:
            raise ValueError(f"PatchComponents takes images (channels, height, width), got {shape}: take Standardize")
        if self.size > min(shape[1:]):
            raise ValueError(f"patches of {self.size}×{self.size} do not fit into images of {shape[1]}×{shape[2]}")
        needed = _MATRICES * 8 * self.features**2
        check_memory(needed, f"{self.features} features of patches", "give fewer filters or cells")


def agreement(pairs: Iterator[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, covariance T = E[f fᵀ] and covariance between two views B = E[f f'ᵀ] of features, in double precision:
    pairs of (n, D) -> (D,), (D, D), (D, D).

    Of the half sums m and half differences d of two views, T = E[m mᵀ] + E[d dᵀ] and B = E[m mᵀ] - E[d dᵀ].
    """
    count, total, sums, gaps = 0, torch.zeros(()), torch.zeros(()), torch.zeros(())
    for first, second in pairs:
        middle, gap = (first + second) / 2, (first - second) / 2
        count, total = count + len(first), total + middle.double().sum(0)
        sums, gaps = sums + (middle.T @ middle).double(), gaps + (gap.T @ gap).double()
    mean = total / count
    between = sums / count - mean[:, None] * mean
    return mean, between + gaps / count, between - gaps / count


def agreeing_axes(total: Tensor, shared: Tensor, count: int, ridge: float) -> Tensor:
    """The first solutions of B a = ρ (T + ε) a with aᵀ (T + ε) a = 1, times ρ; ε: ridge times T's mean variance:
    (D, D), (D, D) -> (D, J).

    Linear features whose inner products are the minimum of the spectral contrastive loss (HaoChen et al. 2021) are the
    solutions times √ρ. The other √ρ takes more from directions that views change.
    """
    eps = (ridge * total.diagonal().mean()).clamp(min=1e-12)
    root = torch.linalg.cholesky(total + eps * torch.eye(len(total), dtype=total.dtype, device=total.device))
    half = torch.linalg.solve_triangular(root, shared, upper=False)
    white = torch.linalg.solve_triangular(root, half.T.contiguous(), upper=False)
    agreed, axes = (value.flip(-1)[..., :count] for value in torch.linalg.eigh((white + white.T) / 2))
    solved = torch.linalg.solve_triangular(root.T, axes, upper=True)
    signs = solved.gather(0, solved.abs().argmax(0, keepdim=True)).sign()  # the same on every machine: a run may move
    scaled: Tensor = solved * signs * agreed.clamp(min=0)
    return scaled


def _some(parts: Sequence[Tensor], count: int, generator: torch.Generator) -> Tensor:
    """Some images of all parts, in a random order: (n, ...) each -> (at most count, ...)."""
    chosen = torch.randperm(sum(len(part) for part in parts), generator=generator)[:count]
    starts, taken = 0, []
    for part in parts:
        here = chosen[(chosen >= starts) & (chosen < starts + len(part))] - starts
        taken.append(part[here.to(part.device)])
        starts += len(part)
    return torch.cat(taken)
