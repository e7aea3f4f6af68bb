"""A channel is a model p(z | w): what the data z say about the parameter w.

Every channel is finite in z. Continuous outcomes are put on a quadrature so fine that its error is below rounding (each
model says how). The weight of a node is part of p, so rows sum to one. The solver works in coordinates u, axis by axis
a monotone function of w, in which Fisher length is evenly spread.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from refprior.exact._arrays import Array, Index, Mask, as_numbers, grid_of
from refprior.exact._cost import SLICE_ENTRIES
from refprior.exact.geometry import Axes, MeasuredAxes


class Symmetry(NamedTuple):
    """Coordinates that have the same likelihood.

    `canonical` returns one representative of all coordinates with the same p(z | w): (K, d) -> (K, d). `idle` returns
    which coordinates have no effect there, whatever their value: (K, d) -> (K, d).
    """

    canonical: Callable[[Array], Array]
    idle: Callable[[Array], Mask] | None = None


class Gains(NamedTuple):
    """KL(p(z | w_k), p(z)) with its gradient and Hessian in the coordinates u: (K,), (K, d), (K, d, d)."""

    value: Array
    gradient: Array
    hessian: Array


class Sums(NamedTuple):
    """Faster sums over the outcomes than the general ones, for those that are given.

    `log_marginal` returns log Σ_k π_k p(z | w_k): (K, d), (K,) -> (Z,). `divergence` returns KL(p(z | w), p(z)):
    (K, d), (Z,) -> (K,). `gains` returns the same with derivatives.
    """

    log_marginal: Callable[[Array, Array], Array] | None = None
    divergence: Callable[[Array, Array], Array] | None = None
    gains: Callable[[Array, Array], Gains] | None = None


@dataclass(frozen=True)
class Windows:
    """The outcomes that a parameter can show in a long experiment of one parameter; all others are impossible.

    `ends` returns the first and the last outcome of each window: (K, 1) -> (K,), (K,). `log_likelihood` returns
    log p(z | w) at some outcomes of each w: (K, 1), (K, W) -> (K, W). `score` returns the first and second derivatives
    of log p in u there. `shortened` returns a shorter experiment, of about a share of the Fisher length, that looks
    the same near both ends. Windows are used if the experiment is `long`.
    """

    long: bool
    ends: Callable[[Array], tuple[Index, Index]]
    log_likelihood: Callable[[Array, Index], Array]
    score: Callable[[Array, Index], tuple[Array, Array]]
    shortened: Callable[[float], Channel]


class Cells(NamedTuple):
    """Means at the centers of cells, their slopes, and what is not linear, in standard deviations of the noise."""

    mean: Array  # (N, T)
    slope: Array  # (N, T, d) S, at the centers
    half: Array  # (N, d) h, in the coordinates of the slopes
    remainder: Array  # (N, T) R, the largest |m − m_c − S δ| on the cell


class GaussianNoise(NamedTuple):
    """Gaussian noise around a mean whose slope and curvature are bounded: the gain can be bounded on whole cells.

    `cells` returns the means on cells of coordinates from low to high: (N, d), (N, d) -> Cells. `gain` returns
    KL(p(z | m), p(z)) and its gradient in the mean m: (N, T), (Z,) -> (N,), (N, T).
    """

    cells: Callable[[Array, Array], Cells]
    gain: Callable[[Array, Array], tuple[Array, Array]]


SMALLEST_LOG = -745.0  # replaces log 0 where it meets a factor of zero: exp of anything less is zero
ROW_SUM_TOLERANCE = 1e-9  # a likelihood that misses one by more than this is a mistake, not rounding


class Rows(NamedTuple):
    """Likelihoods p(z | w_k) with derivatives in the coordinates u, as `Channel.rows` returns them.

    Derivatives are those of p, not of log p, so they stay finite where p = 0. Second derivatives are large and only
    needed as sums over z, so they are given as a function that sums them.

    Parameters
    ----------
    log_p : ndarray of shape (K, Z)
        log p(z | w_k).
    first : ndarray of shape (K, d, Z)
        First derivatives of p.
    second : callable
        Takes values (Z,) and returns Σ_z ∂_i ∂_j p values, (K, d, d).
    negentropy_hessian : ndarray of shape (K, d, d)
        Second derivatives of Σ_z p log p.

    Examples
    --------
    >>> import numpy as np
    >>> from refprior.exact import Rows
    >>> w = np.array([[0.25], [0.5]])  # one toss of a coin: p = (1 - w, w)
    >>> first = np.tile([-1.0, 1.0], (2, 1, 1))
    >>> rows = Rows.from_derivatives(np.log(np.hstack([1 - w, w])), first, np.zeros((2, 1, 1, 2)))
    >>> rows.negentropy_hessian.round(6).ravel().tolist()  # 1 / (w (1 - w))
    [5.333333, 4.0]
    """

    log_p: Array
    first: Array
    second: Callable[[Array], Array]
    negentropy_hessian: Array

    @classmethod
    def from_derivatives(cls, log_p: Array, first: Array, second: Array) -> Rows:
        """Build rows from first and second derivatives of p.

        Parameters
        ----------
        log_p : ndarray of shape (K, Z)
            log p(z | w_k).
        first : ndarray of shape (K, d, Z)
            First derivatives of p.
        second : ndarray of shape (K, d, d, Z)
            Second derivatives of p.

        Returns
        -------
        Rows
            The rows.
        """
        shapes = tuple(np.shape(part) for part in (log_p, first, second))
        dimension = shapes[1][1] if len(shapes[1]) == 3 else 1
        count, outcomes = shapes[0] if len(shapes[0]) == 2 else (0, 0)
        if shapes != ((count, outcomes), (count, dimension, outcomes), (count, dimension, dimension, outcomes)):
            raise ValueError(f"log p and derivatives must be (K, Z), (K, d, Z) and (K, d, d, Z), got {shapes}")
        p = np.exp(log_p)[:, None]
        relative = np.divide(first, p, out=np.zeros_like(first), where=p > 0)
        hessian = np.einsum("kijz,kz->kij", second, np.maximum(log_p, SMALLEST_LOG))
        hessian += np.einsum("kiz,kjz->kij", first, relative)
        return cls(log_p, first, lambda values: np.asarray(second @ values), hessian)

    @classmethod
    def from_log_derivatives(cls, log_p: Array, first: Array, second: Array) -> Rows:
        """Build rows from first and second derivatives of log p.

        Parameters
        ----------
        log_p : ndarray of shape (K, Z)
            log p(z | w_k).
        first : ndarray of shape (K, d, Z)
            First derivatives of log p.
        second : ndarray of shape (K, d, d, Z)
            Second derivatives of log p.

        Returns
        -------
        Rows
            The rows.

        Raises
        ------
        ValueError
            If a derivative is not finite, as where p = 0: use `from_derivatives` there.
        """
        if not (np.isfinite(first).all() and np.isfinite(second).all()):
            raise ValueError("the derivatives of log p are not finite: where p = 0, use Rows.from_derivatives")
        return cls.from_derivatives(log_p, *derivatives_of_p(log_p, first, second))


def derivatives_of_p(log_p: Array, first: Array, second: Array) -> tuple[Array, Array]:
    """Return first and second derivatives of p from those of log p, same shapes: (K, d, Z), (K, d, d, Z)."""
    p = np.exp(log_p)[:, None, :]
    outer = first[:, :, None, :] * first[:, None, :, :]
    return p * first, p[:, None] * (second + outer)


def combined(operation: np.ufunc, parts: Iterable[Array]) -> Array:
    """Combine independent outcomes row by row, by np.add or np.multiply: [(K, Y_r)] -> (K, ∏ Y_r)."""
    return reduce(lambda a, b: operation(a[:, :, None], b[:, None, :]).reshape(len(a), -1), parts)


def check_rows(log_p: Array, u: Array, outcomes: int, name: str) -> Array:
    """Check the shape, values and normalization of log-likelihoods, and return the sums of p: (K,)."""
    expected, came = (len(u), outcomes), np.shape(log_p)
    if came != expected:
        raise ValueError(
            f"{name} returned shape {came}, expected {expected}: one row per parameter, one column per outcome"
        )
    if np.any(np.isnan(log_p)) or np.any(log_p == np.inf):
        bad = np.argwhere(np.isnan(log_p) | (log_p == np.inf))[0]
        raise ValueError(f"{name} is NaN or +inf at w = {u[bad[0]].tolist()}, outcome {bad[1]}")
    with np.errstate(over="ignore"):
        sums = np.exp(log_p).sum(axis=1)
    check_row_sums(sums, lambda row: f"at w = {u[row].tolist()} it")
    return np.asarray(sums)


def check_row_sums(sums: Array, name: Callable[[int], str] = lambda row: f"row {row}") -> None:
    """Raise ValueError for likelihoods that are not normalized, naming the worst."""
    worst = int(np.argmax(np.abs(sums - 1)))
    if not abs(sums[worst] - 1) <= ROW_SUM_TOLERANCE:
        raise ValueError(
            f"the likelihood must sum to one over the outcomes: {name(worst)} sums to {sums[worst]:.12g}; "
            "normalize it, or multiply a density by its quadrature weights"
        )


def outcome_number(outcomes: Array, z: ArrayLike) -> int:
    """Return the number of an outcome given by a user; raise ValueError if it is none: (Z,) or (Z, t)."""
    seen = as_numbers("an outcome", z)
    shape = np.shape(outcomes)[1:]
    if seen.shape != shape or not np.all(np.isfinite(seen)):
        raise ValueError(f"an outcome is {'one number' if not shape else f'{shape[0]} numbers'}, got {z!r}")
    apart = np.abs(outcomes - seen).reshape(len(outcomes), -1).max(axis=1)
    nearest = int(np.argmin(apart))
    if apart[nearest] > 1e-9 * (1 + np.abs(seen).max()):
        raise ValueError(f"{z!r} is not an outcome: the nearest is {outcomes[nearest].tolist()}")
    return nearest


Resolution = Literal["coarse", "fine"]


class Channel(ABC):
    """A model p(z | w) on a box of parameters.

    To define a model, set `bounds` and `outcomes` and implement `log_likelihood` and `rows`; `Channel.from_function`
    needs the log-likelihood only. Everything else has a default:

    - `parameter`, `coordinate` and `jacobian` if the solver should work in coordinates u other than w;
    - `axes` if Fisher lengths are known (otherwise they are measured from the likelihood);
    - `log_likelihood_of` if outcomes beyond the quadrature nodes are possible;
    - `at_resolution` if the search can start on fewer outcomes, or if outcomes are a quadrature: the certificate
      compares it with a finer one;
    - `repeat` if a sufficient statistic of several samples is known.

    The certificate judges every channel in the same way, however its prior was found.

    Attributes
    ----------
    bounds : ndarray of shape (d, 2)
        Lower and upper end of each coordinate u.
    outcomes : ndarray of shape (Z,) or (Z, t)
        All outcomes.
    mirror : bool, optional
        Whether the model of one parameter is its own mirror image under u → low + high − u, up to the order of its
        outcomes: the prior is then made symmetric. If None, the default, the solver tests it.
    continuous : bool, default: True
        False for a finite set of parameters, none of which can move; `axes` lists them.
    listed : bool, default: True
        False if there are too many outcomes to list, so that they are sampled.
    tail : float, default: 0
        Nats by which omitted outcomes may change the gain.
    slope_error : float, default: 0
        Error of slopes of the gain, in nats per standard deviation. Atoms inherit it.
    default_tolerance : float, default: 1e-12
        Largest gap in nats that `reference_prior` accepts unless it is given one.
    factors : tuple of Channel
        Independent experiments, each on its own parameters, if the channel consists of several.
    outcome_axes : int, default: 1
        The number of independent parts of an outcome, if its probability is their product.
    symmetry : Symmetry, optional
        Coordinates that have the same likelihood.
    sums : Sums
        Shortcuts for sums over the outcomes.
    windows : Windows, optional
        The outcomes near the mean, for long experiments of one parameter.
    noise : GaussianNoise, optional
        Gaussian noise around a mean with bounded curvature: the gap is then proved.

    Examples
    --------
    >>> import numpy as np
    >>> from refprior.exact import Channel, Rows, reference_prior
    >>> class Toss(Channel):
    ...     bounds, outcomes = np.array([[0.0, 1.0]]), np.array([0.0, 1.0])
    ...     def log_likelihood(self, u):
    ...         with np.errstate(divide="ignore"):
    ...             return np.log(np.hstack([1 - u, u]))
    ...     def rows(self, u):
    ...         first, second = np.tile([-1.0, 1.0], (len(u), 1, 1)), np.zeros((len(u), 1, 1, 2))
    ...         return Rows.from_derivatives(self.log_likelihood(u), first, second)
    >>> round(reference_prior(Toss()).information, 6)  # log 2
    0.693147
    """

    bounds: Array
    outcomes: Array
    mirror: bool | None = None
    continuous: ClassVar[bool] = True
    listed: bool = True
    tail: float = 0.0
    slope_error: float = 0.0
    default_tolerance: float = 1e-12
    factors: tuple[Channel, ...] = ()
    outcome_axes: int = 1
    symmetry: Symmetry | None = None
    sums: Sums = Sums()
    windows: Windows | None = None
    noise: GaussianNoise | None = None

    @abstractmethod
    def log_likelihood(self, u: Array) -> Array:
        """Return log p(z | w(u)) of every outcome.

        Parameters
        ----------
        u : ndarray of shape (K, d)
            Coordinates.

        Returns
        -------
        ndarray of shape (K, Z)
            One row per coordinate, one column per outcome.

        Examples
        --------
        >>> import numpy as np
        >>> from refprior.exact import Gaussian
        >>> Gaussian(2.0).log_likelihood(np.array([[0.0], [1.0]])).shape[0]
        2
        """

    @abstractmethod
    def rows(self, u: Array) -> Rows:
        """Return log p(z | w(u)) and the derivatives of p in u.

        Parameters
        ----------
        u : ndarray of shape (K, d)
            Coordinates.

        Returns
        -------
        Rows
            The likelihood with its first and second derivatives.

        Examples
        --------
        >>> import numpy as np
        >>> from refprior.exact import Coin
        >>> Coin(3).rows(np.array([[1.0], [2.0]])).first.shape
        (2, 1, 4)
        """

    @property
    def dimension(self) -> int:
        """The number of parameters d."""
        return len(self.bounds)

    @property
    def outcome_count(self) -> int:
        """The number of outcomes Z."""
        return len(self.outcomes)

    @property
    def axes(self) -> Axes:
        """Fisher lengths of the axes, and grids that are even in them; measured unless a model knows them."""
        return self._measured_axes

    @cached_property
    def _measured_axes(self) -> Axes:
        return MeasuredAxes(lambda u: np.exp(0.5 * self.log_likelihood(u)), self.bounds, self.outcome_count)

    def parameter(self, u: Array) -> Array:
        """Return the parameter w of a coordinate u.

        Parameters
        ----------
        u : ndarray of shape (K, d)
            Coordinates.

        Returns
        -------
        ndarray of shape (K, d)
            Parameters.

        Examples
        --------
        >>> import numpy as np
        >>> from refprior.exact import Coin
        >>> Coin(3).parameter(np.array([[np.pi / 2]])).round(6).tolist()
        [[0.5]]
        """
        return u

    def coordinate(self, w: Array) -> Array:
        """Return the coordinate u of a parameter w, the inverse of `parameter`.

        Parameters
        ----------
        w : ndarray of shape (K, d)
            Parameters.

        Returns
        -------
        ndarray of shape (K, d)
            Coordinates.

        Examples
        --------
        >>> import numpy as np
        >>> from refprior.exact import Coin
        >>> Coin(3).coordinate(np.array([[0.5]])).round(6).tolist()  # π / 2
        [[1.570796]]
        """
        return w

    def jacobian(self, u: Array) -> Array:
        """Return dw/du along each axis, the diagonal of the Jacobian.

        Parameters
        ----------
        u : ndarray of shape (K, d)
            Coordinates.

        Returns
        -------
        ndarray of shape (K, d)
            Derivatives of `parameter`.
        """
        return np.ones_like(u)

    def log_likelihood_of(self, u: Array, z: ArrayLike) -> Array:
        """Return log p(z | w(u)) of one outcome.

        Parameters
        ----------
        u : ndarray of shape (K, d)
            Coordinates.
        z : array_like
            An outcome: a number, or several for outcomes of several parts.

        Returns
        -------
        ndarray of shape (K,)
            Log-probabilities, or log-densities of continuous outcomes.

        Raises
        ------
        ValueError
            If z is not an outcome.

        Examples
        --------
        >>> import numpy as np
        >>> from refprior.exact import Coin
        >>> np.exp(Coin(3).log_likelihood_of(np.array([[np.pi / 2]]), 3)).round(6).tolist()  # 1/8
        [0.125]
        """
        return np.asarray(self.log_likelihood(u)[:, outcome_number(self.outcomes, z)])

    def at_resolution(self, resolution: Resolution) -> Channel | None:
        """Return the same model on fewer or more outcomes, if it has such outcomes.

        Parameters
        ----------
        resolution : {"coarse", "fine"}
            "coarse" for fewer outcomes, on which the search starts; "fine" for a finer quadrature of continuous
            outcomes, with which the certificate compares.

        Returns
        -------
        Channel or None
            None if the channel has only one resolution.
        """
        return None

    def repeat(self, n: int) -> Channel:
        """Return the channel of n independent samples.

        Its outcomes are counts of the outcomes of one sample, or a sufficient statistic if one is known.

        Parameters
        ----------
        n : int
            The number of samples.

        Returns
        -------
        Channel
            The channel of n samples.

        Examples
        --------
        >>> from refprior.exact import Categorical, Coin, Gaussian, reference_prior
        >>> Coin(1).repeat(5), Gaussian(1.0).repeat(4)
        (Coin(n=5), Gaussian(amplitude=1.0, sigma=0.5, nodes=8))
        >>> rain = Categorical([[0.9, 0.1], [0.6, 0.4]])  # two kinds of weather, dry and wet days
        >>> [round(reference_prior(rain.repeat(n)).information, 6) for n in (1, 10)]
        [0.063635, 0.408242]
        """
        from refprior.exact.channels._finite import Repeated  # a subclass of this class

        return self if n == 1 else Repeated(self, n)

    @staticmethod
    def from_scipy(
        family: Callable[..., Any],
        *,
        bounds: ArrayLike,
        censored_at: float | None = None,
        bins: ArrayLike | None = None,
    ) -> Channel:
        """Build a channel from a distribution of scipy.stats.

        Counts may be unbounded: those beyond a mass of 1e-17 are omitted, and their share is part of the gap.
        Densities are put on a quadrature, and the gap includes the difference from one that is twice as fine.

        Parameters
        ----------
        family : callable
            Takes one array per parameter and returns a frozen distribution.
        bounds : array_like of shape (2,) or (d, 2)
            Lower and upper end of each parameter, for at most two parameters.
        censored_at : float, optional
            Outcomes from here on are right-censored.
        bins : array_like, optional
            Edges of bins, which may begin at -inf and end at inf. The outcome is then the number of the bin. Densities
            with kinks or jumps (Laplace, uniform, triangular) need bins.

        Returns
        -------
        Channel
            The model.

        Examples
        --------
        >>> from scipy import stats
        >>> from refprior.exact import Channel, reference_prior
        >>> waiting = Channel.from_scipy(lambda w: stats.geom(w), bounds=(0.1, 0.9))
        >>> round(reference_prior(waiting).information, 6)
        0.453268
        """
        from refprior.exact.channels._scipy import from_family  # it makes a subclass of this class

        return from_family(family, bounds, censored_at, bins)

    @staticmethod
    def from_mean(
        mean: Callable[[Any], Any],
        *,
        sigma: ArrayLike,
        bounds: ArrayLike,
        curvature: ArrayLike | None = None,
        slopes: Callable[[Array], ArrayLike] | None = None,
    ) -> Channel:
        """Build a channel with Gaussian noise from the mean of its observations.

        The model is z_t = mean_t(w) + noise of standard deviation sigma_t. With more than three parameters the gap is
        searched, and if there are too many outcomes for a grid, with samples of the noise.

        Parameters
        ----------
        mean : callable
            Takes w as (K,) for one pair of bounds, or as (K, d) for several, and returns (K,) or (K, T) for T
            observations, in doubles of numpy, torch or jax.
        sigma : float or array_like of shape (T,)
            Standard deviation of the noise.
        bounds : array_like of shape (2,) or (d, 2)
            Lower and upper end of each parameter.
        curvature : float or array_like, optional
            Upper bound of every `|∂²mean_t/∂w_i∂w_j|` on the box, which broadcasts to (T, d, d). With it the gap of up
            to three parameters is proved by branch and bound, without it the gap is certified. The proof relies on
            the bound; a bound below second differences of the mean raises ValueError.
        slopes : callable, optional
            Returns the derivatives ∂mean_t/∂w_i as (K, T, d), for example the sensitivities of a differential
            equation. By default they are finite differences of the mean.

        Returns
        -------
        Channel
            The model.

        Examples
        --------
        >>> import numpy as np
        >>> from refprior.exact import Channel, reference_prior
        >>> channel = Channel.from_mean(lambda w: np.sin(w), sigma=0.5, bounds=(-1.5, 1.5), curvature=1.0)
        >>> prior = reference_prior(channel, tolerance=1e-10)
        >>> prior.evidence, prior.atoms.round(4).tolist()
        ('proved', [-1.5, 0.0, 1.5])
        """
        from refprior.exact.channels._mean import NoisyMean  # a subclass of this class

        return NoisyMean.build(mean, sigma, bounds, curvature, slopes=slopes)

    @staticmethod
    def from_function(
        log_likelihood: Callable[[Any], Any],
        *,
        bounds: ArrayLike,
        outcomes: ArrayLike,
        derivatives: Callable[[Array], tuple[ArrayLike, ArrayLike]] | None = None,
    ) -> Channel:
        """Build a channel from a log-likelihood.

        Parameters
        ----------
        log_likelihood : callable
            Takes w as (K,) for one pair of bounds, or as (K, d) for several, and returns (K, Z), one column per
            outcome, in doubles of numpy, torch or jax.
        bounds : array_like of shape (2,) or (d, 2)
            Lower and upper end of each parameter.
        outcomes : array_like of shape (Z,) or (Z, t)
            All outcomes.
        derivatives : callable, optional
            Returns the first and second derivatives of log p in w, (K, d, Z) and (K, d, d, Z). By default they come
            from torch or jax if the function is written with it, and from finite differences otherwise. Derivatives
            only steer the search: the gap does not use them.

        Returns
        -------
        Channel
            The model.

        Examples
        --------
        >>> import numpy as np
        >>> from scipy.stats import binom
        >>> from refprior.exact import Channel, reference_prior
        >>> heads = np.arange(3)
        >>> coin = Channel.from_function(lambda w: binom.logpmf(heads, 2, w[:, None]), bounds=(0, 1), outcomes=heads)
        >>> round(reference_prior(coin).information, 6)  # log(17/8)
        0.753772
        """
        from refprior.exact.channels._function import FunctionChannel  # a subclass of this class

        return FunctionChannel.build(log_likelihood, bounds, outcomes, derivatives)

    def _derive(self, **arrays: Any) -> None:
        """Set what follows from the fields of a frozen dataclass."""
        for name, value in arrays.items():
            object.__setattr__(self, name, value)


def canonical(channel: Channel, u: Array) -> Array:
    """Return one representative of all coordinates with the same likelihood: (K, d) -> (K, d)."""
    return u if channel.symmetry is None else channel.symmetry.canonical(u)


def is_long(channel: Channel) -> bool:
    """Return whether sums over the outcomes of a channel are taken over windows."""
    return channel.windows is not None and channel.windows.long


def to_coordinates(channel: Channel, w: ArrayLike) -> Array:
    """Return coordinates of parameters given by a user: (M,) or (M, d) -> (M, d); raise ValueError out of bounds."""
    points = as_numbers("parameters", w)
    if not points.size or points.size % channel.dimension:
        raise ValueError(f"parameters must have shape (M, {channel.dimension}) with M > 0, got shape {points.shape}")
    points = points.reshape(-1, channel.dimension)
    with np.errstate(invalid="ignore"):
        u = channel.coordinate(points)
    low, high = channel.bounds.T
    outside = (u < low - 1e-12) | (u > high + 1e-12) | np.isnan(u)  # less is rounding
    if np.any(outside):
        ends = channel.parameter(channel.bounds.T)
        worst = points[np.argmax(np.any(outside, axis=1))].tolist()
        raise ValueError(f"the parameter {worst} is out of bounds: from {ends[0].tolist()} to {ends[1].tolist()}")
    return np.clip(u, low, high)


def check_channel(channel: object, name: str = "channel") -> Channel:
    """Check the shapes of a channel and the sums of some of its rows, and return it."""
    if not isinstance(channel, Channel):
        hint = f"; did you mean {channel.__name__}(…)?" if isinstance(channel, type) else ""
        raise ValueError(f"{name} must be a Channel such as Coin(10), got {_short(channel)}{hint}")
    kind, bounds = type(channel).__name__, getattr(channel, "bounds", None)
    box = np.asarray(bounds)
    good = box.ndim == 2 and box.shape[1] == 2 and len(box) >= 1 and box.dtype.kind in "fiu"
    if not good or not np.all(np.isfinite(box)) or np.any(box[:, 0] > box[:, 1]):
        raise ValueError(
            f"{kind}.bounds must be an array of shape (d, 2), low and high of each coordinate, got {_short(bounds)}"
        )
    if not channel.listed:
        return channel
    if type(channel).outcome_count is Channel.outcome_count:  # else outcomes need not be listed to be counted
        shape = np.asarray(getattr(channel, "outcomes", None)).shape
        if not shape or 0 in shape:
            raise ValueError(f"{kind}.outcomes must be an array with one entry per outcome, got shape {shape}")
    outcomes = channel.outcome_count
    if 5 ** min(channel.dimension, 3) * outcomes <= SLICE_ENTRIES:  # longer ones are checked as they are evaluated
        places = np.linspace(0, 1, 5) ** 1.3  # both ends and uneven places between them
        axes = [low + (high - low) * places for low, high in channel.bounds]
        axes = axes if channel.continuous else [channel.axes.points(0, 0)]
        u = grid_of(axes) if channel.dimension <= 3 else np.column_stack(axes)
        check_rows(channel.log_likelihood(u), channel.parameter(u), outcomes, f"{kind}.log_likelihood")
    return channel


def check_instance(name: str, value: object, kind: type, maker: str) -> None:
    """Raise ValueError if a value is not of this kind."""
    if not isinstance(value, kind):
        raise ValueError(f"{name} must be a {kind.__name__} as {maker} returns it, got {_short(value)}")


def _short(value: object) -> str:
    """Return the repr on one line, cut to the length of a message."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."
