"""A channel is a model p(z | w): what the data z say about the parameter w.

Every channel is finite in z. Continuous outcomes are put on a quadrature so fine that its error is below
rounding (each model says how). The weight of a node is absorbed into p, so rows sum to one. The solver works
in coordinates u, axis by axis a monotone function of w, in which Fisher length is evenly spread.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from refprior.exact._arrays import Array, Index, Mask, as_numbers
from refprior.exact.channels._cells import Cells
from refprior.exact.channels._rows import (
    SMALLEST_LOG,
    Gains,
    Rows,
    check_row_sums,
    log_mixture,
    outcome_number,
)
from refprior.exact.channels._windows import windowed_divergence, windowed_log_marginal
from refprior.exact.geometry import Chart, Scan, measure, scan_box


class Channel(ABC):
    """A model p(z | w) on a box of parameters.

    A subclass sets `bounds` and `outcomes` and defines `log_likelihood` and `rows`; `Channel.from_function`
    does so from a function alone. Everything else has a default that a subclass may override:

    - coordinates other than w: `parameter` and `coordinate`, with `jacobian`; `canonical` for symmetries, `idle`;
    - grids: `known_lengths` if Fisher lengths are known (else they are measured), `axis_points` and
      `certificate_axis`; `continuous = False` for a finite set of parameters, none of which can move;
    - speed: `coarse`, `log_marginal`, `divergence`; `window_ends` and its kin for long experiments;
    - errors, which the certificate adds to the gap: `finer` for a quadrature, `tail` for outcomes left out;
    - other outcomes than the quadrature's: `log_likelihood_of`;
    - proofs: `means_on` and `gain_of_means` for Gaussian noise, whose gain can be bounded on whole cells.

    The certificate judges every channel in the same way, however its prior was found.

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

    bounds: Array  # (d, 2), of the coordinates u
    outcomes: Array  # (Z,) or (Z, t)
    listed: bool = True  # if not, outcomes are too many, and are sampled
    continuous: ClassVar[bool] = True  # if not, `axis_points` gives all parameters there are
    bounds_are_declared: bool = True  # for Gaussian noise: whether what `means_on` says is certain
    tail: float = 0.0  # nats by which outcomes that were left out may change the gain

    @abstractmethod
    def log_likelihood(self, u: Array) -> Array:
        """log p(z | w(u)), one value per outcome: (K, d) -> (K, Z).

        >>> import numpy as np
        >>> from refprior.exact import Gaussian
        >>> Gaussian(2.0).log_likelihood(np.array([[0.0], [1.0]])).shape[0]
        2
        """

    @abstractmethod
    def rows(self, u: Array) -> Rows:
        """log p and the derivatives of p in u: (K, d) -> Rows.

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

    def parameter(self, u: Array) -> Array:
        """The parameter w of a coordinate: (K, d) -> (K, d).

        >>> import numpy as np
        >>> from refprior.exact import Coin
        >>> Coin(3).parameter(np.array([[np.pi / 2]])).round(6).tolist()
        [[0.5]]
        """
        return u

    def coordinate(self, w: Array) -> Array:
        """The coordinate u of a parameter, the inverse of `parameter`: (K, d) -> (K, d).

        >>> import numpy as np
        >>> from refprior.exact import Coin
        >>> Coin(3).coordinate(np.array([[0.5]])).round(6).tolist()  # π / 2
        [[1.570796]]
        """
        return w

    def to_coordinates(self, w: ArrayLike) -> Array:
        """Coordinates of parameters that a user gave, refused out of bounds: (M,) or (M, d) -> (M, d).

        >>> from refprior.exact import Coin
        >>> Coin(3).to_coordinates([0.0, 0.5]).round(6).tolist()
        [[0.0], [1.570796]]
        """
        points = as_numbers("parameters", w)
        if not points.size or points.size % self.dimension:
            raise ValueError(f"parameters must have shape (M, {self.dimension}) with M > 0, got shape {points.shape}")
        points = points.reshape(-1, self.dimension)
        with np.errstate(invalid="ignore"):
            u = self.coordinate(points)
        outside = (u < self.bounds[:, 0] - 1e-12) | (u > self.bounds[:, 1] + 1e-12) | np.isnan(u)
        if np.any(outside):
            ends = self.parameter(self.bounds.T)
            worst = points[np.argmax(np.any(outside, axis=1))].tolist()
            raise ValueError(f"the parameter {worst} is out of bounds: from {ends[0].tolist()} to {ends[1].tolist()}")
        return np.clip(u, self.bounds[:, 0], self.bounds[:, 1])

    def jacobian(self, u: Array) -> Array:
        """dw/du along each axis, the diagonal of the Jacobian: (K, d) -> (K, d)."""
        return np.ones_like(u)

    def canonical(self, u: Array) -> Array:
        """One representative of all coordinates with the same p(z | w): (K, d) -> (K, d)."""
        return u

    def idle(self, u: Array) -> Mask:
        """Which coordinates do nothing there, whatever their value; `canonical` chooses one: (K, d) -> (K, d)."""
        return np.zeros(u.shape, dtype=bool)

    def embedding(self, u: Array) -> Array:
        """Points whose distance, where it is short, is the Fisher length between parameters, 2√p: (K, d) -> (K, M)."""
        return np.asarray(2 * np.exp(0.5 * self.log_likelihood(u)))

    def log_likelihood_of(self, u: Array, z: ArrayLike) -> Array:
        """log p(z | w) of one outcome z: (K, d) -> (K,).

        >>> import numpy as np
        >>> from refprior.exact import Coin
        >>> np.exp(Coin(3).log_likelihood_of(np.array([[np.pi / 2]]), 3)).round(6).tolist()  # 1/8
        [0.125]
        """
        return np.asarray(self.log_likelihood(u)[:, outcome_number(self.outcomes, z)])

    # grids

    def known_lengths(self) -> Array | None:
        """Fisher length of each axis in standard deviations, (d,), or None if it has to be measured.

        A channel that gives lengths promises that its coordinates are evenly spread in them, or finer.
        """
        return None

    def axis_lengths(self) -> Array:
        """Fisher length of each axis in standard deviations, the longest over the other axes: (d,)."""
        known = self.known_lengths()
        return self._chart.lengths if known is None else known

    def axis_points(self, axis: int, count: int) -> Array:
        """`count` points of an axis, both ends included, even in Fisher length: (count,)."""
        if self.known_lengths() is None:
            x = np.tile(np.linspace(0, 1, count)[:, None], (1, self.dimension))
            return np.asarray(self._chart.to_box(x)[:, axis])
        return np.linspace(self.bounds[axis, 0], self.bounds[axis, 1], count)

    def certificate_axis(self, axis: int, count: int) -> Array:
        """Points of an axis on which the certificate looks: `axis_points`, and the nodes of a measured axis."""
        points = self.axis_points(axis, count)
        if self.known_lengths() is not None or self.dimension > 1:
            return points
        return np.union1d(points, self._chart.axes[axis].nodes)

    def certificate_points(self) -> tuple[Array, Array]:
        """More points at which the certificate looks, off its grid, and their widths: (M, d), (M, d)."""
        if self.known_lengths() is not None or self.dimension == 1:
            return np.empty((0, self.dimension)), np.empty((0, self.dimension))
        points, widths = self._scan.points, self._scan.widths
        return self._chart.to_box(points), self._chart.slopes(points) * widths

    @property
    def measured(self) -> bool:
        """Whether what is known of the likelihood's scales was sampled: the certificate then looks more closely."""
        return self.continuous and self.known_lengths() is None

    @property
    def slope_error(self) -> float:
        """By how much slopes of the gain may err, in nats per standard deviation: atoms err with them."""
        return 0.0

    @property
    def resolved(self) -> bool:
        """Whether Fisher lengths are known or could be measured: if not, no grid can be trusted."""
        return not self.measured or (self._chart.resolved and self._scan.resolved)

    @cached_property
    def _chart(self) -> Chart:
        return measure(lambda u: np.exp(0.5 * self.log_likelihood(u)), self.bounds, self.outcome_count)

    @cached_property
    def _scan(self) -> Scan:
        chart = self._chart
        return scan_box(lambda x: np.exp(0.5 * self.log_likelihood(chart.to_box(x))), chart.lengths, self.outcome_count)

    @property
    def factors(self) -> tuple[Channel, ...]:
        """Independent experiments on parameters of their own, if the channel consists of several."""
        return ()

    def repeat(self, n: int) -> Channel:
        """The channel of n independent samples: counts of the outcomes, or a sufficient statistic that is known.

        >>> from refprior.exact import Categorical, Coin, Gaussian, reference_prior
        >>> Coin(1).repeat(5), Gaussian(1.0).repeat(4)
        (Coin(n=5), Gaussian(amplitude=1.0, sigma=0.5, nodes=8))
        >>> rain = Categorical([[0.9, 0.1], [0.6, 0.4]])  # two kinds of weather, dry and wet days
        >>> [round(reference_prior(rain.repeat(n)).information, 6) for n in (1, 10)]
        [0.063635, 0.408242]
        """
        from refprior.exact.channels._repeated import Repeated  # a subclass of this class

        return self if n == 1 else Repeated(self, n)

    def sharing(self, other: Channel) -> Channel:
        """The same channel in the coordinates of another of the same parameter, for objectives of both."""
        return self

    # speed

    def coarse(self) -> Channel:
        """A cheaper channel for the first part of the search: fewer outcomes, the same parameters."""
        return self

    def finer(self) -> Channel | None:
        """The same channel with a finer quadrature of its continuous outcomes; None if outcomes are what they are."""
        return None

    @property
    def outcome_axes(self) -> int:
        """Independent parts of an outcome, if its probability is their product: sums over z are then fast."""
        return 1

    def log_marginal(self, u: Array, weights: Array) -> Array:
        """log p(z) = log Σ_k π_k p(z | w_k): (K, d), (K,) -> (Z,)."""
        if (ends := self.window_ends(u)) is not None:
            return windowed_log_marginal(self, u, weights, ends)
        return log_mixture(self.log_likelihood(u), weights)

    def divergence(self, u: Array, log_marginal: Array) -> Array:
        """KL(p(z | w), p(z)), infinite where w allows what the marginal excludes: (K, d), (Z,) -> (K,)."""
        if (ends := self.window_ends(u)) is not None:
            return windowed_divergence(self, u, log_marginal, ends)
        log_p = self.log_likelihood(u)
        p = np.exp(log_p)
        check_row_sums(p.sum(axis=1), lambda row: f"at w = {self.parameter(u[row : row + 1])[0].tolist()} it")
        with np.errstate(invalid="ignore"):
            return np.asarray(np.sum(np.where(p > 0, p * (log_p - log_marginal), 0.0), axis=1))

    def gains(self, u: Array, log_marginal: Array) -> Gains:
        """The same with its derivatives, for a search: (K, d), finite (Z,) -> Gains."""
        log_p, first, second, negentropy_hessian = self.rows(u)
        ratio = np.maximum(log_p, SMALLEST_LOG) - log_marginal
        gradient = np.einsum("kiz,kz->ki", first, ratio)
        return Gains(np.sum(np.exp(log_p) * ratio, axis=1), gradient, negentropy_hessian - second(log_marginal))

    # long experiments of one parameter

    def window_ends(self, u: Array) -> tuple[Index, Index] | None:
        """The first and the last outcome that each w can show, all others being impossible: (K, d) -> (K,), (K,).

        None, as for all but long experiments: every outcome is summed. With windows come the next three methods.
        """
        return None

    def log_likelihood_at(self, u: Array, columns: Index) -> Array:
        """log p(z | w) at some outcomes of each w: (K, 1), (K, W) -> (K, W)."""
        return np.asarray(np.take_along_axis(self.log_likelihood(u), columns, axis=1))

    def score_at(self, u: Array, columns: Index) -> tuple[Array, Array]:
        """First and second derivatives of log p in u at some outcomes of each w: (K, 1), (K, W) -> (K, W), (K, W)."""
        raise NotImplementedError("only channels of long experiments have windows")

    def shortened(self, share: float) -> Channel | None:
        """A shorter experiment, of about this share of the Fisher length, that looks the same near both ends."""
        return None

    # Gaussian noise

    def means_on(self, low: Array, high: Array) -> Cells | None:
        """Gaussian noise: the means on cells of coordinates (N, d), in standard deviations; None for other noise."""
        return None

    def gain_of_means(self, mean: Array, log_marginal: Array) -> tuple[Array, Array]:
        """Gaussian noise: KL(p(z | m), p(z)) and its gradient in the mean m: (N, T), (Z,) -> (N,), (N, T)."""
        raise NotImplementedError("only channels with Gaussian noise have means")

    # the search, and samples

    @property
    def usual_tolerance(self) -> float:
        """The gap to reach where none is asked for, in nats."""
        return 1e-12

    # models of your own

    @staticmethod
    def from_scipy(family: Callable[..., Any], *, bounds: ArrayLike, censored_at: float | None = None) -> Channel:
        """Your own model from scipy.stats: `family` takes one array per parameter and returns a frozen distribution.

        Counts may be unbounded: those beyond a mass of 1e-17 are left out, and their share is a part of the gap.
        Densities are put on a quadrature; the gap holds the difference from one twice as fine. Of outcomes from
        `censored_at` on, only that is seen.

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
        """Your own model with Gaussian noise: z_t = mean_t(w) + noise of standard deviation sigma_t.

        `mean` takes w as (K,) for one pair of bounds, or as (K, d) for several, and returns (K,) or (K, T), for T
        observations, in doubles of numpy, torch or jax. `sigma` is a number or one per observation. `curvature` is an
        upper bound of every |∂²mean_t/∂w_i∂w_j| on the box, a number or an array that broadcasts to (T, d, d): with it
        the gap is proved by branch and bound for up to three parameters; without it the gap is certified. With more
        parameters it is searched, and where outcomes are too many for a grid, with samples of the noise.

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
        """Your own model from its log-likelihood, a function of w that returns one row per parameter.

        `bounds` is a pair, and w then has shape (K,); or two pairs, and w has shape (K, 2). The function returns
        (K, Z), one column per outcome, in doubles of numpy, torch or jax. `derivatives` may return the first and second
        derivatives of log p in w, (K, d, Z) and (K, d, d, Z). Without it a function of torch or jax is differentiated
        by that, any other by finite differences. Derivatives only steer the search: the gap does not use them.

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
