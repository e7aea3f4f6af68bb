"""What the particles agree on without a label: clusters of images in the joined predictions of all particles.

Each particle of an unsupervised run merges classes in its own way, and its outputs mean nothing by themselves. All
particles together are an output code: two images of one class get like predictions from every particle.
"""

# K particles, n images, C classes, M clusters

from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.linalg import eigh
from scipy.optimize import linear_sum_assignment
from torch import Tensor
from torch.nn.functional import one_hot

from refprior.information import finite, uniform

NEIGHBORS = 0.03  # share of the images that are neighbors of one
FEWEST = 10  # neighbors, itself included
TRACE = 1e-4
VOTES = 10  # references that vote for an image's cluster


def output_code(log_p: Tensor, log_prior: Tensor) -> Tensor:
    """The joined √(π_k p_k(y | x)), one unit vector per image: (K, n, C), (K,) -> (n, K·C).

    The squared distance of two images is twice the squared Hellinger distance of their predictions, averaged over
    the particles.

    >>> import torch
    >>> import refprior as rp
    >>> log_p = torch.full((4, 6, 3), 1 / 3).log()  # four particles, six images, three classes
    >>> tuple(rp.posterior.output_code(log_p, rp.information.uniform(4, log_p)).shape)
    (6, 12)
    """
    root = (finite(log_p) / 2 + log_prior.to(log_p)[:, None, None] / 2).exp()
    return root.transpose(0, 1).flatten(1)


@dataclass(frozen=True)
class Consensus:
    """Clusters of images; with names, a classifier.

    >>> import torch
    >>> import refprior as rp
    >>> outputs = torch.tensor([[0, 0, 1, 1], [1, 1, 0, 0]])  # two particles name two groups in their own ways
    >>> log_p = torch.nn.functional.one_hot(outputs, 2).float().log()
    >>> found = rp.posterior.consensus(log_p, clusters=2)
    >>> labeled = [0, 2]  # one image per group is enough to name them
    >>> found.named(log_p[:, labeled], torch.tensor([0, 1]), classes=2).predict(log_p)
    tensor([0, 0, 1, 1])
    """

    references: Tensor  # (m, K·C) the codes of the images that were clustered
    members: Tensor  # (m,) the cluster of each, 0 … M - 1
    log_prior: Tensor  # (K,)
    classes: Tensor | None = None  # (M,) the class of each cluster

    @property
    def centers(self) -> Tensor:
        """The mean code of each cluster: (M, K·C)."""
        of = one_hot(self.members).to(self.references)  # (m, M)
        return of.T @ self.references / of.sum(0)[:, None]

    def distances(self, log_p: Tensor) -> Tensor:
        """Distances of images to the centers: (K, n, C) -> (n, M)."""
        code = output_code(log_p, self.log_prior)
        return torch.cdist(code, self.centers.to(code))

    def clusters(self, log_p: Tensor) -> Tensor:
        """The cluster of most of the nearest references of each image: (K, n, C) -> (n,)."""
        code, found = output_code(log_p, self.log_prior), int(self.members.max()) + 1
        votes = max(1, min(VOTES, len(self.members) // found))  # no more than a cluster has members
        nearest = torch.cdist(code, self.references.to(code)).topk(votes, largest=False).indices
        return self.members[nearest].mode(-1).values

    def predict(self, log_p: Tensor) -> Tensor:
        """The class of each image: (K, n, C) -> (n,)."""
        if self.classes is None:
            raise ValueError("the clusters have no names yet: label a few inputs and call `named`")
        return self.classes[self.clusters(log_p)]

    def named(self, log_p: Tensor, y: Tensor, classes: int) -> "Consensus":
        """Names for the clusters from a few labeled images: (K, m, C), (m,).

        As many clusters as classes are named one to one, so that most labels fit, if no more than one class has no
        label. Otherwise a cluster takes the class of most of its labeled images, or of the labeled image nearest to
        it if it has none.
        """
        if not len(y):
            raise ValueError("need at least one labeled input to name the clusters")
        distances = self.distances(log_p)  # (m, M)
        clusters = distances.shape[-1]
        votes = _count(self.clusters(log_p), y, clusters, classes)
        if clusters == classes and len(y.unique()) >= classes - 1:
            nearness = torch.zeros(clusters, classes, dtype=votes.dtype)
            nearness.index_add_(1, y.cpu(), 1 / (1 + distances.T.cpu().to(votes.dtype)))  # breaks ties
            return replace(self, classes=_one_to_one(votes + 1e-6 * nearness).to(y.device))
        nearest = y[distances.argmin(0)].cpu()
        return replace(self, classes=torch.where(votes.amax(-1) > 0, votes.argmax(-1), nearest).to(y.device))


def consensus(log_p: Tensor, clusters: int, log_prior: Tensor | None = None) -> Consensus:
    """At most `clusters` spectral clusters of the output code: (K, n, C). Time grows as n³: 3 seconds for 2,000 images.

    Neighbors, not distances from centers: classes are long and of unequal width in the code, and k-means cuts the
    widest in two before it parts two narrow ones.

    >>> import torch
    >>> import refprior as rp
    >>> outputs = torch.tensor([[0, 0, 1, 1], [1, 1, 0, 0]])  # two particles name two groups in their own ways
    >>> log_p = torch.nn.functional.one_hot(outputs, 2).float().log()
    >>> members = rp.posterior.consensus(log_p, clusters=2).members
    >>> [members.tolist().count(cluster) for cluster in (0, 1)]
    [2, 2]
    """
    if not 1 <= clusters <= log_p.shape[1]:
        raise ValueError(f"cannot make {clusters} clusters of {log_p.shape[1]} inputs")
    log_prior = uniform(len(log_p), log_p) if log_prior is None else log_prior.detach()
    code = output_code(log_p, log_prior).detach()
    members = _spectral(_affinity(code.double().cpu().numpy()), clusters)
    return Consensus(code, torch.from_numpy(np.unique(members, return_inverse=True)[1]).to(code.device), log_prior)


def match(clusters: Tensor, y: Tensor, classes: int) -> Tensor:
    """The one-to-one naming of clusters that fits all labels best, for evaluation only: (n,), (n,) -> (C,).

    >>> import torch
    >>> import refprior as rp
    >>> clusters, y = torch.tensor([1, 1, 0, 2]), torch.tensor([0, 0, 2, 1])
    >>> rp.posterior.match(clusters, y, classes=3)[clusters]
    tensor([0, 0, 2, 1])
    """
    return _one_to_one(_count(clusters, y, classes, classes)).to(y.device)


def stability(log_p: Tensor, clusters: int, log_prior: Tensor | None = None) -> float:
    """Share of images on which two halves of the particles agree, after matching: (K, n, C). No label is used.

    >>> import torch
    >>> import refprior as rp
    >>> outputs = torch.tensor([[0, 0, 1, 1], [1, 1, 0, 0]] * 2)  # four particles that see the same two groups
    >>> rp.posterior.stability(torch.nn.functional.one_hot(outputs, 2).float().log(), clusters=2)
    1.0
    """
    if len(log_p) < 4:
        raise ValueError(f"two halves of {len(log_p)} particles have nothing to agree on: need at least 4")
    log_prior = uniform(len(log_p), log_p) if log_prior is None else log_prior.detach()
    first, second = (consensus(log_p[i::2], clusters, log_prior[i::2].log_softmax(0)).members for i in (0, 1))
    return float((match(first, second, clusters)[first] == second).double().mean())


def _affinity(code: np.ndarray) -> np.ndarray:
    """1 for mutual and 1/2 for one-sided nearest neighbors, and a trace of the inner product, the Bhattacharyya
    coefficient, so that all images are connected: (n, D) -> (n, n)."""
    from sklearn.neighbors import kneighbors_graph  # scikit-learn is slow to import, and most runs do not need it

    neighbors = min(len(code), max(FEWEST, round(NEIGHBORS * len(code))))
    near = kneighbors_graph(code, neighbors - 1, include_self=False).toarray() if neighbors > 1 else np.eye(1)
    affinity: np.ndarray = (near + near.T) / 2 + np.eye(len(code)) + TRACE * (code @ code.T)
    return affinity


def _spectral(affinity: np.ndarray, clusters: int) -> np.ndarray:
    """Normalized spectral clustering, with clusters read from the eigenvectors by a pivoted QR decomposition (Damle,
    Minden and Ying 2019), which needs no random start: (n, n) -> (n,)."""
    from sklearn.cluster._spectral import cluster_qr  # not at a door of scikit-learn, but documented

    root = 1 / np.sqrt(affinity.sum(1))
    vectors = _last_eigenvectors(root[:, None] * affinity * root, clusters) * root[:, None]  # (n, M)
    members: np.ndarray = cluster_qr(vectors)
    return members


def _last_eigenvectors(matrix: np.ndarray, count: int) -> np.ndarray:
    """Of the largest eigenvalues: (n, n) -> (n, count)."""
    n = len(matrix)
    vectors: np.ndarray = eigh(matrix, subset_by_index=(n - count, n - 1))[1]
    if vectors.shape[1] < count:  # LAPACK's choice for a subset loses vectors where many eigenvalues are equal
        vectors = eigh(matrix, driver="evd")[1][:, n - count :]
    return vectors


def _one_to_one(votes: Tensor) -> Tensor:
    rows, columns = linear_sum_assignment(-votes.numpy())
    return torch.from_numpy(columns[np.argsort(rows)])


def _count(clusters: Tensor, y: Tensor, rows: int, columns: int) -> Tensor:
    """How many images of each cluster have each label: (n,), (n,) -> (rows, columns)."""
    flat = torch.bincount(clusters.cpu() * columns + y.cpu(), minlength=rows * columns)
    return flat.reshape(rows, columns).double()
