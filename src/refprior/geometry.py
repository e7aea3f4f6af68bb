"""The space of predictions: positions of particles, distances between them, and principal components.

A particle is the point f(w) of its predictions on n inputs (rem:visua_prior). Distances between these points are
Hellinger distances between predictions. The functions take log-probabilities or points. Distances are squared: they are
means over inputs, from 0 (equal) to 1 (certain of different classes everywhere).
"""

# K particles, n inputs, C classes, D = n·C coordinates of a point, d components

import math
from dataclasses import dataclass

import numpy as np
import torch
from scipy.linalg import eigh
from torch import Tensor, nn
from torch.func import functional_call, jacrev
from torch.nn.functional import one_hot

from refprior._process import check_memory
from refprior.information import average, finite, log_likelihood, mutual_information, uniform

__all__ = [
    "Components",
    "assign",
    "cover",
    "distance_to_constants",
    "distance_to_corner",
    "distance_to_truth",
    "effective_number",
    "embedding",
    "fisher_information",
    "hellinger",
    "principal_components",
]


def embedding(log_p: Tensor) -> Tensor:
    """Embed predictions as points whose squared distances are Hellinger distances.

    f(w) = √p / √(2n), rem:visua_prior and appendix s:app:visualizing. The paper's text has no factor 1/√(2n), but its
    distance has: with the factor, squared distances are mean squared Hellinger distances.

    Parameters
    ----------
    log_p : Tensor
        Log-probabilities, (..., n, C).

    Returns
    -------
    Tensor
        Points, (..., n·C).

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> log_p = torch.eye(2).log().unsqueeze(1)  # two particles, one image, certain of different classes
    >>> one, other = rp.geometry.embedding(log_p)
    >>> round(float((one - other).norm()), 4)
    1.0
    """
    images, classes = log_p.shape[-2:]
    if classes < 2:
        raise ValueError(f"predictions need at least 2 classes, got {classes}")
    return (finite(log_p) / 2).exp().flatten(-2) / math.sqrt(2 * images)


def fisher_information(network: nn.Module, inputs: Tensor) -> Tensor:
    """Compute the Fisher information of a small network.

    g_kl = (1/n) Σ_i Σ_y ∂_k p(y | x_i, w) ∂_l p(y | x_i, w) / p(y | x_i, w), the metric of the space of predictions:
    with the points f(w) of `embedding`, g = 8 (∂f)ᵀ ∂f. Jeffreys prior is π_J ∝ √det g, and
    `torch.linalg.slogdet(g)[1] / 2` is its log-density, up to a constant.

    Parameters
    ----------
    network : torch.nn.Module
        A network that returns logits, (n, C).
    inputs : Tensor
        Inputs, (n, ...).

    Returns
    -------
    Tensor
        The matrix g for one input drawn from `inputs`, (P, P); parameters in the order of `network.parameters()`.

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> network = torch.nn.Linear(1, 2, bias=False)
    >>> _ = torch.nn.init.zeros_(network.weight)
    >>> rp.geometry.fisher_information(network, torch.ones(1, 1))  # p (1 - p); a shift of both logits has none
    tensor([[ 0.2500, -0.2500],
            [-0.2500,  0.2500]])
    """
    state = {name: parameter.detach() for name, parameter in network.named_parameters()}
    count = sum(parameter.numel() for parameter in state.values())
    with torch.no_grad():
        outputs = network(inputs)
    check_memory(
        outputs.element_size() * count * (2 * outputs.numel() + count),
        f"the Fisher information of {count:,} parameters and {len(inputs):,} inputs",
        "take fewer inputs or a smaller network",
    )

    def point(state: dict[str, Tensor]) -> Tensor:
        return embedding(functional_call(network, state, (inputs,)).log_softmax(-1))

    slopes = torch.cat([part.flatten(1) for part in jacrev(point)(state).values()], dim=1)
    return 8 * slopes.T @ slopes


def hellinger(log_p: Tensor, log_q: Tensor) -> Tensor:
    """Compute the mean squared Hellinger distance of predictions.

    ``(1/n) Σ_i d_H²(p(·|x_i), q(·|x_i))`` with d_H² = 1 - Σ_y √(p q), s:app:visualizing.

    Parameters
    ----------
    log_p, log_q : Tensor
        Log-probabilities, (..., n, C) each.

    Returns
    -------
    Tensor
        Squared distances from 0 to 1, (...).

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> certain, unsure = torch.tensor([[1.0, 0.0]]).log(), torch.tensor([[0.5, 0.5]]).log()
    >>> rp.geometry.hellinger(certain, unsure)
    tensor(0.2929)
    """
    return 1 - ((finite(log_p) + finite(log_q)) / 2).exp().sum(-1).mean(-1)


def squared_distances(points: Tensor, others: Tensor) -> Tensor:
    """Return ‖f - g‖² of every pair: (K, D), (M, D) -> (K, M)."""
    product = points @ others.T
    squares = points.square().sum(-1).unsqueeze(-1) + others.square().sum(-1)
    return (squares - 2 * product).clamp_min(0)


def truth(y: Tensor, classes: int) -> Tensor:
    """Return f of the model that is right and certain on every input: (n,) -> (n·C,)."""
    return embedding(one_hot(y, classes).float().log())


def distance_to_truth(log_p: Tensor, y: Tensor) -> Tensor:
    """Compute the squared distance of particles to the model that is right and certain everywhere.

    1 - mean √p(y_i).

    Parameters
    ----------
    log_p : Tensor
        Log-probabilities of every particle, (K, n, C).
    y : Tensor
        True classes, (n,).

    Returns
    -------
    Tensor
        Squared Hellinger distances, (K,).

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> log_p = torch.tensor([[[1.0, 0.0]], [[0.25, 0.75]]]).log()  # two particles, one image
    >>> rp.geometry.distance_to_truth(log_p, torch.tensor([0]))
    tensor([0.0000, 0.5000])
    """
    return 1 - (finite(log_likelihood(log_p, y)) / 2).exp().mean(-1)


def distance_to_constants(log_p: Tensor) -> Tensor:
    """Compute the squared distance of particles to the C models that are certain of one class everywhere.

    Parameters
    ----------
    log_p : Tensor
        Log-probabilities of every particle, (K, n, C).

    Returns
    -------
    Tensor
        Squared Hellinger distances, (K, C).

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> log_p = torch.eye(2).log().unsqueeze(0)  # one particle, two images, certain of different classes
    >>> rp.geometry.distance_to_constants(log_p)
    tensor([[0.5000, 0.5000]])
    """
    return 1 - (finite(log_p) / 2).exp().mean(-2)


def distance_to_corner(log_p: Tensor) -> Tensor:
    """Compute the squared distance of particles to the nearest of the C^n models that are certain everywhere.

    Parameters
    ----------
    log_p : Tensor
        Log-probabilities of every particle, (K, n, C).

    Returns
    -------
    Tensor
        Squared Hellinger distances, (K,).

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> log_p = torch.tensor([[[1.0, 0.0]], [[0.5, 0.5]]]).log()  # two particles, one image
    >>> rp.geometry.distance_to_corner(log_p)
    tensor([0.0000, 0.2929])
    """
    return 1 - (finite(log_p).amax(-1) / 2).exp().mean(-1)


def is_constant(log_p: Tensor) -> Tensor:
    """Return whether a particle predicts one class for at least 99 % of the inputs: (K, n, C) -> (K,)."""
    votes = one_hot(log_p.argmax(-1), log_p.shape[-1]).double().mean(-2)  # (K, C)
    return votes.amax(-1) >= 0.99


def information_of_tuples(log_p: Tensor, log_prior: Tensor, order: int) -> Tensor:
    """Return I_π(w; y^N | x^N), eq:ref_ssl, of tuples of consecutive inputs: (K, n, C), (K,) -> (n // N,).

    Inputs left over after the last whole tuple do not count.
    """
    tuples = log_p.shape[1] // order
    if not tuples:
        raise ValueError(f"a tuple of order {order} needs {order} inputs, got {log_p.shape[1]}")
    return mutual_information(log_p[:, : tuples * order].unflatten(1, (tuples, order)), log_prior)


def effective_number(log_p: Tensor, log_prior: Tensor, order: int) -> Tensor:
    """Compute how many particles N labels can distinguish.

    exp of the mean mutual information, eq:ref_ssl, of tuples of consecutive inputs; at most min(K, C^N).

    Parameters
    ----------
    log_p : Tensor
        Log-probabilities of every particle, (K, n, C).
    log_prior : Tensor
        log π(w_k), (K,).
    order : int
        N, items in a tuple.

    Returns
    -------
    Tensor
        A scalar from 1 to min(K, C^N).

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> log_p = torch.eye(2).log().unsqueeze(1).expand(2, 4, 2)  # two particles, each certain of its own class
    >>> round(float(rp.geometry.effective_number(log_p, rp.information.uniform(2, log_p), order=2)), 4)
    2.0
    """
    return information_of_tuples(log_p, log_prior, order).mean().exp()


def cover(points: Tensor, resolution: float) -> Tensor:
    """Choose particles that cover all others at a resolution.

    The chosen particles are farther apart than `resolution`, and every particle is within it of one of them. Each
    choice is the particle farthest from those chosen; the first is the one farthest from the mean. Their number is the
    number of clusters at that resolution.

    Parameters
    ----------
    points : Tensor
        Points of `embedding`, (K, D).
    resolution : float
        A Hellinger distance (not squared) above 0.

    Returns
    -------
    Tensor
        Indices of the chosen particles, (m,).

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> rp.geometry.cover(torch.tensor([[0.0], [0.1], [0.9], [1.0]]), resolution=0.3)
    tensor([0, 3])
    """
    if resolution <= 0:
        raise ValueError(f"the resolution must be above 0, got {resolution}")
    nearest = (points - points.mean(0)).square().sum(-1)
    chosen: list[int] = []
    while not chosen or nearest.max() > resolution**2:
        chosen.append(int(nearest.argmax()))
        distance = (points - points[chosen[-1]]).square().sum(-1)
        nearest = distance if len(chosen) == 1 else torch.minimum(nearest, distance)
    return torch.tensor(chosen)


@dataclass(frozen=True)
class Components:
    """Axes through the mean of some points along which they spread most.

    Made by `principal_components`.

    Parameters
    ----------
    mean : Tensor
        Mean of the points, (D,).
    directions : Tensor
        Orthonormal axes, (d, D). An axis along which nothing spreads is 0.
    variances : Tensor
        Variance along each axis, (d,).
    total : float
        Variance along all directions.

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> line = torch.tensor([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]])
    >>> axes = rp.geometry.principal_components(line, count=1)
    >>> [round(share, 4) for share in axes.explained.tolist()], tuple(axes.project(line).shape)
    ([1.0], (3, 1))
    """

    mean: Tensor
    directions: Tensor
    variances: Tensor
    total: float

    @property
    def explained(self) -> Tensor:
        """Share of the variance along each axis, (d,)."""
        return self.variances / self.total if self.total else torch.zeros_like(self.variances)

    def project(self, points: Tensor) -> Tensor:
        """Project points onto the axes, including points to which the axes were not fitted.

        Parameters
        ----------
        points : Tensor
            Points, (M, D).

        Returns
        -------
        Tensor
            Coordinates along the axes, (M, d).
        """
        if points.shape[-1] != len(self.mean):
            raise ValueError(
                f"expected points of {len(self.mean)} coordinates, got {points.shape[-1]}: use predictions on the same "
                "inputs and classes"
            )
        return (points.to(self.mean) - self.mean) @ self.directions.T

    def distance(self, points: Tensor) -> Tensor:
        """Compute the distance of points to the space of the axes, which a projection does not show.

        Parameters
        ----------
        points : Tensor
            Points, (M, D).

        Returns
        -------
        Tensor
            Distances, (M,).
        """
        whole = (points.to(self.mean) - self.mean).square().sum(-1)
        return (whole - self.project(points).square().sum(-1)).clamp_min(0).sqrt()


def principal_components(points: Tensor, log_prior: Tensor | None = None, count: int = 3) -> Components:
    """Compute the principal components of points weighted by the prior.

    rem:visua_prior. They are computed in double precision from the smaller of the two matrices (K, K) and (D, D).

    Parameters
    ----------
    points : Tensor
        Points of `embedding`, (K, D).
    log_prior : Tensor, optional
        log π(w_k), (K,). Equal weights by default.
    count : int, default: 3
        d, the number of components.

    Returns
    -------
    Components
        The axes, their variances and the mean.

    Raises
    ------
    ValueError
        If there are too few points or coordinates.

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> points = rp.geometry.embedding(torch.randn(20, 50, 10).log_softmax(-1))  # 20 particles, 50 images
    >>> tuple(rp.geometry.principal_components(points).project(points).shape)
    (20, 3)
    """
    if len(points) <= count:
        raise ValueError(f"{count} components need at least {count + 1} particles, got {len(points)}")
    if points.shape[1] < count:
        raise ValueError(f"{count} components need at least {count} coordinates, got {points.shape[1]}")
    points = points.detach().double()
    log_prior = uniform(len(points), points) if log_prior is None else log_prior.detach().to(points)
    mean = average(points, log_prior)
    spread = (points - mean) * (log_prior / 2).exp().unsqueeze(-1)  # (K, D)
    variances, directions = _leading(spread, count)
    rounding = max(1e-28 * float(mean.square().sum()), 1e-14 * float(variances[0]))
    real = variances > rounding
    directions = torch.where(real.unsqueeze(-1), directions, torch.zeros_like(directions))
    return Components(mean, directions, variances * real, float(spread.square().sum()))


def _leading(spread: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the largest eigenvalues of spreadᵀ spread and their unit eigenvectors: (K, D) -> (d,), (d, D)."""
    wide = spread.shape[0] < spread.shape[1]
    matrix = (spread @ spread.T if wide else spread.T @ spread).cpu().numpy()
    size = len(matrix)
    # In the column order of LAPACK the symmetric matrix is not copied.
    values, vectors = eigh(matrix.T, subset_by_index=(size - count, size - 1), overwrite_a=True)
    variances = torch.from_numpy(np.maximum(values[::-1], 0).copy()).to(spread)
    rows = torch.from_numpy(vectors[:, ::-1].T.copy()).to(spread)
    directions = torch.nn.functional.normalize(rows @ spread if wide else rows, dim=-1)
    largest = directions.gather(-1, directions.abs().argmax(-1, keepdim=True))
    return variances, torch.where(largest < 0, -directions, directions)  # so that figures are not mirrored


@dataclass(frozen=True)
class Assignment:
    """Particles at the atoms of an exact prior."""

    atom: Tensor  # (K,) the nearest atom of every particle
    distance: Tensor  # (K,) squared distance to it
    weights: Tensor  # (M,) prior weight of the particles at each atom


def assign(points: Tensor, atoms: Tensor, log_prior: Tensor) -> Assignment:
    """Assign each particle to its nearest atom of an exact prior.

    Parameters
    ----------
    points : Tensor
        Points of the particles, (K, D).
    atoms : Tensor
        Points of the atoms, (M, D).
    log_prior : Tensor
        log π(w_k), (K,).

    Returns
    -------
    Assignment
        `atom` (K,), squared `distance` (K,), and prior `weights` of the particles at each atom (M,).

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> points, atoms = torch.tensor([[0.1], [0.9], [1.0]]), torch.tensor([[0.0], [1.0]])
    >>> rp.geometry.assign(points, atoms, rp.information.uniform(3, points)).atom
    tensor([0, 1, 1])
    """
    distance, atom = squared_distances(points, atoms.to(points)).min(-1)
    weights = torch.zeros(len(atoms)).to(points).index_add(0, atom, log_prior.exp().to(points))
    return Assignment(atom, distance, weights)
