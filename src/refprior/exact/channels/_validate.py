"""Checks of what a user gives: numbers, channels and functions. Each raises a ValueError of one line."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from refprior.exact._arrays import SLICE_ENTRIES, Array
from refprior.exact.channels._channel import Channel
from refprior.exact.channels._rows import check_rows

PROBES = 5  # parameters per axis, at which a channel is tried before it is used


def check_channel(channel: Any, name: str = "channel") -> Channel:
    """The channel, after its shapes and the sums of some of its rows were checked."""
    if not isinstance(channel, Channel):
        hint = f"; did you mean {channel.__name__}(…)?" if isinstance(channel, type) else ""
        raise ValueError(f"{name} must be a Channel such as Coin(10), got {_short(channel)}{hint}")
    kind = type(channel).__name__
    _check_box(kind, getattr(channel, "bounds", None))
    if not channel.listed:
        return channel
    outcomes = _outcome_count(channel)
    points = PROBES ** min(channel.dimension, 3)
    if points * outcomes <= SLICE_ENTRIES:  # longer ones are checked as they are evaluated
        axes = [channel.axes.points(0, 0)] if not channel.continuous else _probes(channel.bounds)
        u = np.array(list(itertools.product(*axes))) if channel.dimension <= 3 else np.column_stack(axes)
        check_rows(channel.log_likelihood(u), channel.parameter(u), outcomes, f"{kind}.log_likelihood")
    return channel


def check_instance(name: str, value: Any, kind: type, maker: str) -> None:
    """Refuse a value that is not of this kind, and say what makes one."""
    if not isinstance(value, kind):
        raise ValueError(f"{name} must be a {kind.__name__} as {maker} returns it, got {_short(value)}")


def _check_box(kind: str, bounds: Any) -> None:
    box = np.asarray(bounds)
    good = box.ndim == 2 and box.shape[1] == 2 and len(box) >= 1 and box.dtype.kind in "fiu"
    if not good or not np.all(np.isfinite(box)) or np.any(box[:, 0] > box[:, 1]):
        raise ValueError(
            f"{kind}.bounds must be an array of shape (d, 2), low and high of each coordinate, got {_short(bounds)}"
        )


def _outcome_count(channel: Channel) -> int:
    """How many outcomes there are, at least one; a list of them is not asked for where their number is known."""
    if type(channel).outcome_count is not Channel.outcome_count:
        return channel.outcome_count
    shape = np.asarray(getattr(channel, "outcomes", None)).shape
    if not shape or 0 in shape:
        raise ValueError(
            f"{type(channel).__name__}.outcomes must be an array with one entry per outcome, got shape {shape}"
        )
    return int(shape[0])


def _probes(bounds: Array) -> list[Array]:
    """Both ends and uneven places between them."""
    places = np.linspace(0, 1, PROBES) ** 1.3
    return [low + (high - low) * places for low, high in bounds]


def _short(value: Any) -> str:
    """repr on one line, cut to a length that a message can bear."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."
