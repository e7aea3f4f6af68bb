"""Recipes for custom data: the tasks are replaced, and network, views and batches are adapted."""

import math
import os
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from refprior._kinds import Kind
from refprior.data import FewLabels, Outline, Pair, PatchComponents, PrincipalComponents, Standardize
from refprior.data.sources import DATA_SETS, KNOWN, is_folder
from refprior.networks import MLP, SmallCNN, WideResNet
from refprior.training import Recipe
from refprior.training.loop import fitting_batch
from refprior.training.recipe import Part, put_together, take_apart
from refprior.views import Unchanged, default_views

_PIXELS = ("pixels", "pad", "cutout")  # settings of views that are lengths in an image
_HIDDEN = 64  # units of the MLP that replaces a convolutional network if inputs are vectors

Classes = tuple[int, ...] | None


class CustomData(NamedTuple):
    """Your data for a recipe, as paths or names that `rp.data.read` takes.

    Parameters
    ----------
    data : str
        A folder of images, a ``.npz`` file, a table, or the name of a data set.
    source : str, optional
        The data to transfer from, for a recipe that transfers.
    kind : str, optional
        Content of the inputs, as in `rp.views.default_views`. Defaults to that of the data set or of the recipe.

    Examples
    --------
    >>> import refprior as rp
    >>> data = rp.recipes.CustomData("digits", kind="digits")
    >>> rp.recipes.named("mnist_ssl", {"labels": "50"}, data).recipe.network.keywords["shape"]
    (1, 8, 8)
    """

    data: str
    source: str | None = None
    kind: Kind | None = None


def with_data(
    recipe: Recipe,
    data: str,
    *,
    source: str | None = None,
    labels: int | None = None,
    source_classes: Classes = None,
    target_classes: Classes = None,
    kind: Kind | None = None,
) -> Recipe:
    """Adapt a recipe to your data.

    The network gets the shape and classes of the data, and becomes an MLP if they are vectors. Views keep their lengths
    relative to the image, and batches are no larger than the pool. Images of a folder are resized to the recipe's size.
    If every image is labeled, the labeled images are also the pool.

    Parameters
    ----------
    recipe : Recipe
        The recipe to adapt; it stays as it is.
    data : str
        A folder of images, a ``.npz`` file, a table, or the name of a data set.
    source : str, optional
        The data to transfer from, for a recipe that transfers.
    labels : int, optional
        Number of labels to use. Defaults to all.
    source_classes, target_classes : tuple of int, optional
        For a recipe that transfers: classes of ``data`` to transfer from and to, instead of ``source``.
    kind : str, optional
        Content of the inputs, as in `rp.views.default_views`. Defaults to that of the data set or of the recipe.

    Returns
    -------
    Recipe
        The adapted recipe.

    Raises
    ------
    ValueError
        If the recipe needs a source and none is given, or the data do not fit.

    Examples
    --------
    >>> import numpy as np
    >>> import refprior as rp
    >>> np.savez("mine.npz", images=np.zeros((60, 16, 16, 3), np.uint8), labels=np.arange(60) % 4)
    >>> recipe = rp.recipes.with_data(rp.recipes.mnist_ssl(), "mine.npz", labels=8)
    >>> recipe.network.keywords["shape"], recipe.network.keywords["classes"], recipe.strong.cutout
    ((3, 16, 16), 4, 5)
    """
    custom = CustomData(data, source, kind)
    return adapted(replaced(recipe, custom, labels, source_classes, target_classes), recipe, kind)


def replaced(
    recipe: Recipe,
    custom: CustomData,
    labels: int | None = None,
    source_classes: Classes = None,
    target_classes: Classes = None,
) -> Recipe:
    """Replace the tasks of a recipe; everything else still fits the old ones."""
    old, start = recipe.task, recipe.start
    teacher = start.task if start is not None else None
    if not isinstance(old, FewLabels | Pair) or not isinstance(teacher, FewLabels | None):
        raise ValueError("the recipe's task is neither FewLabels nor Pair: its data cannot be replaced")
    transfers = isinstance(old, Pair) or teacher is not None
    if not transfers and (custom.source is not None or source_classes is not None):
        raise ValueError("this recipe has no source to transfer from: omit the source")
    if transfers and custom.source is None and (source_classes is None or target_classes is None):
        raise ValueError(
            "this recipe transfers: give a source (--source-data, in Python source=), "
            "or source_classes and target_classes of the same data"
        )
    source = custom.data if custom.source is None else custom.source
    if isinstance(old, Pair):
        taught = _few(old.source, recipe, source, None, source_classes)
        return replace(recipe, task=Pair(taught, _few(old.target, recipe, custom.data, labels, target_classes)))
    if start is not None and teacher is not None:
        start = replace(start, task=_few(teacher, start, source, None, source_classes))
    return replace(recipe, task=_few(old, recipe, custom.data, labels, target_classes), start=start)


def adapted(recipe: Recipe, before: Recipe, kind: Kind | None = None) -> Recipe:
    """Adapt network, views and batches to the new tasks; `before` is the recipe with its old tasks."""
    start = recipe.start
    if start is not None and before.start is not None:
        start = adapted(start, before.start, kind)
    few, source = _target(recipe), recipe.task.source if isinstance(recipe.task, Pair) else None
    found = few.outline()
    if not found.pool and few.labels is None:
        few = replace(few, labeled_in_pool=True)
        found = few.outline()
    taught = source.outline() if source is not None else None
    if taught is not None and taught.shape != found.shape:
        raise ValueError(f"source inputs have shape {taught.shape}, target inputs {found.shape}: they must be equal")
    weak, strong = _views(before, found, kind)
    inputs, shape = recipe.inputs, found.shape
    if isinstance(inputs, PrincipalComponents):
        inputs = replace(inputs, count=min(inputs.count, math.prod(shape)))
        shape = (inputs.count,)
    if isinstance(inputs, PatchComponents) and len(shape) == 3:
        view = strong if inputs.view == before.strong else inputs.view
        inputs = replace(inputs, size=min(inputs.size, *shape[1:]), view=view)
        shape = (inputs.count,)
    elif isinstance(inputs, PatchComponents):
        inputs = Standardize()  # vectors have no patches
    return replace(
        recipe,
        task=Pair(source=source, target=few) if source is not None else few,
        network=_network(recipe.network, shape, _outputs(before, found, taught)),
        inputs=inputs,
        weak=weak,
        strong=strong,
        unlabeled_batch=fitting_batch(recipe, found.pool),
        start=start,
    )


def described(recipe: Recipe) -> list[str]:
    """Describe a recipe with custom data, in lines for the user to check."""
    found = _target(recipe).outline()
    network = take_apart(recipe.network)
    lines = [
        f"{found.classes} classes, inputs {found.shape}, {found.labeled:,} labeled, {found.pool:,} in the pool",
        f"network {network.make.__name__}, weak view {recipe.weak}, strong view {recipe.strong}",
    ]
    if _target(recipe).labeled_in_pool:
        lines.append("the labeled inputs are also in the pool")
    if not found.measured:
        name = "task.target.test" if isinstance(recipe.task, Pair) else "task.test"
        lines.append(f"no test part: --set {name}=N holds out N labeled inputs")
    return lines


def _target(recipe: Recipe) -> FewLabels:
    few = recipe.task.target if isinstance(recipe.task, Pair) else recipe.task
    assert isinstance(few, FewLabels)
    return few


def _few(old: FewLabels, recipe: Recipe, data: str, labels: int | None, classes: Classes) -> FewLabels:
    """Return a task on other data with nothing held out; a task without labels stays one."""
    if old.labels == 0 and labels is not None:
        raise ValueError(f"this recipe uses no labels of its target: omit labels, got {labels}")
    place = data if data in DATA_SETS else os.path.abspath(data)
    return FewLabels(
        place,
        labels=0 if old.labels == 0 else labels,
        seed=old.seed,
        classes=classes,
        labeled_in_pool=old.labeled_in_pool,
        folder=old.folder if data in DATA_SETS else None,
        test=None if data in DATA_SETS else 0,
        size=_size(old, recipe) if is_folder(place) else None,
    )


def _size(few: FewLabels, recipe: Recipe) -> tuple[int, ...] | None:
    """Return the height and width of the images that a recipe was made for."""
    known, network = KNOWN.get(str(few.data)), take_apart(recipe.network)
    shape = known.shape if known is not None else _settings(network).get("shape", ())
    return tuple(side // few.shrink for side in shape[1:]) if len(shape) == 3 else None


def _settings(part: object) -> dict[str, Any]:
    return part.settings if isinstance(part, Part) else {}


def _views(before: Recipe, found: Outline, kind: Kind | None) -> tuple[Any, Any]:
    """Resize the views of the recipe, or return the default views of another kind of inputs."""
    few = _target(before)
    known, size = KNOWN.get(str(few.data)), _size(few, before)
    made_for = known.kind if known is not None else None
    wanted = kind or found.kind or ("vectors" if len(found.shape) == 1 else made_for)
    views = before.weak, before.strong
    if wanted == "tokens":
        raise ValueError("no recipe has a network for tokens: docs/own.md shows a custom one")
    if wanted != made_for and wanted is not None:
        chosen = default_views(wanted, found.shape)
        weak, strong = (old if isinstance(old, Unchanged) else new for old, new in zip(views, chosen, strict=True))
        return weak, strong
    ratio = min(found.shape[1:]) / min(size) if size is not None and len(found.shape) == 3 else 1.0
    return resized_view(before.weak, ratio), resized_view(before.strong, ratio)


def _outputs(before: Recipe, found: Outline, taught: Outline | None) -> int:
    """Return the number of outputs: shared with a source of equally many classes, or separate if the recipe does so."""
    if taught is None:
        return found.classes
    outputs, classes = _settings(take_apart(before.network)).get("classes"), _target(before).class_count
    separate = outputs is not None and classes is not None and outputs > classes
    return found.classes if taught.classes == found.classes and not separate else found.classes + taught.classes


def _network(network: object, shape: tuple[int, ...], classes: int) -> Any:
    """Return the network for other inputs and classes; an MLP replaces a convolutional one if inputs are vectors."""
    part = take_apart(network)
    if len(shape) == 1 and part.make in (SmallCNN, WideResNet):
        return partial(MLP, shape=shape, classes=classes, hidden=_HIDDEN)
    new = {name: value for name, value in (("shape", shape), ("classes", classes)) if name in part.hints}
    return put_together(Part(part.make, {**part.settings, **new}, factory=True)) if new else network


def resized_view(view: object, ratio: float) -> Any:
    """Multiply the lengths of a view, in pixels, by `ratio`; a positive one stays at least 1."""
    if not is_dataclass(view) or isinstance(view, type):
        return view
    known = {f.name: getattr(view, f.name) for f in fields(view)}
    changes = {name: max(1, round(ratio * known[name])) for name in _PIXELS if known.get(name)}
    if "weak" in known:
        changes["weak"] = resized_view(known["weak"], ratio)
    return replace(view, **changes)
