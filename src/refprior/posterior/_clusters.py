"""Consensus clustering: the classes on which the particles agree without labels.

Each particle of an unsupervised run merges classes in its own way, and its outputs have no meaning by themselves. All
particles together are an output code: two inputs of one class get similar predictions from every particle.
"""

# K particles, n inputs, C outputs, M clusters

from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.linalg import eigh
from scipy.optimize import linear_sum_assignment
from torch import Tensor
from torch.nn.functional import one_hot

from refprior.information import finite, uniform

NEIGHBORS = 0.03  # share of the inputs that are neighbors of one
FEWEST = 10  # neighbors, itself included
TRACE = 1e-4  # weight of the inner product, which connects all inputs
VOTES = 10  # references that vote for the cluster of an input


def output_code(log_p: Tensor, log_prior: Tensor) -> Tensor:
    """Return the joined √(π_k p_k(y | x)), one unit vector per input: (K, n, C), (K,) -> (n, K·C).

    The squared distance of two inputs is twice the squared Hellinger distance of their predictions, averaged over the
    particles.
    """
    root = (finite(log_p) / 2 + log_prior.to(log_p)[:, None, None] / 2).exp()
    return root.transpose(0, 1).flatten(1)


@dataclass(frozen=True)
class Consensus:
    """Clusters of inputs; with classes, a classifier.

    Made by `cluster` or `Run.consensus`.

    Parameters
    ----------
    references : Tensor
        Codes of the m inputs that were clustered, (m, K·C).
    members : Tensor
        Cluster of each of them, 0 … M - 1, (m,).
    log_prior : Tensor
        log π(w_k), (K,).
    classes : Tensor, optional
        Class of each cluster, (M,). `named` sets it.

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> outputs = torch.tensor([[0, 0, 1, 1], [1, 1, 0, 0]])  # two particles name two groups in their own ways
    >>> log_p = torch.nn.functional.one_hot(outputs, 2).float().log()
    >>> found = rp.posterior.cluster(log_p, clusters=2)
    >>> labeled = [0, 2]  # one image per group is enough to name them
    >>> found.named(log_p[:, labeled], torch.tensor([0, 1]), classes=2).predict(log_p)
    tensor([0, 0, 1, 1])
    """

    references: Tensor
    members: Tensor
    log_prior: Tensor
    classes: Tensor | None = None

    @property
    def centers(self) -> Tensor:
        """Mean code of each cluster, (M, K·C)."""
        of = one_hot(self.members).to(self.references)  # (m, M)
        return of.T @ self.references / of.sum(0)[:, None]

    def distances(self, log_p: Tensor) -> Tensor:
        """Compute the distances of inputs to the centers of the clusters.

        Parameters
        ----------
        log_p : Tensor
            Log-probabilities of every particle, (K, n, C).

        Returns
        -------
        Tensor
            Distances of output codes, (n, M).
        """
        code = output_code(log_p, self.log_prior)
        return torch.cdist(code, self.centers.to(code))

    def clusters(self, log_p: Tensor) -> Tensor:
        """Assign inputs to clusters by the vote of their nearest references.

        Parameters
        ----------
        log_p : Tensor
            Log-probabilities of every particle, (K, n, C).

        Returns
        -------
        Tensor
            Cluster of each input, (n,).
        """
        code, found = output_code(log_p, self.log_prior), int(self.members.max()) + 1
        votes = max(1, min(VOTES, len(self.members) // found))  # no more than a cluster has members
        nearest = torch.cdist(code, self.references.to(code)).topk(votes, largest=False).indices
        return self.members[nearest].mode(-1).values

    def predict(self, log_p: Tensor) -> Tensor:
        """Predict the class of inputs.

        Parameters
        ----------
        log_p : Tensor
            Log-probabilities of every particle, (K, n, C).

        Returns
        -------
        Tensor
            Class of each input, (n,).

        Raises
        ------
        ValueError
            If the clusters have no classes yet.
        """
        if self.classes is None:
            raise ValueError("the clusters have no classes yet: label a few inputs and call `named`")
        return self.classes[self.clusters(log_p)]

    def named(self, log_p: Tensor, y: Tensor, classes: int) -> "Consensus":
        """Name the clusters by a few labeled inputs.

        As many clusters as classes are matched one to one to fit most labels, if at most one class has no label.
        Otherwise a cluster takes the class of most of its labeled inputs, or of the nearest labeled input if it has
        none.

        Parameters
        ----------
        log_p : Tensor
            Log-probabilities of the labeled inputs, (K, m, C).
        y : Tensor
            Their classes, (m,).
        classes : int
            Number of classes.

        Returns
        -------
        Consensus
            The same clusters with `classes`.

        Raises
        ------
        ValueError
            If there is no labeled input.
        """
        if not len(y):
            raise ValueError("naming the clusters needs at least one labeled input")
        distances = self.distances(log_p)  # (m, M)
        clusters = distances.shape[-1]
        votes = _count(self.clusters(log_p), y, clusters, classes)
        if clusters == classes and len(y.unique()) >= classes - 1:
            nearness = torch.zeros(clusters, classes, dtype=votes.dtype)
            nearness.index_add_(1, y.cpu(), 1 / (1 + distances.T.cpu().to(votes.dtype)))  # breaks ties
            return replace(self, classes=_one_to_one(votes + 1e-6 * nearness).to(y.device))
        nearest = y[distances.argmin(0)].cpu()
        return replace(self, classes=torch.where(votes.amax(-1) > 0, votes.argmax(-1), nearest).to(y.device))


def cluster(log_p: Tensor, clusters: int, log_prior: Tensor | None = None) -> Consensus:
    """Cluster inputs by the predictions of all particles.

    Spectral clustering of the output code √(π_k p_k(y | x)). It uses neighbors instead of distances from centers:
    classes are long and of unequal width in the code, and k-means cuts the widest in two before it separates two
    narrow ones. Time grows as n³: 3 seconds for 2,000 inputs.

    Parameters
    ----------
    log_p : Tensor
        Log-probabilities of every particle, (K, n, C).
    clusters : int
        Largest number of clusters.
    log_prior : Tensor, optional
        log π(w_k), (K,). Equal weights by default.

    Returns
    -------
    Consensus
        The clusters, at most as many as requested.

    Raises
    ------
    ValueError
        If `clusters` is not between 1 and n.

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> outputs = torch.tensor([[0, 0, 1, 1], [1, 1, 0, 0]])  # two particles name two groups in their own ways
    >>> log_p = torch.nn.functional.one_hot(outputs, 2).float().log()
    >>> members = rp.posterior.cluster(log_p, clusters=2).members
    >>> [members.tolist().count(cluster) for cluster in (0, 1)]
    [2, 2]
    """
    if not 1 <= clusters <= log_p.shape[1]:
        raise ValueError(f"clusters must be from 1 to the number of inputs, {log_p.shape[1]}, got {clusters}")
    log_prior = uniform(len(log_p), log_p) if log_prior is None else log_prior.detach()
    code = output_code(log_p, log_prior).detach()
    members = _spectral(_affinity(code.double().cpu().numpy()), clusters)
    return Consensus(code, torch.from_numpy(np.unique(members, return_inverse=True)[1]).to(code.device), log_prior)


def match(clusters: Tensor, y: Tensor, classes: int) -> Tensor:
    """Match clusters to classes one to one to fit the labels best, for evaluation only.

    Parameters
    ----------
    clusters : Tensor
        Cluster of each input, (n,).
    y : Tensor
        Class of each input, (n,).
    classes : int
        Number of clusters and of classes.

    Returns
    -------
    Tensor
        Class of each cluster, (C,).

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> clusters, y = torch.tensor([1, 1, 0, 2]), torch.tensor([0, 0, 2, 1])
    >>> rp.posterior.match(clusters, y, classes=3)[clusters]
    tensor([0, 0, 2, 1])
    """
    return _one_to_one(_count(clusters, y, classes, classes)).to(y.device)


def stability(log_p: Tensor, clusters: int, log_prior: Tensor | None = None) -> float:
    """Measure the agreement of two halves of the particles on the clusters, without labels.

    Parameters
    ----------
    log_p : Tensor
        Log-probabilities of every particle, (K, n, C).
    clusters : int
        Largest number of clusters.
    log_prior : Tensor, optional
        log π(w_k), (K,). Equal weights by default.

    Returns
    -------
    float
        Share of inputs with the same cluster in both halves, after matching.

    Raises
    ------
    ValueError
        If there are fewer than 4 particles.

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> outputs = torch.tensor([[0, 0, 1, 1], [1, 1, 0, 0]] * 2)  # four particles that see the same two groups
    >>> rp.posterior.stability(torch.nn.functional.one_hot(outputs, 2).float().log(), clusters=2)
    1.0
    """
    if len(log_p) < 4:
        raise ValueError(f"stability compares two halves of the particles and needs at least 4, got {len(log_p)}")
    log_prior = uniform(len(log_p), log_p) if log_prior is None else log_prior.detach()
    first, second = (cluster(log_p[i::2], clusters, log_prior[i::2].log_softmax(0)).members for i in (0, 1))
    return float((match(first, second, clusters)[first] == second).double().mean())


def _affinity(code: np.ndarray) -> np.ndarray:
    """Return the affinity of every pair of inputs: (n, D) -> (n, n).

    1 for mutual and 1/2 for one-sided nearest neighbors, plus a trace of the inner product, the Bhattacharyya
    coefficient, so that all inputs are connected.
    """
    from sklearn.neighbors import kneighbors_graph  # scikit-learn is slow to import, and most runs do not need it

    neighbors = min(len(code), max(FEWEST, round(NEIGHBORS * len(code))))
    near = kneighbors_graph(code, neighbors - 1, include_self=False).toarray() if neighbors > 1 else np.eye(1)
    affinity: np.ndarray = (near + near.T) / 2 + np.eye(len(code)) + TRACE * (code @ code.T)
    return affinity


def _spectral(affinity: np.ndarray, clusters: int) -> np.ndarray:
    """Cluster by normalized spectral clustering: (n, n) -> (n,).

    A pivoted QR decomposition reads the clusters from the eigenvectors (Damle, Minden and Ying 2019). It needs no
    random start.
    """
    from sklearn.cluster._spectral import cluster_qr  # private in scikit-learn, but documented

    root = 1 / np.sqrt(affinity.sum(1))
    matrix, n = root[:, None] * affinity * root, len(affinity)
    vectors = eigh(matrix, subset_by_index=(n - clusters, n - 1))[1]  # of the largest eigenvalues: (n, M)
    if vectors.shape[1] < clusters:  # LAPACK's choice for a subset loses vectors where many eigenvalues are equal
        vectors = eigh(matrix, driver="evd")[1][:, n - clusters :]
    members: np.ndarray = cluster_qr(vectors * root[:, None])
    return members


def _one_to_one(votes: Tensor) -> Tensor:
    rows, columns = linear_sum_assignment(-votes.numpy())
    return torch.from_numpy(columns[np.argsort(rows)])


def _count(clusters: Tensor, y: Tensor, rows: int, columns: int) -> Tensor:
    """Count the inputs of each cluster with each label: (n,), (n,) -> (rows, columns)."""
    flat = torch.bincount(clusters.cpu() * columns + y.cpu(), minlength=rows * columns)
    return flat.reshape(rows, columns).double()
