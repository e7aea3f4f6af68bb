"""Where the ascent is stuck: atoms spread from fewer on, and the one that a fork adds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from refprior.exact._arrays import Array
from refprior.exact._cost import LOG
from refprior.exact.oracle import Objective, Point, Table
from refprior.exact.solve._ascent import Problem, equalize
from refprior.exact.solve._joint import ascend_merged
from refprior.exact.solve._missing import Missing, find_missing
from refprior.exact.solve._search import Grid, search_logs
from refprior.exact.solve._weights import optimal_weights

FEWER_ATOMS, MORE_ATOMS = 3, 2  # than where the ascent is stuck: numbers that are tried
AT_REST = 1e-12  # nats of unevenness
FIRST_STEPS, FORK_STEPS = 8, 24  # away from a fork: in how many the end would be reached, and how many there are


def respaced(objective: Objective, point: Point, missing: Missing, grid: Grid, unit: Array, tolerance: float) -> Point:
    """Where the ascent is stuck: from fewer atoms on, one more at a time, spread like the last that came to rest.

    With one atom too many the ascent hardly moves, and what it leaves is a bad start for any other number. With too few
    it comes to rest in a few steps. Where the next number does not, the atoms are at a fork.
    """
    problem = Problem(objective.table, objective.channel.bounds, 0.5 * unit)
    places, rested = np.sort(point.u[:, 0]), None
    count = max(2, len(places) - FEWER_ATOMS)
    for _ in range(FEWER_ATOMS + MORE_ATOMS):
        u = np.interp(np.linspace(0, len(places) - 1, count), np.arange(len(places)), places)[:, None]
        trial = ascend_merged(objective, u, optimal_weights(Table.of_values(objective, u), 1e-12), unit, tolerance)
        found = find_missing(objective, trial, grid, unit, tolerance)
        LOG.info("%d atoms spread anew: excess %.0e nats", count, found.excess)
        if found.excess < missing.excess:
            point, missing = trial, found
        at_rest = problem.residual(trial) <= AT_REST
        if not len(missing.places) or (rested is not None and not at_rest):
            break
        if at_rest:
            places, rested = np.sort(trial.u[:, 0]), (trial, found)
        count = (len(places) if at_rest else count) + 1
    for trial in forked(objective, *rested, unit) if len(missing.places) and rested is not None else ():
        found = find_missing(objective, trial, grid, unit, tolerance)
        if found.excess < missing.excess:
            point, missing = trial, found
        if not len(missing.places):
            break
    return point


def forked(objective: Objective, point: Point, missing: Missing, unit: Array) -> Iterator[Point]:
    """One atom more just after a fork, in steps away from it, with all others at rest: a new one, or one of two.

    There J is so flat, and the other atoms move so far with the new one, that a joint ascent ends almost anywhere.
    """
    problem = Problem(objective.table, objective.channel.bounds, 0.5 * unit)
    logs = search_logs(objective, point.u, point.weights)
    highest = missing.places[[np.argmax(objective.gain(missing.places, logs))]]
    yield equalize(problem, problem.evaluate(*_joined(objective, point, highest, unit)))
    free = point.free(objective.channel.bounds)[:, 0]
    atom = int(np.argmax(np.where(free, point.hessians[:, 0, 0], -np.inf)))
    if free[atom] and point.hessians[atom, 0, 0] > 0:
        far = float(np.abs(missing.places - point.u[atom]).min())
        yield equalize(problem, problem.evaluate(*_split(objective, point, atom, far, unit)))


def _split(objective: Objective, point: Point, atom: int, far: float, unit: Array) -> tuple[Array, Array]:
    """An atom that becomes two, at most `far` to both sides of it: (K + 1, 1), (K + 1,)."""
    mean = np.eye(len(point.u), len(point.u) + 1)
    mean[atom, [atom, -1]] = 0.5

    def sides(u: Array, half: float) -> Array:
        return np.asarray(np.clip(u[atom] + np.array([[-half], [half]]), *objective.channel.bounds.T))

    def table(half: float, u: Array) -> Table:
        """Both are one atom, with the mean of their likelihoods."""
        points = np.vstack([u, sides(u, half)[1:]])
        points[atom] = sides(u, half)[0]
        return objective.table(points).mixed(mean, mean)

    def outward(point: Point, half: float) -> bool:
        slopes = objective.gains(sides(point.u, half), point.table.own_logs(point.weights)).gradient[:, 0]
        return bool(slopes[1] > slopes[0])

    point, half = _followed(objective, point, table, outward, far, unit)
    u = np.vstack([np.delete(point.u, atom, axis=0), sides(point.u, half)])
    return u, np.append(np.delete(point.weights, atom), point.weights[[atom, atom]] / 2)


def _joined(objective: Objective, point: Point, place: Array, unit: Array) -> tuple[Array, Array]:
    """A new atom at a place (1, 1), which takes its weight from all others: (K + 1, 1), (K + 1,)."""
    count = len(point.u)

    def table(share: float, u: Array) -> Table:
        """Its share is a part of every atom's likelihood."""
        own = (1 - share) * np.eye(count, count + 1)
        return objective.table(np.vstack([u, place])).mixed(own + share * np.eye(1, count + 1, count), own)

    def too_light(point: Point, share: float) -> bool:
        return bool(objective.gain(place, point.table.own_logs(point.weights))[0] > point.information)

    point, share = _followed(objective, point, table, too_light, float(point.weights.max()), unit)
    return np.vstack([point.u, place]), np.append((1 - share) * point.weights, share)


def _followed(
    objective: Objective,
    point: Point,
    table: Callable[[float, Array], Table],
    too_little: Callable[[Point, float], bool],
    most: float,
    unit: Array,
) -> tuple[Point, float]:
    """The largest amount that is too little, about, and the atoms at rest there.

    Steps from 0 on, at most `most` altogether: one that goes too far, or after which
    atoms do not come to rest, is halved.
    """
    amount, step = 0.0, most / FIRST_STEPS
    for _ in range(FORK_STEPS):
        problem = Problem(partial(table, amount + step), objective.channel.bounds, 0.5 * unit)
        trial = equalize(problem, problem.evaluate(point.u, point.weights))
        LOG.info("fork at %.3g: unevenness %.0e nats", amount + step, problem.residual(trial))
        if problem.residual(trial) <= AT_REST and too_little(trial, amount + step):
            point, amount = trial, amount + step
        else:
            step /= 2
    return point, amount
