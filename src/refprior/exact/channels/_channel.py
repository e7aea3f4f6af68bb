"""A channel is a model p(z | w): what the data z say about the parameter w.

Every channel is finite in z. Continuous outcomes are put on a quadrature so fine that its error is below rounding (each
model says how). The weight of a node is part of p, so rows sum to one. The solver works in coordinates u, axis by axis
a monotone function of w, in which Fisher length is evenly spread.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from refprior.exact._arrays import Array, as_numbers
from refprior.exact._cost import SLICE_ENTRIES
from refprior.exact.channels._rows import Rows, check_rows, outcome_number
from refprior.exact.channels._traits import GaussianNoise, Sums, Symmetry
from refprior.exact.channels._windows import Windows
from refprior.exact.geometry import Axes, MeasuredAxes

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
        from refprior.exact.channels._repeated import Repeated  # a subclass of this class

        return self if n == 1 else Repeated(self, n)

    @staticmethod
    def from_scipy(family: Callable[..., Any], *, bounds: ArrayLike, censored_at: float | None = None) -> Channel:
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

        return from_family(family, bounds, censored_at)

    @staticmethod
    def from_mean(
        mean: Callable[[Any], Any], *, sigma: ArrayLike, bounds: ArrayLike, curvature: ArrayLike | None = None
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
            Upper bound of every |∂²mean_t/∂w_i∂w_j| on the box, which broadcasts to (T, d, d). With it the gap of up
            to three parameters is proved by branch and bound, without it the gap is certified.

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

        return NoisyMean.build(mean, sigma, bounds, curvature)

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
        u = np.array(list(itertools.product(*axes))) if channel.dimension <= 3 else np.column_stack(axes)
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
