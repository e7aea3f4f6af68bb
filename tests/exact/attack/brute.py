"""Brute force that shares no code with the package: gains on many points, and what weights on the best of them reach.

Shapes: K atoms, M further points, Z outcomes. Sums are in long doubles.
"""

import numpy as np

ROUNDING = 2e-14  # nats, relative to 1 + J, by which rows computed in doubles may err


def gains(rows: np.ndarray, mixture: np.ndarray) -> np.ndarray:
    """Return KL(p(z | w), p(z)) of rows (M, Z) under a mixture (Z,): (M,)."""
    rows, mixture = rows.astype(np.longdouble), mixture.astype(np.longdouble)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(rows > 0, rows * (np.log(rows) - np.log(mixture)), 0.0)
    return np.asarray(terms.sum(axis=1), dtype=float)


def information(rows: np.ndarray, weights: np.ndarray) -> float:
    """Return the mutual information of weights (K,) on rows (K, Z): a lower bound of the capacity."""
    return float(weights @ gains(rows, weights.astype(np.longdouble) @ rows))


def blahut_arimoto(rows: np.ndarray, weights: np.ndarray, iterations: int = 400) -> tuple[float, np.ndarray]:
    """Return the largest information on the way, and the last weights."""
    best = 0.0
    for _ in range(iterations):
        gain = gains(rows, weights @ rows)
        best = max(best, float(weights @ gain))
        weights = weights * np.exp(gain - gain.max())
        weights = weights / weights.sum()
    return best, weights


def accelerated(rows: np.ndarray, gap: float, iterations: int = 4000) -> np.ndarray:
    """Return weights (K,) within `gap` of the best on these rows, by Blahut–Arimoto with longer steps."""
    weights, speed = np.full(len(rows), 1 / len(rows)), 1.0
    gain = gains(rows, weights @ rows)
    for _ in range(iterations):
        if gain.max() - weights @ gain <= gap:
            break
        trial = weights * np.exp(speed * (gain - gain.max()))
        trial = trial / trial.sum()
        new = gains(rows, trial @ rows)
        if trial @ new > weights @ gain:
            weights, gain, speed = trial, new, 1.5 * speed
        else:
            speed = max(1.0, speed / 4)
            weights = weights if speed > 1 else trial
            gain = gains(rows, weights @ rows)
    return weights


def reached(atoms: np.ndarray, weights: np.ndarray, points: np.ndarray) -> tuple[float, float]:
    """Return the largest gain at further points (M, Z), and the information with the best of them as atoms."""
    gain = gains(points, weights.astype(np.longdouble) @ atoms)
    best = np.argsort(-gain)[:12]
    rows = np.vstack([atoms, points[best]])
    start = np.concatenate([0.99 * weights, np.full(len(best), 0.01 / len(best))])
    return float(gain.max()), blahut_arimoto(rows, start)[0]
