"""Inputs of a network from patches: the directions of their counts on which two views of an image agree."""

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
    """Components of the patches of an image on which two views of the image agree.

    A network that sees pixels learns its filters first, for which a few hundred labels are too few. These filters need
    no labels: they are kinds of whitened patches, counted in cells × cells parts of the image (Coates and Ng, 2012).
    Fitting takes a few matrices of (filters · cells²)² numbers.

    Parameters
    ----------
    count : int, default: 128
        Number of components.
    filters : int, default: 400
        Number of kinds of patches.
    size : int, default: 8
        Side of a patch, in pixels.
    cells : int, default: 3
        Number of cells along each side of the image.
    view : callable, optional
        A view that should change the components little, such as the strong view of the recipe. Without it they are
        principal components.
    ridge : float, default: 0.3
        Added to the variances of features, as a share of their mean.
    scale : float, default: 1.0
        Standard deviation of the components, on average.
    images : int, default: 20,000
        Largest number of training images to fit with.
    seed : int, default: 0
        Seed for all random draws of the fit; it does not depend on the seed of the run.

    Raises
    ------
    ValueError
        If a setting is out of its range, or the view acts on normalized inputs.

    Examples
    --------
    >>> import torch
    >>> from refprior.data import PatchComponents
    >>> images = torch.randint(0, 256, (50, 1, 8, 8), dtype=torch.uint8)
    >>> inputs = PatchComponents(count=5, filters=16, size=3, cells=2).fit([images])(images)
    >>> tuple(inputs.shape), round(float(inputs.square().mean().sqrt()), 2)
    ((50, 5), 1.0)
    """

    count: int = 128
    filters: int = 400
    size: int = 8
    cells: int = 3
    view: View | None = None
    ridge: float = 0.3
    scale: float = 1.0
    images: int = 20_000
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("count", "filters", "size", "cells", "images"):
            whole_number(name, getattr(self, name), at_least=1)
        whole_number("seed", self.seed, at_least=0)
        number("ridge", self.ridge, above=0)
        number("scale", self.scale, above=0)
        if self.view is not None and (not callable(self.view) or isinstance(self.view, type)):
            raise ValueError(f"view must be a view such as FlipCrop() or None, got {self.view!r}")
        if getattr(self.view, "normalized", False):
            raise ValueError(f"view must act on stored images, and {self.view!r} acts on normalized inputs")
        if self.count > self.features:
            raise ValueError(f"{self.filters} filters in {self.cells}×{self.cells} cells are {self.features} features, "
                             f"which have no count={self.count} components")  # fmt: skip

    @property
    def features(self) -> int:
        """Number D of features before the projection."""
        return self.filters * self.cells**2

    @torch.no_grad()
    def fit(self, parts: Sequence[Tensor]) -> Normalizer:
        """Fit filters and axes.

        Parameters
        ----------
        parts : sequence of Tensor, (n, c, h, w)
            The images of all parts to train with.

        Returns
        -------
        Normalizer
            The fitted transform.

        Raises
        ------
        ValueError
            If the inputs are not images, patches do not fit into them, or the matrices do not fit into memory.
        """
        shape = tuple(parts[0].shape[1:])
        if len(shape) != 3:
            raise ValueError(f"PatchComponents takes images (channels, height, width), got {shape}: take Standardize")
        if self.size > min(shape[1:]):
            raise ValueError(f"patches of {self.size}×{self.size} do not fit into images of {shape[1]}×{shape[2]}")
        needed = _MATRICES * 8 * self.features**2
        check_memory(needed, f"{self.features} features of patches", "give fewer filters or cells")
        generator = torch.Generator().manual_seed(self.seed)
        images = _some(parts, self.images, generator)
        counted = self._filters(images, float_type(parts), generator)
        mean, total, shared = agreement(self._pairs(images, counted))
        axes = agreeing_axes(total, shared, self.count, self.ridge)
        size = ((axes * (total @ axes)).sum(0).mean()).sqrt().item()  # 0 where nothing varies
        kind = counted.mean.dtype
        return replace(counted, mean=mean.to(kind), axes=(axes * (self.scale / (size or 1.0))).to(kind).contiguous())

    def _filters(self, images: Tensor, kind: torch.dtype, generator: torch.Generator) -> Normalizer:
        """Return filters as `responses` takes them, neither centered nor projected."""
        patches, contrast = even_contrast(draw_patches(images, self.size, _PATCHES, generator).to(kind))
        mean, white = whitening(patches)
        filters = kinds_of((patches - mean) @ white, self.filters) @ white
        offset = filters @ mean + _THRESHOLD
        # Patches without a gray level give filters that sum to zero; this removes the rounding error of the sum.
        filters = (filters - filters.mean(1, keepdim=True)).reshape(-1, images.shape[1], self.size, self.size)
        return Normalizer(mean.new_zeros(self.features), filters=filters, offset=offset, contrast=contrast)

    def _pairs(self, images: Tensor, features: Normalizer) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the features of two views of every image: (n, D) each."""
        generator = torch.Generator(images.device).manual_seed(self.seed)
        for block in images.split(_BLOCK):
            first, second = (block if self.view is None else self.view(block, generator) for _ in range(2))
            yield features(first), features(second)


def agreement(pairs: Iterator[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor, Tensor]:
    """Return the mean of features, their covariance T = E[f fᵀ] and that between two views B = E[f f'ᵀ], in float64:
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
    """Return the first solutions of B a = ρ (T + ε) a with aᵀ (T + ε) a = 1, times ρ; ε: ridge times T's mean variance:
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
    signs = solved.gather(
        0, solved.abs().argmax(0, keepdim=True)
    ).sign()  # the same on every machine: a run may be resumed on another
    scaled: Tensor = solved * signs * agreed.clamp(min=0)
    return scaled


def _some(parts: Sequence[Tensor], count: int, generator: torch.Generator) -> Tensor:
    """Draw some images of all parts: (n, ...) each -> (at most count, ...)."""
    chosen = torch.randperm(sum(len(part) for part in parts), generator=generator)[:count]
    starts, taken = 0, []
    for part in parts:
        here = chosen[(chosen >= starts) & (chosen < starts + len(part))] - starts
        taken.append(part[here.to(part.device)])
        starts += len(part)
    return torch.cat(taken)
