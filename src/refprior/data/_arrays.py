"""The user's own data: numpy `.npz` files and torch data sets."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from refprior._kinds import Kind
from refprior.data._data_set import DataSet, data_set, held_out
from refprior.data._error import DataError, naming
from refprior.data._names import NO_LABEL
from refprior.data._npz import load_arrays
from refprior.data._task import Examples, examples, numbered


def read_npz(path: str | Path, test: int | None = None) -> DataSet:
    """A data set from the arrays `labels` and `images`, or `inputs`, in a `.npz` file.

    Images are (n, height, width), channels last or channels first; vectors are (n, features). Label -1 says that there
    is none, and the array `unlabeled` may hold more inputs without labels. The array `split` says which inputs are to
    train (0) and which to test (1); without it, `test` of them in all, equally many per class, are drawn, or none.
    `classes` may name the classes.

    >>> import numpy as np
    >>> import refprior as rp
    >>> np.savez("mine.npz", images=np.zeros((20, 8, 8), np.uint8), labels=np.arange(20) % 2)
    >>> len(rp.data.read_npz("mine.npz", test=4).train)
    16
    """
    arrays = load_arrays(path, ("labels",), ("images", "inputs", "unlabeled", "split", "classes"))
    with naming(path):
        return _data_set(Path(path).stem, arrays, test)


def channels_first(images: np.ndarray) -> np.ndarray:
    """(n, h, w), (n, h, w, c) or (n, c, h, w) with c of 1 or 3 -> (n, c, h, w)."""
    if 0 in images.shape:
        raise DataError(f"images of shape {images.shape} are empty")
    if images.ndim == 3:
        return images[:, None]
    if images.ndim == 4 and images.shape[1] in (1, 3):
        return images
    if images.ndim == 4 and images.shape[3] in (1, 3):
        return images.transpose(0, 3, 1, 2)
    raise DataError(f"images of shape {images.shape}, expected (n, h, w) or four dimensions, 1 or 3 of color")


def examples_from_dataset(dataset: "Dataset[Any]") -> Examples:
    """All items (image, label) of a torch data set, in memory; images are tensors, arrays or Pillow images.

    >>> import torch
    >>> import refprior as rp
    >>> dataset = torch.utils.data.TensorDataset(torch.zeros(5, 1, 8, 8), torch.arange(5))
    >>> len(rp.data.examples_from_dataset(dataset))
    5
    """
    count = len(dataset)  # type: ignore[arg-type]
    if not count:
        raise DataError("the data set is empty")
    items = [_item(dataset[i], i) for i in range(count)]
    first = items[0][0]
    for i, (image, _) in enumerate(items):
        if image.shape != first.shape or image.dtype != first.dtype:
            raise DataError(
                f"item {i} is {tuple(image.shape)} {image.dtype}, item 0 {tuple(first.shape)} {first.dtype}"
            )
    return Examples(torch.stack([image for image, _ in items]), torch.tensor([label for _, label in items]))


def _item(item: Any, index: int) -> tuple[Tensor, int]:
    if not isinstance(item, tuple | list) or len(item) < 2:
        raise DataError(f"item {index} is not (image, label) but a {type(item).__name__}")
    image = item[0] if isinstance(item[0], Tensor) else _from_pixels(np.array(item[0]))
    if image.is_floating_point() and not image.isfinite().all():
        raise DataError(f"item {index} is not finite")
    return image, int(item[1])


def _from_pixels(pixels: np.ndarray) -> Tensor:
    """Pillow images and arrays have their channels last: (h, w) or (h, w, c) -> (c, h, w)."""
    return torch.from_numpy(np.ascontiguousarray(pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)))


def _data_set(name: str, arrays: dict[str, np.ndarray], test: int | None) -> DataSet:
    if len({"images", "inputs"} & set(arrays)) != 1:
        raise DataError("needs an array `images` or `inputs`, one of them")
    inputs, labels = _inputs(arrays["images" if "images" in arrays else "inputs"]), arrays["labels"]
    for key in ("labels", "split"):
        if key in arrays:
            check_column(arrays[key], key, len(inputs))
    train, kept = split_parts(arrays.get("split", np.zeros(len(inputs), np.int64)))
    if kept.any() and test:
        raise DataError(f"has a test part of its own, in `split`: leave test out, got test={test}")
    without = labels == NO_LABEL
    if (without & kept).any():
        raise DataError(f"input {np.argmax(without & kept)} is to test and has no label")
    known = labels[~without]
    if not len(known):
        raise DataError(f"none of {len(labels)} inputs has a label: each class needs one")
    classes = class_names(arrays["classes"]) if "classes" in arrays else numbered("the", known)
    kind: Kind | None = "vectors" if inputs.ndim == 2 else None
    if kept.any():
        there = train & ~without
        data = data_set(name, classes, (inputs[there], labels[there]), (inputs[kept], labels[kept]), kind=kind)
    else:
        data = held_out(name, classes, (inputs[~without], known), test or 0, kind=kind)
    return replace(data, unlabeled=_pool(name, inputs[train & without], arrays.get("unlabeled")))


def _inputs(array: np.ndarray) -> np.ndarray:
    return array if array.ndim == 2 and array.size else channels_first(array)


def _pool(name: str, rows: np.ndarray, more: np.ndarray | None) -> Tensor | None:
    """Inputs without labels: rows whose label says so, and those of an array of their own."""
    if more is not None and len(more):
        more = _inputs(more)
        if (more.shape[1:], more.dtype) != (rows.shape[1:], rows.dtype):
            there, here = (f"{array.shape[1:]} {array.dtype}" for array in (rows, more))
            raise DataError(f"unlabeled inputs are {here}, the others {there}")
        rows = np.concatenate([rows, more])
    return examples(f"{name} unlabeled", rows, np.zeros(len(rows), np.int64)).inputs if len(rows) else None


def check_column(values: np.ndarray, key: str, count: int) -> None:
    """Refuse what is not one whole number for each image."""
    if not np.issubdtype(values.dtype, np.integer):
        raise DataError(f"{key} must be integers, got {values.dtype}")
    if values.shape != (count,):
        raise DataError(f"{key} must be one number for each input, shape ({count},), got {values.shape}")


def split_parts(split: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which rows are of the training part, which of the test part; every row must be of one of them."""
    train, test = split == 0, split == 1
    lost = np.flatnonzero(~(train | test))
    if len(lost):
        raise DataError(f"split {split[lost[0]]} at index {lost[0]}, expected 0 (train) or 1 (test)")
    return train, test


def class_names(names: np.ndarray) -> list[str]:
    """Names of classes: text, or whole numbers."""
    if names.ndim != 1 or names.dtype.kind not in "Uiu":
        raise DataError(f"the names of classes must be a row of text or whole numbers, got {names.shape} {names.dtype}")
    if (
        names.dtype.kind == "U"
        and names.size
        and names.astype(names.dtype.newbyteorder("=")).view(np.uint32).max() > 0x10FFFF
    ):
        raise DataError("the names of classes are not text")
    return [str(name) for name in names.tolist()]
