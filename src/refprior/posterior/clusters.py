"""What the particles agree on without a label: clusters of images in the joined predictions of all particles.

Each particle of an unsupervised run merges classes in its own way, and its outputs mean nothing by themselves. All
particles together are an output code: two images of one class get like predictions from every particle.
"""

# K particles, n images, C classes, M clusters

from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans
from torch import Tensor

from refprior.information import finite, uniform


def output_code(log_p: Tensor, log_prior: Tensor) -> Tensor:
    """The joined √(π_k p_k(y | x)), a unit vector an image: (K, n, C), (K,) -> (n, K·C).

    The squared distance of two images is twice the squared Hellinger distance of their predictions, averaged over
    the particles.
    """
    root = (finite(log_p) / 2 + log_prior.to(log_p)[:, None, None] / 2).exp()
    return root.transpose(0, 1).flatten(1)


@dataclass(frozen=True)
class Consensus:
    """Clusters of images, and once they have names, a classifier."""

    centres: Tensor  # (M, K·C)
    log_prior: Tensor  # (K,)
    classes: Tensor | None = None  # (M,) the class of each cluster

    def distances(self, log_p: Tensor) -> Tensor:
        """Distances of images to the centres: (K, n, C) -> (n, M)."""
        return torch.cdist(output_code(log_p, self.log_prior), self.centres.to(log_p))

    def clusters(self, log_p: Tensor) -> Tensor:
        """The nearest centre of each image: (K, n, C) -> (n,)."""
        return self.distances(log_p).argmin(-1)

    def predict(self, log_p: Tensor) -> Tensor:
        """The class of each image: (K, n, C) -> (n,)."""
        if self.classes is None:
            raise ValueError("the clusters have no names yet: label a few images and call `named`")
        return self.classes[self.clusters(log_p)]

    def named(self, log_p: Tensor, y: Tensor, classes: int) -> "Consensus":
        """Names for the clusters from a few labelled images: (K, m, C), (m,).

        As many clusters as classes are named one to one, so that most labels fit, if no more than one class has no
        label. Otherwise a cluster takes the class of most of its labelled images, or of the labelled image nearest to
        it if it has none.
        """
        if not len(y):
            raise ValueError("need at least one labelled image to name the clusters")
        distances = self.distances(log_p)  # (m, M)
        votes = _count(distances.argmin(-1), y, len(self.centres), classes)
        if len(self.centres) == classes and len(y.unique()) >= classes - 1:
            nearness = torch.zeros(len(self.centres), classes, dtype=votes.dtype)
            nearness.index_add_(1, y.cpu(), 1 / (1 + distances.T.cpu().to(votes.dtype)))  # breaks ties
            return replace(self, classes=_one_to_one(votes + 1e-6 * nearness).to(y.device))
        nearest = y[distances.argmin(0)].cpu()
        return replace(self, classes=torch.where(votes.amax(-1) > 0, votes.argmax(-1), nearest).to(y.device))


def consensus(
    log_p: Tensor, clusters: int, log_prior: Tensor | None = None, seed: int = 0, starts: int = 10
) -> Consensus:
    """k-means of the output code, the best of several starts (one alone sometimes ends far worse): (K, n, C)."""
    if not 1 <= clusters <= log_p.shape[1]:
        raise ValueError(f"cannot make {clusters} clusters of {log_p.shape[1]} images")
    log_prior = uniform(len(log_p), log_p) if log_prior is None else log_prior.detach()
    found = KMeans(clusters, n_init=starts, random_state=seed).fit(_array(output_code(log_p, log_prior)))
    return Consensus(torch.from_numpy(found.cluster_centers_).to(log_p), log_prior)


def match(clusters: Tensor, y: Tensor, classes: int) -> Tensor:
    """The one-to-one naming of clusters that fits all labels best, for evaluation only: (n,), (n,) -> (C,)."""
    return _one_to_one(_count(clusters, y, classes, classes)).to(y.device)


def stability(log_p: Tensor, clusters: int, log_prior: Tensor | None = None, seed: int = 0) -> float:
    """Share of images on which two halves of the particles agree, after matching: (K, n, C). No label is used."""
    if len(log_p) < 4:
        raise ValueError(f"two halves of {len(log_p)} particles have nothing to agree on: need at least 4")
    log_prior = uniform(len(log_p), log_p) if log_prior is None else log_prior.detach()
    halves = [(log_p[i::2], log_prior[i::2].log_softmax(0)) for i in (0, 1)]
    first, second = (consensus(half, clusters, weights, seed).clusters(half) for half, weights in halves)
    return float((match(first, second, clusters)[first] == second).double().mean())


def _one_to_one(votes: Tensor) -> Tensor:
    rows, columns = linear_sum_assignment(-votes.numpy())
    return torch.from_numpy(columns[np.argsort(rows)])


def _count(clusters: Tensor, y: Tensor, rows: int, columns: int) -> Tensor:
    """How many images of each cluster have each label: (n,), (n,) -> (rows, columns)."""
    flat = torch.bincount(clusters.cpu() * columns + y.cpu(), minlength=rows * columns)
    return flat.reshape(rows, columns).double()


def _array(code: Tensor) -> np.ndarray:
    return np.ascontiguousarray(code.detach().cpu().numpy())
