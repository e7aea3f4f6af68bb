"""The figure fig:manifold_boundary from snapshots, and the spreading as an animated picture."""

import io
from pathlib import Path

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from mpl_toolkits.mplot3d import Axes3D
from PIL import Image

from refprior._files import write_atomically
from refprior._progress import Progress
from refprior._style import END, MIDDLE, MOMENTS, START, styled
from refprior.report._figures import as_png
from refprior.report._scene import Cloud, Scene

_FRAME_MILLISECONDS, _LAST_MILLISECONDS = 180, 2500


@styled
def film_figure(seen: Scene) -> Figure:
    """Draw the start, middle and end of the first run side by side along the same three axes."""
    cloud = seen.clouds[0]
    moments = {0: START, cloud.middle: MIDDLE, len(cloud.steps) - 1: END}
    shown = [(number, color) for number, color in moments.items() if number is not None]
    figure = Figure(figsize=(3.6 * len(shown), 3.5))
    for place, (number, color) in enumerate(shown):
        axes = _axes(figure, seen, (1, len(shown), place + 1), zoom=0.85)
        _scatter(axes, cloud, number, color)
        axes.set_title(_title(cloud, number))
        axes.view_init(elev=22, azim=35)
    figure.subplots_adjust(left=0, right=0.96, bottom=0.08, top=0.92, wspace=0.1)
    return figure


def write_picture(seen: Scene, path: Path) -> None:
    """Write the figure as a small PNG: thousands of marks in full color would double its size."""
    with Image.open(io.BytesIO(as_png(film_figure(seen)))) as drawn:
        small = drawn.convert("RGB").quantize(128, Image.Quantize.FASTOCTREE)  # few marks keep their color
    write_atomically(path, lambda side: small.save(side, "png", optimize=True))


def write_animation(seen: Scene, path: Path, progress: Progress) -> None:
    """Write a GIF: one frame per snapshot, slowly turning, with a rest at the end."""
    cloud, frames = seen.clouds[0], []
    for number in range(len(cloud.steps)):
        progress("drawing frames", number, len(cloud.steps))
        frames.append(_frame(seen, cloud, number).quantize(64))
    durations = [_FRAME_MILLISECONDS] * (len(frames) - 1) + [_LAST_MILLISECONDS]
    first, *others = frames
    write_atomically(
        path, lambda side: first.save(side, "gif", save_all=True, append_images=others, duration=durations, loop=0)
    )


@styled
def _frame(seen: Scene, cloud: Cloud, number: int) -> Image.Image:
    figure = Figure(figsize=(3.4, 3.0))
    axes = _axes(figure, seen, (1, 1, 1), zoom=0.82)  # room for the labels
    figure.subplots_adjust(left=0.04, right=1, bottom=0.1, top=0.92)
    stops = np.array([to_rgb(color) for color in MOMENTS])
    share = number / max(1, len(cloud.steps) - 1)
    _scatter(axes, cloud, number, tuple(np.interp(share, [0, 0.5, 1], stops[:, channel]) for channel in range(3)))
    axes.set_title(_title(cloud, number))
    axes.view_init(elev=22, azim=35 + 2 * number)
    with Image.open(io.BytesIO(as_png(figure))) as drawn:
        return drawn.convert("RGB")


def _title(cloud: Cloud, number: int) -> str:
    return f"step {cloud.steps[number]:,}, I = {cloud.information[number]:.2f} nats"


def _axes(figure: Figure, seen: Scene, place: tuple[int, int, int], zoom: float) -> Axes3D:
    axes: Axes3D = figure.add_subplot(*place, projection="3d")
    every = seen.clouds[0].coordinates.reshape(-1, 3)
    low, high = every.min(0), every.max(0)
    margin = 0.03 * max(float((high - low).max()), 1e-6)
    low, high = low - margin, high + margin
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), zlim=(low[2], high[2]))
    axes.set_box_aspect(tuple(high - low), zoom=zoom)  # equal scales, so that distances are right
    for number, set_label in enumerate((axes.set_xlabel, axes.set_ylabel, axes.set_zlabel)):
        set_label(f"$p_{number + 1}$ ({100 * seen.explained[number]:.1f} %)", fontsize=8)
    axes.tick_params(labelsize=6, pad=0)
    for axis in (axes.xaxis, axes.yaxis, axes.zaxis):
        axis.set_major_locator(MaxNLocator(4))
    return axes


def _scatter(axes: Axes3D, cloud: Cloud, number: int, color: object) -> None:
    particles = cloud.coordinates.shape[1]
    area = 2.5 if particles > 500 else 12 if particles > 20 else 40
    axes.scatter(*cloud.coordinates[number].T, s=area, color=color, alpha=0.6, linewidths=0, depthshade=False)
