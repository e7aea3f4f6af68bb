"""A sampled likelihood with kinks, jumps or ridges: atoms exchanged without derivatives."""

from __future__ import annotations

import math

import numpy as np

from refprior.exact._arrays import Array
from refprior.exact._cost import LOG
from refprior.exact.channels import Channel, canonical
from refprior.exact.oracle import Objective, Point, Table, evaluate
from refprior.exact.solve._missing import SEARCH_SPACING, search_spacing
from refprior.exact.solve._search import approach, fisher_grid, search_logs
from refprior.exact.solve._weights import optimal_weights

LEAST_WEIGHT = 1e-8  # of an atom that stays
EXCHANGES = 30  # rounds in which atoms of a sampled likelihood are exchanged without derivatives,
EXCHANGED = 8  # so many at a time,
MOST_EXCHANGED = 500  # out of the highest points


def exchanged(objective: Objective, point: Point, unit: Array, tolerance: float) -> Point:
    """Where a sampled likelihood has kinks, jumps or narrow ridges, Newton steps fail: exchange atoms one by one.

    All points at which the certificate will look are candidates. The highest ones are approached without
    derivatives and join the atoms; weights decide which of them stay.
    """
    channel = objective.channel
    more, widths = channel.axes.off_grid()
    grid = _exchange_grid(channel)
    points = np.vstack([grid, more])
    widths = np.vstack([np.tile(SEARCH_SPACING * unit, (len(grid), 1)), widths])
    best, least = point, math.inf
    for number in range(EXCHANGES):
        logs = search_logs(objective, point.u, point.weights)
        values, level = objective.gain(points, logs), float(point.weights @ objective.gain(point.u, logs))
        order = np.argsort(-values)[:MOST_EXCHANGED]
        chosen = order[_spread_out(points[order] / unit, EXCHANGED)]
        top, height = approach(objective, points[chosen], logs, widths[chosen])
        excess = float(height.max()) - level
        if excess < least:
            best, least = point, excess
        if excess <= tolerance / 3 or number == EXCHANGES - 1:
            break
        LOG.info("exchange %d: excess %.0e nats", number, excess)
        u = canonical(channel, np.vstack([point.u, top[height > level]]))
        weights = optimal_weights(Table.of_values(objective, u), 1e-13)
        used = weights > LEAST_WEIGHT
        point = evaluate(objective.table, u[used], weights[used] / weights[used].sum())
    return best


def _exchange_grid(channel: Channel) -> Array:
    """Points on which a sampled likelihood is looked at: (G, d)."""
    if channel.dimension > 2:
        return fisher_grid(channel, search_spacing(channel)).points
    counts = [math.ceil(length / search_spacing(channel)) + 9 for length in channel.axes.lengths]
    axes = [channel.axes.certificate_points(i, count) for i, count in enumerate(counts)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))


def _spread_out(u: Array, count: int) -> list[int]:
    """The first `count` of the points, in their order, of which no two are within half a standard deviation."""
    chosen: list[int] = []
    for k, place in enumerate(u):
        if len(chosen) < count and all(np.linalg.norm(place - u[j]) > 0.5 for j in chosen):
            chosen.append(k)
    return chosen
