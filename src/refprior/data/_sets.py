"""The data sets by name. A new one is a function that returns a `DataSet`, and a line in `DATA_SETS`."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from refprior._kinds import Kind
from refprior.data._arrays import channels_first, check_column, class_names, read_npz, split_parts
from refprior.data._cifar import read_cifar10, read_cifar100, superclass_members
from refprior.data._data_set import DataSet, data_set, held_out
from refprior.data._error import DataError, naming
from refprior.data._folder import image_folder
from refprior.data._idx import read_idx
from refprior.data._location import places
from refprior.data._npz import load_arrays
from refprior.data._rows import read_rows
from refprior.data._tables import SUFFIXES
from refprior.data._task import check_labels

DIGITS_TEST = 600
FASHION_CLASSES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip
FIVE_SUPERCLASSES = ("vehicles_1", "vehicles_2", "fish", "people", "aquatic_mammals")  # appendix, Setup
SUPERCLASSES = (
    "aquatic_mammals", "fish", "flowers", "food_containers", "fruit_and_vegetables", "household_electrical_devices",
    "household_furniture", "insects", "large_carnivores", "large_man-made_outdoor_things",
    "large_natural_outdoor_scenes", "large_omnivores_and_herbivores", "medium_mammals", "non-insect_invertebrates",
    "people", "reptiles", "small_mammals", "trees", "vehicles_1", "vehicles_2",
)  # fmt: skip


class Known(NamedTuple):
    """What is known of a data set before it is read."""

    classes: int | None
    shape: tuple[int, int, int]
    kind: Kind


KNOWN = {
    "digits": Known(10, (1, 8, 8), "digits"),
    "mnist": Known(10, (1, 28, 28), "digits"),
    "fashion-mnist": Known(10, (1, 28, 28), "objects"),
    "cifar10": Known(10, (3, 32, 32), "photos"),
    "cifar100": Known(None, (3, 32, 32), "photos"),  # five of its twenty superclasses may be all that is there
}
_FIVE_FILE = "cifar100_5super.npz"  # the five superclasses alone, as arrays
_DEBIAN = Path("/usr/share/datasets/fashion-mnist")  # of Debian's package dataset-fashion-mnist


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
    if target is not None and suffix not in SUFFIXES:
        raise ValueError(f"target is the column of labels in a {' or '.join(SUFFIXES)} file, and {data} is none")
    if data in DATA_SETS:
        if test:
            raise ValueError(f"{data} has a test part of its own: leave test out, got test={test}")
        _refuse_pictures(data, size, color)
        return DATA_SETS[data](folder)
    if Path(data).is_dir():
        return image_folder(data, test=test, size=size, color=color)
    if suffix not in (".npz", *SUFFIXES):
        raise ValueError(
            f"no data set {data!r}: give {', '.join(DATA_SETS)}, a .npz, .csv or .parquet file or a folder of images"
        )
    _refuse_pictures(data, size, color)
    return read_npz(data, test) if suffix == ".npz" else read_rows(data, test, target=target or "label")


def _refuse_pictures(data: str, size: tuple[int, int] | None, color: bool | None) -> None:
    if size is not None or color is not None:
        raise ValueError(f"size and color are for folders of images, and {data} is none")


def read_digits(folder: str | Path | None = None) -> DataSet:
    """Scikit-learn's digits: 1,797 gray images of 8×8 inside the library, 60 per class to test."""
    return held_out("digits", [str(d) for d in range(10)], _digits(), DIGITS_TEST, kind="digits")


@cache
def _digits() -> tuple[np.ndarray, np.ndarray]:
    """Images and labels, to be copied; the file is a text, which takes longer to read than a small run to begin."""
    from sklearn.datasets import load_digits

    data = load_digits()
    return np.round(data.images * (255 / 16)).astype(np.uint8)[:, None], data.target


def read_mnist(folder: str | Path | None = None) -> DataSet:
    """MNIST from its four idx files."""
    return _idx_data_set("mnist", [str(d) for d in range(10)], places("mnist", folder))


def read_fashion_mnist(folder: str | Path | None = None) -> DataSet:
    """Fashion-MNIST from its four idx files."""
    return _idx_data_set("fashion-mnist", FASHION_CLASSES, [*places("fashion-mnist", folder), _DEBIAN])


def read_superclasses(folder: str | Path | None = None) -> DataSet:
    """CIFAR-100, or the part of it that is present; its groups are the superclasses.

    From the official files, or from a file of the five superclasses of the paper (cifar100_5super.npz); `folder` may
    be that file.
    """
    for place in places("cifar100", folder):
        file = place if place.suffix == ".npz" else place / _FIVE_FILE
        if file.is_file():
            return _read_five(file)
    return read_cifar100(folder)


def _read_five(path: Path) -> DataSet:
    arrays = load_arrays(path, ("images", "fine", "coarse", "split", "fine_names", "coarse_names"))
    with naming(path):
        images = channels_first(arrays["images"])
        for key in ("fine", "coarse", "split"):
            check_column(arrays[key], key, len(images))
        names = {key: class_names(arrays[f"{key}_names"]) for key in ("fine", "coarse")}
        for key in names:
            check_labels(key, torch.from_numpy(arrays[key].astype(np.int64)), len(names[key]))
        train, test = split_parts(arrays["split"])
        present, fine = np.unique(arrays["fine"], return_inverse=True)
        data = data_set(
            "cifar100",
            [names["fine"][i] for i in present],
            (images[train], fine[train]),
            (images[test], fine[test]),
            kind="photos",
        )
        return replace(data, groups=superclass_members(fine, arrays["coarse"], names["coarse"]))


def _idx_data_set(name: str, classes: Sequence[str], folders: Sequence[Path]) -> DataSet:
    parts = []
    for part in ("train", "t10k"):
        images_file = _idx_file(name, f"{part}-images-idx3-ubyte", folders)
        labels_file = _idx_file(name, f"{part}-labels-idx1-ubyte", folders)
        images, labels = read_idx(images_file), read_idx(labels_file)
        if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):
            raise DataError(f"{images_file} holds {images.shape}, {labels_file} {labels.shape}: not images and labels")
        if labels.size and labels.max() >= len(classes):
            index = int(labels.argmax())
            raise DataError(f"{labels_file}: label {labels[index]} of image {index} is outside 0 … {len(classes) - 1}")
        parts.append((images[:, None], labels))
    with naming(images_file.parent):
        return data_set(name, classes, *parts, kind=KNOWN[name].kind)


def _idx_file(name: str, stem: str, folders: Sequence[Path]) -> Path:
    for folder in folders:
        for file in (stem, f"{stem}.gz", stem.replace("-idx", ".idx")):
            if (folder / file).is_file():
                return folder / file
    looked = " or ".join(str(folder) for folder in folders)
    raise FileNotFoundError(f"no {stem} in {looked}; get it with: refprior data get {name}")


DATA_SETS: dict[str, Callable[[str | Path | None], DataSet]] = {
    "digits": read_digits,
    "mnist": read_mnist,
    "fashion-mnist": read_fashion_mnist,
    "cifar10": read_cifar10,
    "cifar100": read_superclasses,
}
