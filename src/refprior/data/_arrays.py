"""Tasks and examples from what users have in memory: arrays, tensors, sparse matrices and torch data sets."""

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset

from refprior._words import in_short
from refprior.data._data_set import NO_LABEL, Array, are_names, as_array, as_inputs, examples, numbered
from refprior.data._task import Examples, Task
from refprior.data.files import DataError, channels_first, picture_pixels

Part = tuple[Array, Array] | Examples | Dataset[Any]


def task_from_arrays(
    labeled: Part,
    unlabeled: Array | Dataset[Any],
    test: Part | None = None,
    *,
    validation: Part | None = None,
    classes: Sequence[str] | None = None,
    name: str = "arrays",
    names: Sequence[str] = (),
    features: Sequence[str] = (),
    test_groups: Sequence[object] | np.ndarray = (),
) -> Task:
    """Make a task of arrays, tensors or torch data sets.

    Inputs are images (n, channels, height, width), uint8 or float; vectors (n, features) of any numbers; or floats of
    any other shape. Integer vectors stay integers until they are normalized; with ``inputs=Identity()`` they stay
    integers for the network too, as token ids for an ``nn.Embedding``. Sparse matrices become dense.

    Parameters
    ----------
    labeled : (inputs, labels), Examples or torch Dataset
        The labeled inputs. Labels are whole numbers 0, 1, … or names. An input with label -1, or None among names, is
        unlabeled and moves to the end of the pool.
    unlabeled : array, tensor or torch Dataset
        The unlabeled inputs. Labels in the items of a data set are not used.
    test, validation : (inputs, labels), Examples or torch Dataset, optional
        Held-out parts. Without them a run reports its loss and its terms.
    classes : sequence of str, optional
        Names of the classes. Defaults to the sorted names among the labels, or to "0", "1", …
    name : str, default: "arrays"
        Name of the task.
    names : sequence of str, optional
        Names of the unlabeled inputs, by which ``refprior suggest`` asks about them.
    features : sequence of str, optional
        Names of the values of a vector.
    test_groups : sequence, optional
        Group of each test input, a name or a number. `Run.rules` compares the rules in each group.

    Returns
    -------
    Task
        The task.

    Raises
    ------
    ValueError
        If inputs are not numbers, not finite or of different shapes, or labels are not classes.

    Examples
    --------
    >>> import numpy as np
    >>> import refprior as rp
    >>> images, labels = np.random.rand(60, 1, 8, 8), np.arange(60) % 3
    >>> known, rest, test = slice(0, 9), slice(9, 40), slice(40, 60)
    >>> task = rp.data.task_from_arrays(
    ...     (images[known], labels[known]), images[rest], (images[test], labels[test]), classes=["a", "b", "c"]
    ... )
    >>> len(task.labeled), len(task.unlabeled)
    (9, 31)

    A torch data set can be any part:

    >>> from torch.utils.data import TensorDataset
    >>> import torch
    >>> known, rest = (TensorDataset(torch.rand(n, 1, 8, 8), torch.arange(n) % 3) for n in (9, 30))
    >>> len(rp.data.task_from_arrays(known, rest).unlabeled)
    30
    """
    given = _pair(labeled)
    found = None if classes is None else tuple(classes)
    if found is None and are_names(labels := as_array(given[1])):
        found = tuple(sorted(set(labels.tolist()) - {None}))
    known = examples("labeled", *given, found)
    pool = as_inputs("unlabeled", _stacked(unlabeled) if isinstance(unlabeled, Dataset) else unlabeled)
    without = known.labels == NO_LABEL
    if without.any():
        pool = torch.cat([pool, known.inputs[without]]) if len(pool) else known.inputs[without]
        known = known[~without]
    _check_channels(known.inputs)
    known_as = found if found is not None else numbered("labeled", known.labels.numpy())
    return Task(
        name=name,
        classes=known_as,
        labeled=known,
        unlabeled=pool,
        test=examples("test", *_pair(test), known_as) if test is not None else None,
        validation=examples("validation", *_pair(validation), known_as) if validation is not None else None,
        names=tuple(names),
        features=tuple(features),
        integer_labels=found is None,
        test_groups=tuple(map(str, test_groups)),
    )


def examples_from_dataset(dataset: "Dataset[Any]") -> Examples:
    """Read all items of a torch data set into memory.

    Parameters
    ----------
    dataset : torch.utils.data.Dataset
        A map-style data set, with ``len()`` and ``[]``. Its items are (input, label): the input is a tensor, an array
        or a Pillow image, the label a whole number. Color channels of arrays and Pillow images may be last.

    Returns
    -------
    Examples
        Its inputs and labels. Images are (n, channels, height, width).

    Raises
    ------
    DataError
        If the data set is empty, or an item has another shape or type than the first or is not finite.

    See Also
    --------
    task_from_arrays : Make a task; it accepts torch data sets too.
    DataSet : Make a data set of examples, whose labels `FewLabels` hides.

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> dataset = torch.utils.data.TensorDataset(torch.zeros(5, 1, 8, 8), torch.arange(5))
    >>> len(rp.data.examples_from_dataset(dataset))
    5
    """
    inputs: list[Tensor] = []
    labels: list[int] = []
    for index in range(_count(dataset)):
        item = dataset[index]
        if not isinstance(item, tuple | list) or len(item) < 2:
            raise DataError(f"item {index} is not (input, label) but a {type(item).__name__}")
        inputs.append(_item(item[0], index, inputs[0] if inputs else None))
        try:
            labels.append(operator.index(item[1]))
        except TypeError:
            raise DataError(f"item {index} has label {in_short(repr(item[1]))}, expected a whole number") from None
    return Examples(torch.stack(inputs), torch.tensor(labels))


def _pair(part: Part) -> tuple[Array, Array]:
    """Return inputs and labels."""
    found = examples_from_dataset(part) if isinstance(part, Dataset) else part
    return (found.inputs, found.labels) if isinstance(found, Examples) else found


def _stacked(dataset: "Dataset[Any]") -> Tensor:
    """Return the inputs of a torch data set, whose items may be (input, label) or inputs alone."""
    inputs: list[Tensor] = []
    for index in range(_count(dataset)):
        item = dataset[index]
        inputs.append(_item(item[0] if isinstance(item, tuple | list) else item, index, inputs[0] if inputs else None))
    return torch.stack(inputs)


def _count(dataset: "Dataset[Any]") -> int:
    if not hasattr(dataset, "__len__"):
        raise DataError(f"{type(dataset).__name__} has no len(): give a map-style data set")
    if not len(dataset):
        raise DataError("the data set is empty")
    return len(dataset)


def _item(values: object, index: int, first: Tensor | None) -> Tensor:
    """Return an input of a torch data set, which must be like the first: channels first, if it is an image."""
    if isinstance(values, Image.Image):
        made = torch.from_numpy(picture_pixels(values))
    elif isinstance(values, Tensor):
        made = values
    else:
        array = np.array(values)
        if array.ndim == 2 or (array.ndim == 3 and (array.shape[0] in (1, 3) or array.shape[2] in (1, 3))):
            array = channels_first(array[None])[0]
        if array.dtype.kind not in "biuf":
            raise DataError(f"item {index} is a {type(values).__name__}, expected a tensor, an array or a Pillow image")
        made = torch.from_numpy(np.ascontiguousarray(array))
    if made.is_floating_point() and not made.isfinite().all():
        raise DataError(f"item {index} is not finite")
    if first is not None and (made.shape != first.shape or made.dtype != first.dtype):
        raise DataError(f"item {index} is {tuple(made.shape)} {made.dtype}, item 0 {tuple(first.shape)} {first.dtype}")
    return made


def _check_channels(inputs: Tensor) -> None:
    """Reject images without channels, or with the channels last."""
    shape, remedy = tuple(inputs.shape), "images are (n, channels, height, width): use"
    if len(shape) < 2 or 0 in shape[1:]:
        raise ValueError(f"labeled inputs are {shape}, expected (n, features) or (n, channels, height, width)")
    if len(shape) == 3 and (inputs.dtype == torch.uint8 or shape[1] == shape[2]):
        raise ValueError(
            f"labeled inputs are {shape}, {remedy} x[:, None]; for sequences with as many steps as features "
            "construct a refprior.data.Task"
        )
    last = (1, 3, 4) if inputs.dtype == torch.uint8 else (1, 3)  # 4: with transparency
    if len(shape) == 4 and shape[3] in last and min(shape[1:3]) > max(3, shape[3]):
        raise ValueError(f"labeled inputs are {shape}, {remedy} np.moveaxis(x, -1, 1)")
