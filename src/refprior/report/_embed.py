"""The interactive page of particles in the space of predictions: one file that needs no network."""

import base64
import json
import math
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from refprior._files import write_text
from refprior._kinds import noun
from refprior._progress import Progress, no_progress
from refprior._style import CLASSES, PAGE
from refprior.report._film import write_animation, write_picture
from refprior.report._scene import Cloud, Scene, scene
from refprior.report._tiles import picture_url
from refprior.training import Trajectory
from refprior.training.store import read_header


def write_embedding(
    films: Sequence[Trajectory],
    out: Path,
    picture: Path | None = None,
    animation: Path | None = None,
    progress: Progress = no_progress,
) -> Scene:
    """Write an interactive page of the particles in the space of predictions.

    The page is one file and works offline.

    Parameters
    ----------
    films : sequence of Trajectory
        Snapshots of runs on the same inputs, from `rp.training.read_trajectory`.
    out : Path
        HTML file to write.
    picture : Path, optional
        PNG file for the start, middle and end of the first run, as in fig:manifold_boundary.
    animation : Path, optional
        GIF file for an animation of the first run.
    progress : callable, optional
        Called with the current work, the completed part and the total.

    Returns
    -------
    Scene
        The coordinates and measurements that the page shows.

    Examples
    --------
    >>> import refprior as rp
    >>> recipe, origin = rp.recipes.named("digits_ssl", {"steps": 5}, seed=0)
    >>> run = rp.train(recipe, "runs/a", origin=origin)
    >>> from pathlib import Path
    >>> scene = rp.report.write_embedding([rp.training.read_trajectory("runs/a")], Path("page.html"))
    >>> len(scene.clouds)
    1
    """
    for name, path, suffix in (("page", out, None), ("picture", picture, ".png"), ("animation", animation, ".gif")):
        if path is not None and path.is_dir():
            raise ValueError(f"{path} is a folder: give a file name")
        if path is not None and suffix and path.suffix.lower() != suffix:
            raise ValueError(f"the {name} must be a {suffix} file, got {path.name}")
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise ValueError("the page needs plotly, which is not installed: pip install plotly") from None
    seen = scene_of_runs(films, progress)
    for path in (out, picture, animation):
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
    write_text(out, page(seen, get_plotlyjs()))
    if picture is not None:
        write_picture(seen, picture)
    if animation is not None:
        write_animation(seen, animation, progress)
    return seen


def scene_of_runs(films: Sequence[Trajectory], progress: Progress = no_progress) -> Scene:
    """Place runs along common axes, with names, orders and readout from their run folders."""
    recipes = [read_header(film.path).recipe for film in films]
    orders = [_order(recipe.get("method")) for recipe in recipes]
    named = all(recipe.get("readout") != "consensus" for recipe in recipes)
    return scene(films, _names([film.path.resolve() for film in films]), orders, named, progress)


def _names(paths: Sequence[Path]) -> list[str]:
    """Return the shortest endings of the paths that are distinct."""
    if len(set(paths)) < len(paths):
        raise ValueError(f"a run is given twice: {', '.join(map(str, paths))}")
    depth = 1
    while len({path.parts[-depth:] for path in paths}) < len(paths):
        depth += 1
    return ["/".join(path.parts[-depth:]) for path in paths]


def _order(method: object) -> int:
    """Return the order of a method's tuples: its own, that of its `target`, or 1."""
    if not isinstance(method, dict):
        return 1
    order = method.get("order")
    return max(1, order) if isinstance(order, int) else _order(method.get("target"))


def page(seen: Scene, script: str) -> str:
    """Return the HTML text, with the script that draws in it."""
    template = files("refprior.report").joinpath("embed.html").read_text(encoding="utf-8")
    data = json.dumps(_data(seen)).replace("<", "\\u003c")  # no name may end the script or begin another
    return template.replace("/*style*/", PAGE).replace("/*plotly*/", script).replace("/*data*/", data)


def summary(seen: Scene) -> str:
    """Describe a scene in two sentences; of several runs, the first."""
    cloud = seen.clouds[0]
    whose = f"{cloud.name}: " if len(seen.clouds) > 1 else ""
    trained = f" (trained with {cloud.trained_order}: too many labelings)" if cloud.order < cloud.trained_order else ""
    kind, what = "test" if seen.known else "unlabeled", noun(tuple(seen.inputs.shape[1:]))
    held = ", ".join(f"{100 * share:.1f}" for share in seen.explained)
    return (
        f"{whose}{cloud.coordinates.shape[1]} particles, order {cloud.order}{trained}: "
        f"I = {cloud.information[-1]:.3f} of at most {_largest(cloud, seen):.3f} nats on {len(seen.all_labels)} {kind} "
        f"{what}s at step {cloud.steps[-1]}, {100 * cloud.constant[-1]:.1f} % constant particles. Distances seen are "
        f"at most the Hellinger distances: the axes hold {held} % of the variance ({100 * sum(seen.explained):.1f} % "
        "together)."
    )


def _largest(cloud: Cloud, seen: Scene) -> float:
    """Return min(log K, N log C), the largest possible information."""
    return min(math.log(cloud.coordinates.shape[1]), cloud.order * math.log(len(seen.classes)))


def _data(seen: Scene) -> dict[str, object]:
    marks = np.array(list(seen.landmarks.values()))
    every = np.concatenate([marks, *(cloud.coordinates.reshape(-1, 3) for cloud in seen.clouds)])
    return {
        "runs": [_run(cloud) for cloud in seen.clouds],
        "explained": seen.explained,
        "ranges": _ranges(every),
        "classColors": CLASSES,
        "classes": seen.classes,
        "outputs": seen.outputs,
        "named": seen.named,
        "known": seen.known,
        "noun": noun(tuple(seen.inputs.shape[1:])),
        "landmarks": seen.landmarks,
        "distances": seen.distances,
        "labels": seen.all_labels,
        "shown": [{"picture": _picture(i), "label": y} for i, y in zip(seen.inputs, seen.labels, strict=True)],
        "largest": _largest(seen.clouds[0], seen),
        "summary": summary(seen),
    }


def _run(cloud: Cloud) -> dict[str, object]:
    return {
        "name": cloud.name,
        "particles": cloud.coordinates.shape[1],
        "steps": cloud.steps,
        "middle": cloud.middle,
        "coordinates": _packed(cloud.coordinates, np.float32),
        "accuracy": _packed(cloud.particle.accuracy, np.float32),
        "entropy": _packed(cloud.particle.entropy, np.float32),
        "balance": _packed(cloud.particle.balance, np.float32),
        "predictions": _packed(np.round(255 * cloud.predictions), np.uint8),
        "information": cloud.information,
        "marginal": cloud.marginal_entropy,
        "conditional": cloud.conditional_entropy,
        "inputs": _packed(cloud.consensus.coordinates, np.float32),
        "inputRanges": _ranges(cloud.consensus.coordinates.reshape(-1, 2)),
        "clusters": cloud.consensus.clusters.tolist(),
        "agreement": cloud.consensus.accuracy,
    }


def _ranges(points: np.ndarray) -> list[list[float]]:
    """Return the range of each coordinate over all snapshots, with a margin, so that axes do not move. (M, d)."""
    low, high = points.min(0), points.max(0)
    margin = 0.05 * max(float((high - low).max()), 1e-6)
    ranges: list[list[float]] = np.stack([low - margin, high + margin], axis=1).tolist()
    return ranges


def _packed(values: np.ndarray, dtype: type[np.generic]) -> str:
    """Encode numbers as base64 text, a third of the size of digits."""
    return base64.b64encode(np.ascontiguousarray(values, dtype=dtype).tobytes()).decode()


def _picture(given: Tensor) -> str:
    """Encode an image, or any other input as one row of gray."""
    values = (given if given.dtype == torch.uint8 else given.double()).numpy()
    return picture_url(values if values.ndim == 3 and len(values) in (1, 3) else values.reshape(1, 1, -1), 1)
