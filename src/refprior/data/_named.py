"""The tasks of the paper by name. `labels` (None: all) and `validation` count images a class, `seed` chooses them."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from refprior.data._arrays import channels_first, load_arrays
from refprior.data._cifar import read_cifar10, read_cifar100, superclass_members
from refprior.data._dataset import DataSet, data_set, few_labels, only, strangers
from refprior.data._digits import digits
from refprior.data._error import DataError
from refprior.data._idx import read_idx
from refprior.data._location import places
from refprior.data._task import Task

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
_FIVE_FILE = "cifar100_5super.npz"  # the five superclasses alone, as arrays
_DEBIAN = Path("/usr/share/datasets/fashion-mnist")  # of Debian's package dataset-fashion-mnist

Superclasses = dict[str, tuple[int, ...]]


def mnist(
    labels: int | None = 10,
    seed: int = 0,
    validation: int = 100,
    labelled_in_pool: bool = False,
    classes: Sequence[int] = range(10),
    imbalance: float = 1.0,
    outside: int = 0,
    folder: str | Path | None = None,
) -> Task:
    """MNIST, or some of its digits: `classes=(3, 5)`. `imbalance` and `outside` (images of the other classes in the
    pool) as in `few_labels`. `folder`: where the files are, if not where `refprior data get mnist` puts them."""
    return _part(read_mnist(folder), labels, seed, validation, labelled_in_pool, classes, imbalance, outside)


def fashion_mnist(
    labels: int | None = 10,
    seed: int = 0,
    validation: int = 100,
    labelled_in_pool: bool = False,
    classes: Sequence[int] = range(10),
    imbalance: float = 1.0,
    outside: int = 0,
    folder: str | Path | None = None,
) -> Task:
    """Fashion-MNIST, with the arguments of `mnist`."""
    return _part(read_fashion_mnist(folder), labels, seed, validation, labelled_in_pool, classes, imbalance, outside)


def cifar10(
    labels: int | None = 25,
    seed: int = 0,
    validation: int = 100,
    labelled_in_pool: bool = False,
    classes: Sequence[int] = range(10),
    imbalance: float = 1.0,
    outside: int = 0,
    folder: str | Path | None = None,
) -> Task:
    """CIFAR-10, with the arguments of `mnist`."""
    return _part(read_cifar10(folder), labels, seed, validation, labelled_in_pool, classes, imbalance, outside)


def cifar100_superclass(
    name: str,
    labels: int | None = 20,
    seed: int = 0,
    validation: int = 50,
    labelled_in_pool: bool = False,
    imbalance: float = 1.0,
    outside: int = 0,
    folder: str | Path | None = None,
) -> Task:
    """The five classes of one CIFAR-100 superclass: 500 training and 100 test images each.

    From the official files, or from a file of the five superclasses of the paper (cifar100_5super.npz); `folder` may
    be that file.
    """
    data, members = read_superclasses(folder)
    if name not in members:
        raise ValueError(f"no superclass {name!r} here; there are {', '.join(members)}")
    title = f"cifar100-{name}"
    return _part(data, labels, seed, validation, labelled_in_pool, members[name], imbalance, outside, title)


def read_mnist(folder: str | Path | None = None) -> DataSet:
    """MNIST from its four idx files."""
    return _idx_data_set("mnist", [str(d) for d in range(10)], places("mnist", folder))


def read_fashion_mnist(folder: str | Path | None = None) -> DataSet:
    """Fashion-MNIST from its four idx files."""
    return _idx_data_set("fashion-mnist", FASHION_CLASSES, [*places("fashion-mnist", folder), _DEBIAN])


def read_superclasses(folder: str | Path | None = None) -> tuple[DataSet, Superclasses]:
    """CIFAR-100, or the part of it that is present, and the classes of each superclass."""
    for place in places("cifar100", folder):
        file = place if place.suffix == ".npz" else place / _FIVE_FILE
        if file.is_file():
            return _read_five(file)
    return read_cifar100(folder)


def _part(
    data: DataSet,
    labels: int | None,
    seed: int,
    validation: int,
    labelled_in_pool: bool,
    classes: Sequence[int],
    imbalance: float,
    outside: int,
    name: str | None = None,
) -> Task:
    extra = strangers(data, classes, outside, seed) if outside else None
    whole = list(classes) == list(range(len(data.classes)))
    chosen = data if whole else only(data, classes, name)
    return few_labels(chosen, labels, seed, validation, labelled_in_pool, imbalance, extra)


def _read_five(path: Path) -> tuple[DataSet, Superclasses]:
    arrays = load_arrays(path, "images", "fine", "coarse", "split", "fine_names", "coarse_names")
    images, train = channels_first(arrays["images"], str(path)), arrays["split"] == 0
    present, fine = np.unique(arrays["fine"], return_inverse=True)
    parts = [(images[part], fine[part]) for part in (train, ~train)]
    data = data_set("cifar100", arrays["fine_names"][present].tolist(), *parts)
    return data, superclass_members(fine, arrays["coarse"], arrays["coarse_names"].tolist())


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
    return data_set(name, classes, *parts)


def _idx_file(name: str, stem: str, folders: Sequence[Path]) -> Path:
    for folder in folders:
        for file in (stem, f"{stem}.gz", stem.replace("-idx", ".idx")):
            if (folder / file).is_file():
                return folder / file
    looked = " or ".join(str(folder) for folder in folders)
    raise FileNotFoundError(f"no {stem} in {looked}; get it with: refprior data get {name}")


TASKS: dict[str, Callable[..., Task]] = {
    "digits": digits,
    "mnist": mnist,
    "mnist-0-4": partial(mnist, classes=range(5)),
    "mnist-5-9": partial(mnist, classes=range(5, 10)),
    "mnist-3-5": partial(mnist, classes=(3, 5)),
    "fashion-mnist": fashion_mnist,
    "cifar10": cifar10,
    **{f"cifar100-{name}": partial(cifar100_superclass, name) for name in SUPERCLASSES},
}
