"""Independent experiments with separate parameters: capacities add, priors multiply, and so do the outcomes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from refprior._process import check_memory
from refprior.exact._arrays import Array, grid_of
from refprior.exact.channels._channel import Channel, Rows, check_channel, combined
from refprior.exact.geometry import Axes


@dataclass(frozen=True, eq=False, init=False)
class Product(Channel):
    """Independent experiments, each on its own parameters; w and z are those of all parts in order.

    The reference prior is the product of the priors of the parts, and information and gap are their sums, for any
    number of parts of any size.

    Parameters
    ----------
    *parts : Channel
        The experiments.

    Examples
    --------
    >>> from refprior.exact import Coin, Gaussian, Product, reference_prior
    >>> prior = reference_prior(Product(Coin(1), Gaussian(1.0)))
    >>> prior.atoms.round(6).tolist(), round(prior.information, 6)  # log 2 + 0.336831
    ([[0.0, -1.0], [0.0, 1.0], [1.0, -1.0], [1.0, 1.0]], 1.029978)
    """

    parts: tuple[Channel, ...]

    def __init__(self, *parts: Channel) -> None:
        if not parts:
            raise ValueError("a product needs at least one channel")
        self._derive(parts=tuple(check_channel(part, f"part {i + 1}") for i, part in enumerate(parts)))

    @property
    def bounds(self) -> Array:  # type: ignore[override]
        return np.vstack([part.bounds for part in self.parts])

    @cached_property
    def outcomes(self) -> Array:  # type: ignore[override]
        """The number of an outcome in each part: (Z, parts)."""
        sizes = [part.outcome_count for part in self.parts]
        check_memory(
            100.0 * math.prod(sizes), f"a table of {math.prod(sizes):,} outcomes", "look at the parts one by one"
        )
        return grid_of([np.arange(float(size)) for size in sizes])

    @property
    def listed(self) -> bool:  # type: ignore[override]
        return all(part.listed for part in self.parts)

    @property
    def outcome_count(self) -> int:
        return math.prod(part.outcome_count for part in self.parts)

    @property
    def default_tolerance(self) -> float:  # type: ignore[override]
        return sum(part.default_tolerance for part in self.parts)

    @property
    def factors(self) -> tuple[Channel, ...]:  # type: ignore[override]
        return self.parts

    def _split(self, u: Array) -> list[Array]:
        """Split coordinates by part: (K, d) -> [(K, d_i)]."""
        return np.split(u, np.cumsum([part.dimension for part in self.parts])[:-1], axis=1)

    def log_likelihood(self, u: Array) -> Array:
        pairs = zip(self.parts, self._split(u), strict=True)
        return combined(np.add, (part.log_likelihood(own) for part, own in pairs))

    def rows(self, u: Array) -> Rows:
        # for slices only: the prior of the product is computed part by part
        parts = [part.rows(own) for part, own in zip(self.parts, self._split(u), strict=True)]
        owner = [(i, a) for i, part in enumerate(self.parts) for a in range(part.dimension)]
        second = [np.stack([r.second(e) for e in np.eye(r.log_p.shape[1])], axis=-1) for r in parts]

        def joint(*changed: tuple[int, Array]) -> Array:
            """Return the product of p of all parts, some of them replaced: -> (K, Z)."""
            return combined(np.multiply, (dict(changed).get(i, np.exp(r.log_p)) for i, r in enumerate(parts)))

        def mixed(i: int, a: int, j: int, b: int) -> Array:
            if i == j:
                return joint((i, second[i][:, a, b]))
            return joint((i, parts[i].first[:, a]), (j, parts[j].first[:, b]))

        first = np.stack([joint((i, parts[i].first[:, a])) for i, a in owner], axis=1)
        hessian = np.stack([np.stack([mixed(i, a, j, b) for j, b in owner], axis=1) for i, a in owner], axis=1)
        return Rows.from_derivatives(self.log_likelihood(u), first, hessian)

    def log_likelihood_of(self, u: Array, z: ArrayLike) -> Array:
        seen = list(z)  # type: ignore[arg-type]
        if len(seen) != len(self.parts):
            raise ValueError(f"an outcome must be a list of {len(self.parts)}, one for each part, got {z!r}")
        pairs = zip(self.parts, self._split(u), seen, strict=True)
        return np.asarray(np.sum([part.log_likelihood_of(own, outcome) for part, own, outcome in pairs], axis=0))

    def parameter(self, u: Array) -> Array:
        return np.hstack([part.parameter(own) for part, own in zip(self.parts, self._split(u), strict=True)])

    def coordinate(self, w: Array) -> Array:
        return np.hstack([part.coordinate(own) for part, own in zip(self.parts, self._split(w), strict=True)])

    def jacobian(self, u: Array) -> Array:
        return np.hstack([part.jacobian(own) for part, own in zip(self.parts, self._split(u), strict=True)])

    @property
    def axes(self) -> Axes:
        return Axes(self.bounds, np.concatenate([part.axes.lengths for part in self.parts]))

    def repeat(self, n: int) -> Channel:
        return Product(*(part.repeat(n) for part in self.parts))
