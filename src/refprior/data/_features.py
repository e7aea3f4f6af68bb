"""Features of vectors that few labels learn from more easily: quantile bins, leaves of random trees, neighbors.

Each is a transform that a recipe names. `fit` finds its numbers on the inputs, without labels, and returns a
`Normalizer`, which is tensors only.
"""

# n inputs of D numbers, B bins, T trees of at most M nodes, J components

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from scipy import sparse
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import RandomTreesEmbedding
from torch import Tensor
from torch.nn.functional import pad

from refprior._checks import number, whole_number
from refprior.data._maps import Bins, Neighbors, Trees
from refprior.data._normalize import Normalizer, PrincipalComponents, float_type

ANCHORS = 10_000  # fitted inputs that quantiles, trees and neighbors are taken from, at most
_BLOCK = 1024  # inputs at a time


@dataclass(frozen=True)
class QuantileBins:
    """Principal components of the bins of every number.

    A number with few distinct values has a bin for each; others have thresholds at their quantiles. Effects of
    thresholds and categories are linear in the bins. The bins of each number have a total variance of 1, so that
    numbers count equally in any units.

    Parameters
    ----------
    count : int, default: 128
        Number of components.
    bins : int, default: 9
        Number of intervals between quantiles.
    values : int, default: 12
        Largest number of distinct values that have a bin each.

    Examples
    --------
    >>> import torch
    >>> from refprior.data import QuantileBins
    >>> rows = torch.randn(100, 3, generator=torch.Generator().manual_seed(0))
    >>> tuple(QuantileBins(count=20).fit([rows])(rows).shape)
    (100, 20)
    """

    count: int = 128
    bins: int = 9
    values: int = 12

    def __post_init__(self) -> None:
        whole_number("count", self.count, at_least=1)
        whole_number("bins", self.bins, at_least=2)
        whole_number("values", self.values, at_least=2)

    def fit(self, parts: Sequence[Tensor]) -> Normalizer:
        """Fit thresholds and components.

        Parameters
        ----------
        parts : sequence of Tensor, (n, D)
            The inputs of all parts to train with.

        Returns
        -------
        Normalizer
            The fitted transform.
        """
        some = _sample(parts)
        edges = [self._edges(column) for column in some.numpy().T]
        column = torch.arange(len(edges)).repeat_interleave(torch.tensor([edge.shape[1] for edge in edges]))
        lower, upper = torch.from_numpy(np.concatenate(edges, axis=1)).to(some.dtype)
        bins = Bins(column, lower, upper, torch.ones_like(lower))
        variance = torch.zeros(len(edges), dtype=some.dtype).index_add(0, column, bins(some).var(0, correction=0))
        bins = replace(bins, scale=torch.where(variance > 0, variance.rsqrt(), 0)[column])
        found = [bins(block) for part in parts for block in part.split(_BLOCK)]
        return replace(_components(found, self.count), bins=bins)

    def _edges(self, x: np.ndarray) -> np.ndarray:
        """Return the lower and the upper bound of each bin of a number: (n,) -> (2, bins)."""
        found = np.unique(x)
        if len(found) <= self.values:
            middle = np.concatenate([[-np.inf], (found[1:] + found[:-1]) / 2, [np.inf]])
            return np.stack([middle[:-1], middle[1:]])[:, int(len(found) == 2) :]  # of two values, one bin says all
        cuts = np.unique(np.quantile(x, np.linspace(0, 1, self.bins + 1)[1:-1]))
        return np.stack([cuts, np.full_like(cuts, np.inf)])


@dataclass(frozen=True)
class TreeLeaves:
    """Principal components of the leaves of random trees.

    The trees split at random columns and thresholds, without labels. Inputs that share leaves in many trees are
    similar, in any units of the columns, so that interactions of columns are linear in the leaves.

    Parameters
    ----------
    count : int, default: 128
        Number of components.
    trees : int, default: 128
        Number of trees.
    depth : int, default: 5
        Depth of the trees, which have at most 2^depth leaves.
    seed : int, default: 0
        Seed of the trees.

    Examples
    --------
    >>> import torch
    >>> from refprior.data import TreeLeaves
    >>> rows = torch.randn(100, 3, generator=torch.Generator().manual_seed(0))
    >>> tuple(TreeLeaves(count=20).fit([rows])(rows).shape)
    (100, 20)
    """

    count: int = 128
    trees: int = 128
    depth: int = 5
    seed: int = 0

    def __post_init__(self) -> None:
        whole_number("count", self.count, at_least=1)
        whole_number("trees", self.trees, at_least=1)
        whole_number("depth", self.depth, at_least=1)
        whole_number("seed", self.seed, at_least=0)

    def fit(self, parts: Sequence[Tensor]) -> Normalizer:
        """Fit trees and components.

        Parameters
        ----------
        parts : sequence of Tensor, (n, D)
            The inputs of all parts to train with.

        Returns
        -------
        Normalizer
            The fitted transform.
        """
        some = _sample(parts)
        forest = RandomTreesEmbedding(self.trees, max_depth=self.depth, random_state=self.seed).fit(some.numpy())
        found = [tree.tree_ for tree in forest.estimators_]
        first = np.cumsum([0, *(tree.node_count for tree in found)])
        child = [
            np.where(tree.children_left < 0, np.arange(tree.node_count), [tree.children_left, tree.children_right]).T
            for tree in found
        ]
        trees = Trees(
            root=torch.from_numpy(first[:-1]),
            column=torch.from_numpy(np.concatenate([np.maximum(tree.feature, 0) for tree in found])),
            threshold=torch.from_numpy(np.concatenate([tree.threshold for tree in found])).to(some.dtype),
            child=torch.from_numpy(
                np.concatenate([ways + start for ways, start in zip(child, first[:-1], strict=True)])
            ),
            depth=torch.tensor(max(tree.max_depth for tree in found)),
            vectors=torch.empty(0),
        )
        leaf = trees.leaves(some).numpy()
        ones = sparse.csr_matrix((np.ones(leaf.size), leaf.ravel(), np.arange(len(leaf) + 1) * self.trees))
        count = min(self.count, *(size - 1 for size in ones.shape))
        svd = TruncatedSVD(max(1, count), random_state=self.seed).fit(ones)
        z = ones @ svd.components_.T
        vectors = np.zeros((first[-1], self.count))
        vectors[: ones.shape[1], : z.shape[1]] = svd.components_.T / (np.sqrt(z.var(0).sum() / self.count) or 1.0)
        trees = replace(trees, vectors=torch.from_numpy(vectors).to(some.dtype))
        return Normalizer(trees(some).mean(0), trees=trees)


@dataclass(frozen=True)
class NeighborMeans:
    """Principal components, averaged over the nearest neighbors.

    In each hop an input keeps a share of itself and takes the rest from its neighbors: the noise of single inputs
    averages out, and clusters become denser. New inputs have their neighbors among the fitted ones.

    Parameters
    ----------
    count : int, default: 128
        Number of components.
    neighbors : int, default: 10
        Number of neighbors.
    hops : int, default: 2
        How often means are taken.
    keep : float, default: 0.5
        Share of itself that an input keeps in each hop.
    standardize : bool, default: False
        Divide every number by its standard deviation first.

    Examples
    --------
    >>> import torch
    >>> from refprior.data import NeighborMeans
    >>> rows = torch.randn(100, 3, generator=torch.Generator().manual_seed(0))
    >>> tuple(NeighborMeans(count=2).fit([rows])(rows).shape)
    (100, 2)
    """

    count: int = 128
    neighbors: int = 10
    hops: int = 2
    keep: float = 0.5
    standardize: bool = False

    def __post_init__(self) -> None:
        whole_number("count", self.count, at_least=1)
        whole_number("neighbors", self.neighbors, at_least=1)
        whole_number("hops", self.hops, at_least=1)
        number("keep", self.keep, at_least=0, at_most=1)

    def fit(self, parts: Sequence[Tensor]) -> Normalizer:
        """Fit components and the anchors, at most 10,000 inputs.

        With z the components, P the weights of neighbors and s the share that is kept, hop j is
        z_j = s z_{j-1} + (1 - s) P z_{j-1}. Hence z_h = s^h z + P Σ_{j<h} s^{h-1-j} (1 - s) z_j, which needs one search
        for neighbors.

        Parameters
        ----------
        parts : sequence of Tensor, (n, D)
            The inputs of all parts to train with.

        Returns
        -------
        Normalizer
            The fitted transform.
        """
        plain = _components(parts, self.count, self.standardize)
        anchors = plain(_sample(parts)).unique(dim=0)
        few = min(self.neighbors, max(1, len(anchors) - 1))
        means = Neighbors(anchors, anchors, torch.tensor(few), torch.zeros((), dtype=anchors.dtype))
        found = [means.nearest(block) for block in anchors.split(_BLOCK)]
        z, values = anchors, torch.zeros_like(anchors)
        for _ in range(self.hops):
            values = self.keep * values + (1 - self.keep) * z
            z = self.keep * z + (1 - self.keep) * torch.cat([(w.unsqueeze(2) * z[near]).sum(1) for near, w in found])
        size = z.var(0, correction=0).mean().sqrt().item() or 1.0
        kept = torch.tensor(self.keep**self.hops / size, dtype=anchors.dtype)
        return replace(plain, neighbors=replace(means, values=values / size, kept=kept))


@dataclass(frozen=True)
class Joined:
    """Several transforms side by side, each of all columns or of separate ones.

    Parameters
    ----------
    parts : tuple
        The transforms, each with a `count` of components.
    widths : tuple of int, optional
        Number of columns of each part, for several feature spaces side by side. By default every part takes all.

    Examples
    --------
    >>> import torch
    >>> from refprior.data import Joined, PrincipalComponents, TreeLeaves
    >>> rows = torch.randn(100, 3, generator=torch.Generator().manual_seed(0))
    >>> tuple(Joined((PrincipalComponents(3), TreeLeaves(20))).fit([rows])(rows).shape)
    (100, 23)
    """

    parts: tuple[Any, ...]
    widths: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.widths and len(self.widths) != len(self.parts):
            raise ValueError(f"expected one width per part, {len(self.parts)}, got {len(self.widths)}")

    @property
    def count(self) -> int:
        """Number of components of all parts."""
        return sum(part.count for part in self.parts)

    def fit(self, parts: Sequence[Tensor]) -> Normalizer:
        """Fit every transform.

        Parameters
        ----------
        parts : sequence of Tensor, (n, D)
            The inputs of all parts to train with.

        Returns
        -------
        Normalizer
            The fitted transform.
        """
        if self.widths and sum(self.widths) != parts[0].shape[1]:
            raise ValueError(f"widths {self.widths} do not add up to {parts[0].shape[1]} columns")
        fitted, first = [], 0
        for part, width in zip(self.parts, self.widths or [parts[0].shape[1]] * len(self.parts), strict=True):
            column = torch.arange(first, first + width)
            normalizer = part.fit([inputs[:, column] for inputs in parts])
            fitted.append(replace(normalizer, columns=column) if self.widths else normalizer)
            first += width if self.widths else 0
        return Normalizer(torch.zeros((), dtype=float_type(parts)), parts=tuple(fitted))


def _sample(parts: Sequence[Tensor]) -> Tensor:
    """Return evenly spaced inputs of all parts as floats, at most `ANCHORS`: (n, D) each -> (m, D)."""
    total = sum(len(part) for part in parts)
    chosen = torch.arange(min(total, ANCHORS)) * total // min(total, ANCHORS)
    starts = np.cumsum([0, *(len(part) for part in parts)]).tolist()
    inside = [chosen[(chosen >= first) & (chosen < end)] - first for first, end in pairwise(starts)]
    return torch.cat([part[rows] for part, rows in zip(parts, inside, strict=True)]).to(float_type(parts))


def _components(parts: Sequence[Tensor], count: int, standardize: bool = False) -> Normalizer:
    """Fit principal components that have the standard deviation 1 on average, and zeros beyond the last one."""
    found = min(count, parts[0].shape[1])
    scale = (count / found) ** 0.5
    fitted = PrincipalComponents(found, 0, scale, scaled="all", standardize=standardize).fit(parts)
    assert fitted.axes is not None
    return replace(fitted, axes=pad(fitted.axes, (0, count - found)))
