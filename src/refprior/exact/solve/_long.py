"""Long experiments of one parameter: rows are windows, Newton's system is banded, a shorter experiment gives the start.

The search sums over the outcomes of the coarse channel, which for counts are fewer than all; the certificate uses all.
"""

from __future__ import annotations

import math

import numpy as np

from refprior.exact._arrays import Array
from refprior.exact._cost import LOG
from refprior.exact.channels import Channel, is_long
from refprior.exact.oracle import Likelihoods, Objective, Point, window_table
from refprior.exact.solve._ascent import Problem, newton_step, note, optimal_weights
from refprior.exact.solve._candidates import fisher_grid

SHORT_LENGTH = math.pi * math.sqrt(253) * (1 + 1e-9)  # of the one that gives atoms near both ends: 253 tosses
SPACING = 0.9  # standard deviations between atoms far from the ends
FITTED = 6  # spacings at the end of a third of the short experiment from which those further in follow


def shorter(objective: Objective) -> Objective | None:
    """Return a shorter experiment that looks the same near both ends, if this one is long."""
    channel = objective.channel
    windows = [c.windows for c in objective.channels if c.windows is not None]
    if channel.dimension > 1 or not is_long(channel) or len(windows) < len(objective.channels):
        return None
    share = SHORT_LENGTH / float(channel.axes.lengths[0])
    return Objective(tuple(own.shortened(share) for own in windows), objective.signs)


def solve_long(
    objective: Objective, short: Objective, tolerance: float, prior: tuple[Array, Array]
) -> tuple[Array, Array]:
    """Return atoms (K, 1) and weights (K,) of a long experiment, from the prior of a short one with the same ends."""
    channel, length = objective.channel, float(objective.channel.axes.lengths[0])
    cheap = objective.with_fewer_outcomes()
    unit, grid = (channel.bounds[:, 1] - channel.bounds[:, 0]) / length, fisher_grid(channel, 0.2).points
    mirror = bool(objective.mirror)
    problem = Problem(lambda u: window_table(cheap, u), channel.bounds, 0.3 * unit, symmetric=mirror)

    def excess(point: Point) -> float:
        """Return how far the gain exceeds J on the grid."""
        found = float(cheap.gain(grid, cheap.log_marginals(point.u, point.weights)).max()) - point.information
        LOG.info("%d atoms, excess %.0e nats", len(point.u), found)
        return found

    attempts = []
    for more in (0, -1, 1, -2, 2):  # with one atom too many or too few the ascent does not come to an end
        u, weights = starting_atoms(short.channel, prior, length, channel.bounds, more)
        point = balanced(problem, problem.evaluate(u, weights))
        if unevenness(point) > 1e-7:  # nats: in two stages, weights near the ends may be far from the start
            point = problem.evaluate(u, optimal_weights(Likelihoods.of_values(cheap, u), tolerance, weights))
        point = climbed(problem, point, tolerance)
        attempts.append((excess(point), point))
        if attempts[-1][0] <= tolerance / 3:
            break
    best = min(attempts, key=lambda pair: pair[0])[1]
    return best.u, best.weights


def climbed(problem: Problem, point: Point, tolerance: float) -> Point:
    """Find the optimum near a point with as many atoms by damped Newton steps, each followed by new weights.

    Where atoms are dense, they can move together without a change of J, as far as doubles tell, if weights follow: the
    damping, which falls as long as steps help, keeps them where they are.
    """
    point, damping = balanced(problem, point), 1e-6
    for number in range(80):
        residual = problem.residual(point)
        LOG.info("step %d of %d atoms, unevenness %.0e nats", number, len(point.u), residual)
        note(point.u, point.weights, point.information)
        if residual < 0.1 * tolerance or damping > 1e-4:
            break
        step_weights, step_u, _ = newton_step(point, problem.bounds, damping)
        length = min(1.0, float(np.min(problem.trust / np.maximum(np.abs(step_u), 1e-300))))
        weights = np.maximum(point.weights + length * step_weights, 0.1 * point.weights)
        trial = balanced(problem, problem.evaluate(point.u + length * step_u, weights))
        better = problem.residual(trial) < residual
        point, damping = (trial, max(damping / 10, 1e-14)) if better else (point, 10 * damping)
    return point


def balanced(problem: Problem, point: Point) -> Point:
    """Find the best weights of fixed atoms by Newton steps."""
    for _ in range(8):
        step = newton_step(point, problem.bounds, weights_only=True)[0]
        shrinking = step < 0
        length = min(1.0, 0.9 * float(np.min(-point.weights[shrinking] / step[shrinking], initial=np.inf)))
        trial = problem.evaluate(point.u, point.weights + length * step)
        if length == 1.0 and not unevenness(trial) < 0.5 * unevenness(point):
            break
        point = trial
    return point


def unevenness(point: Point) -> float:
    """Return the largest difference between the gain of an atom and J, in nats."""
    return float(np.abs(point.gains - point.information).max())


def starting_atoms(
    short: Channel, prior: tuple[Array, Array], length: float, bounds: Array, more: int = 0
) -> tuple[Array, Array]:
    """Place atoms like a shorter experiment near both ends, with a slowly falling spacing in between: (K, 1), (K,).

    Near an end the prior is the same for every length in units of a standard deviation. Further in, the spacing
    falls like the cube root of the distance, down to SPACING. `more` is added to the number of atoms.
    """
    order = np.argsort(prior[0][:, 0])
    low, high = short.bounds[0]
    whole = float(short.axes.lengths[0])
    places, weights = (prior[0][order, 0] - low) / (high - low) * whole, prior[1][order]
    half = length / 2
    left, left_numbers = _numbers(places, half)
    right, right_numbers = _numbers((whole - places)[::-1], half)
    count = round(left_numbers[-1] + right_numbers[-1]) + more  # of spacings
    share = (count - left_numbers[-1] - right_numbers[-1]) / 2  # that each half has too few
    left_numbers = left_numbers + share * (left / half) ** 6  # hardly stretched near the end
    right_numbers = right_numbers + share * (right / half) ** 6
    numbers = np.concatenate([left_numbers, (count - right_numbers)[::-1]])
    line = np.interp(np.arange(count + 1.0), numbers, np.concatenate([left, (length - right)[::-1]]))
    density = np.interp(line / length, places / whole, weights / np.gradient(places))
    new = density * np.gradient(line)
    relative = np.clip(line / length, 0, 1)
    u = bounds[0, 0] * (1 - relative) + bounds[0, 1] * relative  # both ends exactly
    return u[:, None], new / new.sum()


def _numbers(places: Array, half: float) -> tuple[Array, Array]:
    """Return points from an end to the middle, and the number of atoms up to each, as a real number."""
    edge = np.where(places < 1e-9, 0.0, places)[: len(places) // 3]
    spacing = np.diff(edge)[-FITTED:]
    slope, offset = np.polyfit((edge[1:] + edge[:-1])[-FITTED:] / 2, spacing**-3.0, 1)
    x = np.linspace(edge[-1], half, max(3, round((half - edge[-1]) / 0.002)))
    falling = (offset + slope * x) ** (-1 / 3)
    rate = (falling**16 + SPACING**16) ** (-1 / 16)  # about 1 / max(falling, SPACING)
    numbers = len(edge) - 1 + np.concatenate([[0.0], np.cumsum((rate[1:] + rate[:-1]) / 2 * np.diff(x))])
    return np.concatenate([edge[:-1], x]), np.concatenate([np.arange(len(edge) - 1.0), numbers])
