"""Data sets by name, from files and folders, and examples of a torch data set."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from refprior._checks import whole_number
from refprior._kinds import Kind
from refprior._words import counted, in_short
from refprior.data._data_set import DataSet, data_set, divided, held_out
from refprior.data._names import NO_LABEL
from refprior.data._task import Examples, examples, numbered
from refprior.data.files import (
    TABLE_SUFFIXES,
    DataError,
    FoundFolder,
    Survey,
    Table,
    channels_first,
    check_column,
    class_names,
    load_arrays,
    look,
    naming,
    read_images,
    read_table,
    split_parts,
    survey,
)
from refprior.data.sources import DATA_SETS

log = logging.getLogger("refprior")
_MOST_NAMED = 5  # columns in a message


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


def read(
    data: str,
    folder: str | Path | None = None,
    *,
    test: int | None = None,
    size: tuple[int, int] | None = None,
    color: bool | None = None,
    target: str | None = None,
) -> DataSet:
    """A data set by its name, from a `.npz`, `.csv` or `.parquet` file, or from a folder of images.

    folder: where the files of a named data set are; None: where `refprior data get` puts them. test: how many of your
    own inputs are kept apart to test with. size and color: what `image_folder` makes of images. target: the column of
    labels in a table; None: "label".

    >>> import refprior as rp
    >>> rp.data.read("digits").classes
    ('0', '1', '2', '3', '4', '5', '6', '7', '8', '9')
    """
    suffix = Path(data).suffix.lower()
    if target is not None and suffix not in TABLE_SUFFIXES:
        raise ValueError(f"target is the column of labels in a {' or '.join(TABLE_SUFFIXES)} file, and {data} is none")
    if data in DATA_SETS:
        if test:
            raise ValueError(f"{data} has a test part of its own: leave test out, got test={test}")
        _refuse_pictures(data, size, color)
        return DATA_SETS[data](folder)
    if Path(data).is_dir():
        return image_folder(data, test=test, size=size, color=color)
    if suffix not in (".npz", *TABLE_SUFFIXES):
        raise ValueError(
            f"no data set {data!r}: give {', '.join(DATA_SETS)}, a .npz, .csv or .parquet file or a folder of images"
        )
    _refuse_pictures(data, size, color)
    return read_npz(data, test) if suffix == ".npz" else read_rows(data, test, target=target or "label")


def _refuse_pictures(data: str, size: tuple[int, int] | None, color: bool | None) -> None:
    if size is not None or color is not None:
        raise ValueError(f"size and color are for folders of images, and {data} is none")


def read_rows(path: str | Path, test: int | None = None, *, target: str = "label") -> DataSet:
    """A data set from a `.csv` or `.parquet` file with a column of labels, names or whole numbers.

    A row whose label is empty, or -1 among whole numbers, has none. All other columns of numbers are features; columns
    of text are left out, and a warning names them. test: rows to test with in all, equally many per class.

    >>> from pathlib import Path
    >>> import refprior as rp
    >>> _ = Path("animals.csv").write_text("weight,legs,label\\n4,4,cat\\n0.1,2,bird\\n5,4,\\n")
    >>> animals = rp.data.read_rows("animals.csv")
    >>> animals.classes, animals.features, len(animals.train), len(animals.unlabeled)
    (('bird', 'cat'), ('weight', 'legs'), 2, 1)
    """
    table = read_table(path)
    with naming(path):
        if target not in table.columns:
            there = in_short(", ".join(table.columns))
            raise DataError(f"no column {target!r} with labels: name yours as the target; there are {there}")
        classes, labels = _labels(table.values[target], target)
        columns = [name for name in table.columns if name != target]
        features = [name for name in columns if table.values[name].dtype != object]
        _warn_of_text(path, tuple(name for name in columns if name not in features))
        values = _finite(table, features)
        known = labels != NO_LABEL
        data = held_out(Path(path).stem, classes, (values[known], labels[known]), test or 0, kind="vectors")
        rest = examples("unlabeled", values[~known], labels[~known]).inputs if not known.all() else None
        return replace(data, unlabeled=rest, features=tuple(features))


def _labels(column: np.ndarray, name: str) -> tuple[list[str], np.ndarray]:
    """The names of the classes in order, and the number of each row's class, -1 for none: (n,) -> (C,), (n,)."""
    if column.dtype == object:
        known = np.array([value is not None for value in column], dtype=bool)
        texts = column[known].astype(str)
    else:
        known = ~np.isnan(column) & (column != NO_LABEL)
        whole = column[known]
        wrong = np.flatnonzero(whole != np.round(whole))
        if len(wrong):
            raise DataError(f"column {name!r} holds {whole[wrong[0]]:g}: labels are names or whole numbers")
        texts = whole.astype(np.int64)
    if not known.any():
        raise DataError(f"column {name!r} has no label in {counted(len(column), 'row')}: each class needs one")
    classes, codes = np.unique(texts, return_inverse=True)
    labels = np.full(len(column), NO_LABEL, np.int64)
    labels[known] = codes
    return [str(value) for value in classes], labels


def _finite(table: Table, features: list[str]) -> np.ndarray:
    """The features side by side; every cell must hold a number: (n, D)."""
    if not features:
        raise DataError("has no column of numbers beside the labels: there is nothing to learn from")
    values = table.matrix(features)
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        row, column = bad[0]
        rows = counted(len(np.unique(bad[:, 0])), "row")
        raise DataError(f"column {features[column]!r} is empty or not finite in row {row} ({rows} with such cells)")
    return values


@cache  # a run reads its data more than once
def _warn_of_text(path: str | Path, names: tuple[str, ...]) -> None:
    if names:
        shown = ", ".join(names[:_MOST_NAMED]) + (", …" if len(names) > _MOST_NAMED else "")
        log.warning("%s: %s of text left out: %s", path, counted(len(names), "column"), in_short(shown))


def image_folder(
    root: str | Path, *, test: int | None = None, size: tuple[int, int] | None = None, color: bool | None = None
) -> DataSet:
    """A data set from a folder with one subfolder per class, and `unlabeled/` for images without labels.

    Where the classes are inside `train/` and `test/` or `val/`, these are its parts. Folders in the folder of a class
    belong to the class. Files that are no images are skipped; `survey` says which. Links are followed. Photographs are
    held upright, as their EXIF data say.

    test: images to test with in all, equally many per class; 0: none are drawn; None: of each class a fifth of the
    smallest one, unless there is `train/`. size: (height, width) to which every image is resized; None: that of the
    first image. color: turn all images to color or to gray; None: they must be all color or all gray.

    >>> from pathlib import Path
    >>> from PIL import Image
    >>> import refprior as rp
    >>> for name in ("cat", "dog"):
    ...     Path("photos", name).mkdir(parents=True)
    ...     for number in range(3):
    ...         Image.new("RGB", (8, 8), (60 * number, 0, 0)).save(f"photos/{name}/{number}.png")
    >>> photos = rp.data.image_folder("photos")
    >>> photos.classes, len(photos.train), len(photos.test)
    (('cat', 'dog'), 4, 2)
    """
    found = survey(root)
    files, labels = _flat(found.part("train"))
    chosen = divided(labels, drawn_to_test(found, test))
    train = [[files[i] for i in part] for part in chosen]
    parts = [*train, *(_flat(found.part(part))[0] for part in ("test", "validation", "unlabeled"))]
    if size is None:
        size = look(files[0], color)[:2]
    images = read_images([file for part in parts for file in part], size, color).split([len(part) for part in parts])
    rest, kept = (Examples(part, torch.from_numpy(labels[i])) for part, i in zip(images[:2], chosen, strict=True))
    given, validation = (_examples(images[2], found.part("test")), _examples(images[3], found.part("validation")))
    log.info("%s: %s", found.root, found.summary)
    return DataSet(
        name=found.root.name,
        classes=found.classes,
        train=rest,
        test=given if given is not None else kept if len(kept) else None,
        unlabeled=images[4] if len(images[4]) else None,
        validation=validation,
        names=tuple(str(file.relative_to(found.root)) for part in (parts[0], parts[4]) for file in part),
    )


def drawn_to_test(found: Survey, test: int | None) -> int:
    """How many of the training images are kept apart to test with."""
    if found.part("test"):
        if test:
            raise ValueError(f"{found.root} has a test part of its own, test/: leave test out, got test={test}")
        return 0
    if test is not None:
        return whole_number("test", test, at_least=0)
    smallest = min(len(folder.files) for folder in found.part("train"))
    return 0 if found.divided else max(1, smallest // 5) * len(found.classes)


def _flat(folders: Sequence[FoundFolder]) -> tuple[list[Path], np.ndarray]:
    """All files of some folders, and for each the number of its folder."""
    files = [file for folder in folders for file in folder.files]
    return files, np.repeat(np.arange(len(folders)), [len(folder.files) for folder in folders])


def _examples(images: Tensor, folders: Sequence[FoundFolder]) -> Examples | None:
    return Examples(images, torch.from_numpy(_flat(folders)[1])) if folders else None
