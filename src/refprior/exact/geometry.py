"""Charts: coordinates of a box in which Fisher length is spread evenly, measured from the likelihood alone.

√p(z | w) moves on a sphere, and a chord of it is half a Fisher length. Along a line, a node is followed more closely
where its two neighbors are far away, or where the two chords at it differ in direction or length: there something
happens between nodes. Halving continues until chords agree, until they are too short to matter, or down to
neighboring doubles (a jump). If it does not end, the likelihood is not resolved, and no grid can be trusted.

What no sample touches cannot be seen: structure narrower than the first grid, with nothing around it, is missed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import numpy as np

from refprior.exact._arrays import Array, Mask
from refprior.exact._cost import SLICE_ENTRIES

Roots = Callable[
    [Array], Array
]  # √p(z | w), or, for Gaussian noise, half the mean in standard deviations: (K, d) -> (K, Z)

PLACES = 5  # of every other axis at which an axis is measured
PLANE_ENTRIES = 4e7  # probabilities that the first nodes of a scan may take
EVEN_SHARE, EVEN_SHARE_2D = 1e-3, 0.5  # of the coordinate that is even in w, so that no part of the box is left out


class Axis(NamedTuple):
    """Nodes (N,) of an axis, the Fisher length up to each (N,), and whether halving came to an end."""

    nodes: Array
    length: Array
    resolved: bool


class Chart:
    """A monotone map, axis by axis, from [0, 1]^d onto the box, with Fisher length nearly even in x."""

    def __init__(self, axes: list[Axis], share: float) -> None:
        from scipy.interpolate import PchipInterpolator  # slow to import, and only models of one's own need it

        axes = [_thinned(axis, share) for axis in axes]
        self.axes, self.bounds = axes, np.array([[axis.nodes[0], axis.nodes[-1]] for axis in axes])
        self.resolved = all(axis.resolved for axis in axes)
        self.knots = [_knots(axis, share) for axis in axes]
        self.lengths = np.array([_steepest(axis, x) for axis, x in zip(axes, self.knots, strict=True)])
        self._maps = [PchipInterpolator(x, axis.nodes) for axis, x in zip(axes, self.knots, strict=True)]

    def to_box(self, x: Array) -> Array:
        """Map to the box, the ends exactly: (K, d) -> (K, d)."""
        columns = [
            np.where(c >= 1, hi, curve(c)) for c, (_, hi), curve in zip(x.T, self.bounds, self._maps, strict=True)
        ]
        return np.asarray(np.clip(np.stack(columns, axis=1), self.bounds[:, 0], self.bounds[:, 1]))

    def slopes(self, x: Array, order: int = 1) -> Array:
        """Return derivatives of the map, axis by axis: (K, d) -> (K, d)."""
        return np.stack([np.asarray(f(column, order)) for column, f in zip(x.T, self._maps, strict=True)], axis=1)

    def from_box(self, w: Array) -> Array:
        """Invert the map by bisection between knots; it continues beyond the box, where a check rejects it."""
        columns = [self.along(axis, w[:, axis]) for axis in range(w.shape[1])]
        return np.stack(columns, axis=1)

    def along(self, axis: int, w: Array) -> Array:
        """Return coordinates on one axis: (K,) -> (K,)."""
        nodes, knots, (low, high) = self.axes[axis].nodes, self.knots[axis], self.bounds[axis]
        right = np.clip(np.searchsorted(nodes, w), 1, len(nodes) - 1)
        below, above = knots[right - 1], knots[right]
        for _ in range(60):
            middle = (below + above) / 2
            less = self._maps[axis](middle) < w
            below, above = np.where(less, middle, below), np.where(less, above, middle)
        inside = np.where(w >= high, 1.0, np.where(w <= low, 0.0, (below + above) / 2))
        beyond = np.maximum(w - high, 0.0) + np.minimum(w - low, 0.0)
        return np.where(np.isnan(w), np.nan, inside + beyond / (high - low))


def _thinned(axis: Axis, share: float) -> Axis:
    """Return the axis without nodes that doubles cannot tell apart in the new coordinate."""
    x = _knots(axis, share)
    kept = np.concatenate([[True], np.diff(x) > 1e-14])
    kept[np.flatnonzero(kept)[-1]] = len(np.flatnonzero(kept)) == 1  # the last one gives way to the end of the axis
    kept[-1] = True
    return Axis(axis.nodes[kept], axis.length[kept], axis.resolved)


def _knots(axis: Axis, share: float) -> Array:
    """Return the coordinate of every node: mostly Fisher length, for a share even: (N,)."""
    even = (axis.nodes - axis.nodes[0]) / (axis.nodes[-1] - axis.nodes[0])
    total = axis.length[-1]
    x = even if total == 0 else (1 - share) * axis.length / total + share * even
    return np.asarray(x / x[-1])


def _steepest(axis: Axis, x: Array) -> float:
    """Return the length of the axis if all of it were as steep as its steepest tenth of a standard deviation."""
    total = float(axis.length[-1])
    places = np.linspace(0, 1, 2 + math.ceil(10 * total))
    steps = np.diff(np.interp(places, x, axis.length))
    return max(total, float(steps.max()) * (len(places) - 1))


def measure(roots: Roots, bounds: Array, outcomes: int) -> Chart:
    """Return the chart of a model on a box: (d, 2) -> Chart."""
    if len(bounds) == 1:
        return Chart([_measure_axis(roots, bounds, outcomes, 0, 4097)], EVEN_SHARE)
    # coarser, as each axis is measured at several places of the others
    axes = [_measure_axis(roots, bounds, outcomes, axis, 513) for axis in range(len(bounds))]
    return Chart(axes, EVEN_SHARE_2D)


def _measure_axis(roots: Roots, bounds: Array, outcomes: int, axis: int, count: int) -> Axis:
    """Return nodes of one axis, and the Fisher length between them, the longest over the places of the other axes."""
    low, high = bounds[axis]
    others = [np.linspace(b[0], b[1], PLACES) for i, b in enumerate(bounds) if i != axis]
    lines = [np.insert(np.array(place), axis, 0.0) for place in _places(others)]

    def along(w: Array, line: Array) -> Array:
        points = np.tile(line, (len(w), 1))
        points[:, axis] = w
        return roots(points)

    size = max(16, SLICE_ENTRIES // outcomes)
    nodes, resolved = np.linspace(low, high, count), True
    for line in lines:
        added, ended = _follow(lambda w, line=line: along(w, line), np.linspace(low, high, count), size)  # type: ignore[misc]
        nodes, resolved = np.union1d(nodes, added), resolved and ended
    chords = np.zeros(len(nodes) - 1)
    for line in lines:
        parts = [along(nodes[i : i + size + 1], line) for i in range(0, len(nodes) - 1, size)]
        own = np.concatenate([np.linalg.norm(np.diff(part, axis=0), axis=1) for part in parts])  # |√p − √q|
        chords = np.maximum(chords, own)
    angles = 4 * np.arcsin(np.minimum(chords / 2, 1.0))  # twice the angle between two points of the sphere
    return Axis(nodes, np.concatenate([[0.0], np.cumsum(angles)]), resolved)


def _places(axes: list[Array]) -> list[tuple[float, ...]]:
    """Return combinations of places on other axes: all of them, or, with more than two axes, as many at random."""
    if len(axes) <= 2:
        return list(itertools.product(*axes))
    drawn = np.random.default_rng(0).integers(0, PLACES, (PLACES**2, len(axes)))
    return [tuple(float(line[k]) for line, k in zip(axes, row, strict=True)) for row in drawn]


def _follow(roots: Callable[[Array], Array], nodes: Array, size: int) -> tuple[Array, bool]:
    """Return nodes to add to an even line, and whether halving ended: (N,) -> (M,)."""
    width = nodes[1] - nodes[0]
    finest = 4 * np.spacing(np.abs(nodes).max())
    parts = [np.diff(roots(nodes[i : i + size + 2]), axis=0) for i in range(0, len(nodes) - 2, size)]
    unclear = nodes[1:-1][np.concatenate([unclear_between(chords[:-1], chords[1:]) for chords in parts])]
    added: list[Array] = []
    while len(unclear):
        width /= 2
        if width < finest:
            break
        active = np.unique(np.concatenate([unclear - width, unclear, unclear + width]))
        added.append(active)
        if sum(map(len, added)) > 60_000:
            return np.concatenate(added), False
        flags = []
        for i in range(0, len(active), size):
            part = active[i : i + size]
            before, at, after = roots(np.concatenate([part - width, part, part + width])).reshape(3, len(part), -1)
            flags.append(unclear_between(at - before, after - at))
        unclear = active[np.concatenate(flags)]
    return np.concatenate(added) if added else nodes[:0], True


def unclear_between(before: Array, after: Array, smallest: float = 0.002) -> Mask:
    """Return whether two successive chords (…, Z) are long, or differ by more than a smooth curve's would: -> (…).

    Chords are half a Fisher length: 0.35 are 0.7 standard deviations. Turns of chords below `smallest` do not matter.
    """
    first, second = np.linalg.norm(before, axis=-1), np.linalg.norm(after, axis=-1)
    longest = np.maximum(first, second)
    # |b − a| / (|a| + |b|) is 0 on a straight line and 1 where the direction is reversed
    turned = np.linalg.norm(after - before, axis=-1) > 0.3 * (first + second)
    return np.asarray((longest > 0.35) | (turned & (longest > smallest)))


FIRST_NODES = {2: 129, 3: 33}  # of each axis, at which a box is scanned if outcomes are few
LEAST_NODES = {2: 33, 3: 17}  # if there are many


def _most_nodes(dimension: int, outcomes: int) -> int:
    """Return the number of nodes per axis at which so many outcomes can be evaluated."""
    return max(LEAST_NODES[dimension], int((PLANE_ENTRIES / outcomes) ** (1 / dimension)))


def even_nodes(ends: Array, outcomes: int) -> Array:
    """Return nodes of one of two axes, even in w: a bump as wide as their distance shows at one of them, (N,)."""
    return np.linspace(ends[0], ends[1], min(FIRST_NODES[2], _most_nodes(2, outcomes)))


class BoxScan(NamedTuple):
    """Points (M, d) in [0, 1]^d where two parameters had to be followed, their widths (M, d), and whether it ended."""

    points: Array
    widths: Array
    resolved: bool


def scan_box(roots: Roots, lengths: Array, outcomes: int) -> BoxScan:
    """Scan a model on [0, 1]² or [0, 1]³ between the lines on which its axes were measured."""
    dimension = len(lengths)
    nothing = np.empty((0, dimension))
    if not 2 <= dimension <= 3:  # one axis is all there is; more cannot be looked at everywhere
        return BoxScan(nothing, nothing, True)
    most, first = _most_nodes(dimension, outcomes), FIRST_NODES[dimension]
    # or closer, 0.22 standard deviations apart
    counts = [min(most, max(first, math.ceil(length / 0.22) + 1)) for length in lengths]
    axes = [np.linspace(0, 1, count) for count in counts]
    active, width = _unclear_on_grid(roots, axes, outcomes), np.array([axis[1] for axis in axes])
    found, widths, total = [nothing], [nothing], 0
    steps = np.array(list(itertools.product((-1, 0, 1), repeat=dimension)))
    size, budget = max(8, SLICE_ENTRIES // (9 * outcomes)), min(300_000, int(5 * PLANE_ENTRIES / outcomes))
    while len(active):
        total += len(steps) * len(active)
        if total > budget or width.max() < 1e-12:
            return BoxScan(np.concatenate(found), np.concatenate(widths), False)
        width = width / 2
        children = np.clip(active[:, None] + steps * width, 0, 1).reshape(-1, dimension)
        children = width * np.unique(np.round(children / width), axis=0)
        found.append(children)
        widths.append(np.tile(width, (len(children), 1)))
        flags = [_unclear_stencil(roots, children[i : i + size], width) for i in range(0, len(children), size)]
        active = children[np.concatenate(flags)]
    return BoxScan(np.concatenate(found), np.concatenate(widths), True)


def _unclear_on_grid(roots: Roots, axes: list[Array], outcomes: int) -> Array:
    """Return nodes of the first grid at which something may happen, a few lines or planes at a time: -> (M, d)."""
    rows = max(1, SLICE_ENTRIES // (outcomes * math.prod(len(axis) for axis in axes[1:])))
    found = [np.empty((0, len(axes)))]
    for start in range(0, len(axes[0]), rows):
        first, last = max(start - 1, 0), min(start + rows + 1, len(axes[0]))
        points = np.stack(np.meshgrid(axes[0][first:last], *axes[1:], indexing="ij"), axis=-1)
        seen = roots(points.reshape(-1, len(axes))).reshape(*points.shape[:-1], -1)
        flags = np.zeros(points.shape[:-1], dtype=bool)
        for axis in range(len(axes)):
            chords = np.moveaxis(np.diff(seen, axis=axis), axis, 0)
            np.moveaxis(flags, axis, 0)[1:-1] |= unclear_between(chords[:-1], chords[1:])
        found.append(points[flags])
    return np.unique(np.concatenate(found), axis=0)


def _unclear_stencil(roots: Roots, points: Array, width: Array) -> Mask:
    """Return whether something may happen around each point, along all axes and diagonals: (M, d) -> (M,)."""
    dimension = points.shape[1]
    flags = np.zeros(len(points), dtype=bool)
    middle = roots(points)
    for direction in itertools.product((-1, 0, 1), repeat=dimension):
        if direction <= (0,) * dimension:  # the other one of each pair
            continue
        step = np.array(direction) * width
        inside = np.all((np.abs(points - 0.5) + np.abs(step)) <= 0.5, axis=1)
        before, after = (roots(np.clip(points + sign * step, 0, 1)) for sign in (-1, 1))
        # there are many more points than on a line, so shorter chords are left out
        flags |= inside & unclear_between(middle - before, after - middle, 0.02)
    return flags


class Axes:
    """Axes of a box whose coordinates are even in Fisher length, or finer.

    Parameters
    ----------
    bounds : ndarray of shape (d, 2)
        Lower and upper end of each coordinate.
    lengths : ndarray of shape (d,)
        Fisher length of each axis in standard deviations, the longest over the other axes.

    Attributes
    ----------
    measured : bool
        Whether the lengths were measured by sampling the likelihood. The certificate then searches more closely.
    resolved : bool
        Whether the lengths are known or could be measured. If not, no grid can be trusted.
    """

    measured: bool = False
    resolved: bool = True
    lengths: Array

    def __init__(self, bounds: Array, lengths: Array) -> None:
        self.bounds, self.lengths = bounds, lengths

    def points(self, axis: int, count: int) -> Array:
        """Return `count` points of an axis that are even in Fisher length, both ends included: (count,)."""
        return np.linspace(self.bounds[axis, 0], self.bounds[axis, 1], count)

    def certificate_points(self, axis: int, count: int) -> Array:
        """Return the points of an axis at which the certificate evaluates the gain: `points`, or more."""
        return self.points(axis, count)

    def off_grid(self) -> tuple[Array, Array]:
        """Return further points for the certificate and their widths: (M, d), (M, d)."""
        nothing = np.empty((0, len(self.bounds)))
        return nothing, nothing


class ListedAxes(Axes):
    """The axis of a finite set of parameters, none of which can move; neighbors have distance one."""

    def __init__(self, places: Array) -> None:
        super().__init__(np.array([[places[0], places[-1]]]), np.array([len(places) - 1.0]))
        self.places = places

    def points(self, axis: int, count: int) -> Array:
        """Return all parameters, whatever the count."""
        return self.places


class MeasuredAxes(Axes):
    """Axes whose Fisher lengths are measured from the likelihood when they are first needed.

    Parameters
    ----------
    roots : callable
        √p(z | w) at coordinates: (K, d) -> (K, Z).
    bounds : ndarray of shape (d, 2)
        Lower and upper end of each coordinate.
    outcomes : int
        The number of outcomes Z.
    """

    measured = True

    def __init__(self, roots: Roots, bounds: Array, outcomes: int) -> None:
        self.roots, self.bounds, self.outcomes = roots, bounds, outcomes

    @cached_property
    def chart(self) -> Chart:
        """The coordinates that are even in Fisher length."""
        return measure(self.roots, self.bounds, self.outcomes)

    @cached_property
    def scan(self) -> BoxScan:
        """Where two or three parameters had to be followed together."""
        return scan_box(lambda x: self.roots(self.chart.to_box(x)), self.chart.lengths, self.outcomes)

    @property
    def lengths(self) -> Array:  # type: ignore[override]
        return self.chart.lengths

    @property
    def resolved(self) -> bool:  # type: ignore[override]
        return self.chart.resolved and self.scan.resolved

    def points(self, axis: int, count: int) -> Array:
        x = np.tile(np.linspace(0, 1, count)[:, None], (1, len(self.bounds)))
        return np.asarray(self.chart.to_box(x)[:, axis])

    def certificate_points(self, axis: int, count: int) -> Array:
        points, dimension = self.points(axis, count), len(self.bounds)
        if dimension > 2:
            return points
        more = self.chart.axes[axis].nodes if dimension == 1 else even_nodes(self.bounds[axis], self.outcomes)
        return np.union1d(points, more)

    def off_grid(self) -> tuple[Array, Array]:
        if len(self.bounds) == 1:
            return super().off_grid()
        points, widths = self.scan.points, self.scan.widths
        return self.chart.to_box(points), self.chart.slopes(points) * widths


class ChartedAxes(Axes):
    """Axes from 0 to 1 that a chart maps to the box, where the likelihood is scanned when that is first needed."""

    measured = True

    def __init__(self, chart: Chart, scan: Callable[[], BoxScan], lengths: Array, outcomes: int) -> None:
        super().__init__(np.tile([0.0, 1.0], (len(lengths), 1)), lengths)
        self.chart, self._scan, self.outcomes = chart, scan, outcomes

    @property
    def resolved(self) -> bool:  # type: ignore[override]
        return self.chart.resolved and self._scan().resolved

    def certificate_points(self, axis: int, count: int) -> Array:
        points, dimension = self.points(axis, count), len(self.bounds)
        if dimension > 2:
            return points
        more = self.chart.knots[axis]
        if dimension == 2:
            more = self.chart.along(axis, even_nodes(self.chart.bounds[axis], self.outcomes))
        return np.union1d(points, more)

    def off_grid(self) -> tuple[Array, Array]:
        return self._scan().points, self._scan().widths


class ScaledAxes(Axes):
    """The axes of another channel with the same box, their Fisher lengths multiplied by a number."""

    def __init__(self, axes: Axes, scale: float) -> None:
        self.axes, self.scale, self.bounds = axes, scale, axes.bounds
        self.measured = axes.measured

    @property
    def lengths(self) -> Array:  # type: ignore[override]
        return np.asarray(self.axes.lengths * self.scale)

    @property
    def resolved(self) -> bool:  # type: ignore[override]
        return self.axes.resolved

    def points(self, axis: int, count: int) -> Array:
        return self.axes.points(axis, count)

    def certificate_points(self, axis: int, count: int) -> Array:
        return self.axes.certificate_points(axis, count)

    def off_grid(self) -> tuple[Array, Array]:
        return self.axes.off_grid()


class SlicedAxes(Axes):
    """Some axes of a larger box; lengths are the longest over the fixed parameters, so a grid may be finer."""

    def __init__(self, whole: Axes, chosen: tuple[int, ...]) -> None:
        self.whole, self.chosen, self.bounds = whole, chosen, whole.bounds[list(chosen)]
        self.measured = whole.measured

    @property
    def lengths(self) -> Array:  # type: ignore[override]
        return self.whole.lengths[list(self.chosen)]

    @property
    def resolved(self) -> bool:  # type: ignore[override]
        return self.whole.resolved

    def points(self, axis: int, count: int) -> Array:
        return self.whole.points(self.chosen[axis], count)
