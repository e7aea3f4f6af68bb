"""Fitted maps of vectors, as tensors only: bins, leaves of trees, means over neighbors."""

# n inputs of D numbers, B bins, T trees of at most M nodes, J components, A anchors, k neighbors

from dataclasses import dataclass

import torch
from torch import Tensor

_SAME = 1e-8  # squared distance of equal inputs in 32 and 64 bits, as a share of the mean squared length
_SHARPNESS = 4.0  # the farthest of the k neighbors has a weight of exp(-4)


@dataclass(frozen=True, eq=False)
class Bins:
    """Bins b of a number x_{c_b} with their scales: (B,) each."""

    column: Tensor
    lower: Tensor
    upper: Tensor
    scale: Tensor

    def __call__(self, x: Tensor) -> Tensor:
        """Return scale_b · 1[lower_b < x_{c_b} <= upper_b]: (n, D) -> (n, B)."""
        values = x[:, self.column]
        return ((values > self.lower) & (values <= self.upper)).to(self.scale.dtype) * self.scale


@dataclass(frozen=True, eq=False)
class Trees:
    """Trees with a vector in each leaf. Nodes are counted through all trees, and a leaf is its own child."""

    root: Tensor  # (T,)
    column: Tensor  # (T·M,)
    threshold: Tensor  # (T·M,)
    child: Tensor  # (T·M, 2) for x <= threshold, and for x > threshold
    depth: Tensor  # ()
    vectors: Tensor  # (T·M, J)

    def leaves(self, x: Tensor) -> Tensor:
        """Return the leaf of each tree: (n, D) -> (n, T)."""
        node = self.root.expand(x.shape[0], -1)
        for _ in range(int(self.depth)):
            right = x.gather(1, self.column[node]) > self.threshold[node]
            node = self.child[node].gather(2, right.long().unsqueeze(2)).squeeze(2)
        return node

    def __call__(self, x: Tensor) -> Tensor:
        """Return the sum over trees of the vectors of the leaves: (n, D) -> (n, J)."""
        return self.vectors[self.leaves(x)].sum(1)


@dataclass(frozen=True, eq=False)
class Neighbors:
    """Means over neighbors among the anchors, which are fitted inputs."""

    anchors: Tensor  # (A, J)
    values: Tensor  # (A, J) whose means are added
    count: Tensor  # () k
    kept: Tensor  # () share of the input itself

    def nearest(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Return the k nearest anchors that differ from each input, and their weights: (n, J) -> (n, k), (n, k).

        The weights are proportional to exp(-4 d_i² / d_k²). An input that equals an anchor is no neighbor of itself, so
        that fitted and new inputs are treated alike. Without another anchor, the weights are 0.
        """
        lengths, count = self.anchors.square().sum(1), int(self.count)
        apart = torch.addmm(lengths, z, self.anchors.T, alpha=-2)  # d² - |z|²
        near = apart.topk(min(count + 1, len(lengths)), largest=False).indices
        distance = (z.unsqueeze(1) - self.anchors[near]).square().sum(2)  # exact, unlike `apart`
        distance = torch.where(distance <= _SAME * lengths.mean(), torch.inf, distance)
        distance, order = distance.topk(min(count, len(lengths)), largest=False)
        finite = distance.isfinite()
        width = torch.where(finite, distance, 0).amax(1, keepdim=True)
        weights = torch.where(finite, torch.exp(-_SHARPNESS * distance / width.clamp(min=1e-30)), 0)
        return near.gather(1, order), weights / weights.sum(1, keepdim=True).clamp(min=1e-30)

    def __call__(self, z: Tensor) -> Tensor:
        """Return kept · z + Σ_i weight_i · values_i: (n, J) -> (n, J)."""
        near, weights = self.nearest(z)
        return self.kept * z + (weights.unsqueeze(2) * self.values[near]).sum(1)
