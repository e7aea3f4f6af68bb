"""The tasks of a recipe: a data set that hides most of its labels, and a pair of them to transfer between."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from os import PathLike, fspath
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

from refprior._checks import number, one_of, whole_number
from refprior._kinds import Kind
from refprior.data._data_set import DataSet, check_members, foreign_inputs, subset
from refprior.data._read import drawn_to_test, read
from refprior.data._split import check_multiple, long_tail, mistaken, per_class, without
from refprior.data._task import Examples, Task
from refprior.data._transfer import transfer_task
from refprior.data.files import look, survey
from refprior.data.sources import KNOWN, is_folder


class Outline(NamedTuple):
    """What a network, its views and its batches have to fit."""

    classes: int
    shape: tuple[int, ...]  # of one input
    kind: Kind | None
    labeled: int
    pool: int
    measured: bool  # whether there is a test or validation part


@dataclass(frozen=True)
class FewLabels:
    """A data set with few labels: the recipe's way to say which images a run may learn from.

    All counts are in all, equally many per class: `labels=50` of ten classes are 5 labels per class. Calling it reads
    the data and gives the `Task`.

    >>> import refprior as rp
    >>> task = rp.data.FewLabels("digits", labels=50, validation=300)()
    >>> len(task.labeled), len(task.unlabeled), len(task.validation), len(task.test)
    (50, 847, 300, 600)
    """

    data: str | DataSet = "digits"  # a name such as "mnist", the path of a file or image folder, or a data set
    labels: int | None = 50  # labeled images; None: all, 0: none
    seed: int = 0  # chooses the images of every part
    validation: int = 0  # images kept apart to choose settings by
    classes: tuple[int, ...] | str | None = None  # some classes by number, or a superclass; None: all
    labeled_in_pool: bool = False  # labeled images are in the unlabeled pool too, as in FixMatch; not in the paper
    imbalance: float = 1.0  # how many times more often the first class is in the pool than the last
    foreign: int = 0  # images of the other classes that are mixed into the pool
    mistakes: float = 0.0  # share of the labels that are wrong, to see what mistakes cost
    shrink: int = 1  # squares of this many pixels on a side become one pixel
    folder: str | None = None  # where the files are; None: where `refprior data get` puts them
    test: int | None = None  # of your own data, inputs kept apart to test with; 0: none, None: what `read` does
    size: int | tuple[int, ...] | None = None  # of a folder's images, (height, width) or one side; None: as the first
    target: str | None = None  # of a table, the column of labels; None: "label"
    color: bool | None = None  # turn a folder's images to color or to gray; None: as they are

    def __post_init__(self) -> None:
        for name in ("data", "folder"):
            if isinstance(getattr(self, name), PathLike):
                object.__setattr__(self, name, fspath(getattr(self, name)))
        for name in ("labels", "validation", "foreign", "test"):
            if getattr(self, name) is not None:
                whole_number(name, getattr(self, name), at_least=0)
        if self.size is not None:
            object.__setattr__(self, "size", _two_sides(self.size))
        if self.color is not None:
            one_of("color", self.color, (True, False))
        whole_number("shrink", self.shrink, at_least=1)
        whole_number("seed", self.seed, at_least=0)
        number("imbalance", self.imbalance, at_least=1)
        number("mistakes", self.mistakes, at_least=0, at_most=1)
        if self.classes is not None and not isinstance(self.classes, str):
            if not isinstance(self.classes, Iterable) or not tuple(self.classes):
                raise ValueError(f"classes must be numbers of classes, or a superclass, got {self.classes!r}")
            object.__setattr__(self, "classes", tuple(self.classes))
        for name in ("labels", "validation"):
            if getattr(self, name) and (known := self.class_count()):
                check_multiple(name, getattr(self, name), known)

    def __call__(self) -> Task:
        """Read the data, and divide them."""
        data = self.read()
        members = self.members(len(data.classes), data.groups, data.name)
        pool = [data.unlabeled] if data.unlabeled is not None else []
        if self.foreign:
            pool.append(foreign_inputs(data, members, self.foreign, self.seed))
        if members != tuple(range(len(data.classes))):
            data = subset(data, members, f"{data.name}-{self.classes}" if isinstance(self.classes, str) else None)
        return self._divided(data, pool)

    @property
    def sides(self) -> tuple[int, int] | None:
        """The height and width that images are resized to."""
        return None if self.size is None else _two_sides(self.size)

    def read(self) -> DataSet:
        """The data set with all its labels."""
        if isinstance(self.data, str):
            return read(self.data, self.folder, test=self.test, size=self.sides, color=self.color, target=self.target)
        for name in ("test", "size", "color", "target"):
            if getattr(self, name) is not None:
                raise ValueError(f"{name} is for data that are read, and {self.data.name!r} is in memory: leave it out")
        return self.data

    def outline(self) -> Outline:
        """Return the shape and the sizes of the task, without decoding the images of a folder."""
        if is_folder(self.data):
            found = survey(str(self.data))
            counts = [len(folder.files) for folder in found.part("train")]
            first = look(found.part("train")[0].files[0], self.color)
            drawn = drawn_to_test(found, self.test)
            members = self.members(len(counts), {}, found.root.name)
            counts = [count - drawn // len(counts) for count in counts]
            shape: tuple[int, ...] = (1 if first.gray else 3, *(self.sides or (first.height, first.width)))
            pool = sum(len(folder.files) for folder in found.part("unlabeled"))
            measured, kind = bool(drawn or found.part("test") or found.part("validation")), None
        else:
            data = self.read()
            counts = torch.bincount(data.train.labels, minlength=len(data.classes)).tolist()
            members = self.members(len(counts), data.groups, data.name)
            shape = tuple(data.train.inputs.shape[1:])
            pool = len(data.unlabeled) if data.unlabeled is not None else 0
            measured, kind = data.test is not None or data.validation is not None, data.kind
        known = sum(counts[member] for member in members) - self.validation
        labeled = known if self.labels is None else self.labels
        return Outline(
            classes=len(members),
            shape=(shape[0], *(side // self.shrink for side in shape[1:])),
            kind=kind,
            labeled=labeled,
            pool=pool + (known if self.labeled_in_pool else known - labeled),
            measured=measured or self.validation > 0,
        )

    def class_count(self) -> int | None:
        """Where it is known without reading the data."""
        if isinstance(self.classes, tuple):
            return len(self.classes)
        return KNOWN[self.data].classes if self.data in KNOWN and self.classes is None else None

    def members(self, count: int, groups: Mapping[str, tuple[int, ...]], name: str) -> tuple[int, ...]:
        """The chosen ones of `count` classes."""
        if self.classes is None:
            return tuple(range(count))
        if not isinstance(self.classes, str):
            check_members(self.classes, count)
            return self.classes
        if self.classes not in groups:
            known = ", ".join(groups) or "none"
            raise ValueError(f"{name} has no superclass {self.classes!r}; there are: {known}")
        return groups[self.classes]

    def _divided(self, data: DataSet, extra: list[Tensor]) -> Task:
        labeled, kept, pool = self._indices(data.train.labels.numpy())
        parts = [data.train.inputs[torch.from_numpy(pool)], *extra]
        for images in extra:
            _check_alike(images, parts[0])
        named = data.names and not self.foreign
        if self.validation and data.validation is not None:
            given = self.validation
            raise ValueError(f"{data.name} has a validation part of its own: leave validation out, got {given}")
        validation = data.train[torch.from_numpy(kept)] if self.validation else data.validation
        return Task(
            name=data.name,
            classes=data.classes,
            labeled=self._mistaken(self._shrunk(data.train[torch.from_numpy(labeled)]), len(data.classes)),
            unlabeled=_pooled(torch.cat(parts), self.shrink),
            test=self._shrunk(data.test) if data.test is not None else None,
            validation=self._shrunk(validation) if validation is not None else None,
            kind=data.kind,
            features=data.features,
            names=(*(data.names[i] for i in pool), *data.names[len(data.train) :]) if named else (),
        )

    def _indices(self, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of the labeled, kept and unlabeled images."""
        kept = per_class(truth, self.validation, self.seed + 1, "validation")
        train = without(len(truth), kept)
        labeled = train if self.labels is None else train[per_class(truth[train], self.labels, self.seed, "labels")]
        pool = train if self.labeled_in_pool else without(len(truth), kept, labeled)
        if self.imbalance != 1 and len(pool):
            pool = pool[long_tail(truth[pool], self.imbalance, self.seed + 2)]
        return labeled, kept, pool

    def _shrunk(self, part: Examples) -> Examples:
        return Examples(_pooled(part.inputs, self.shrink), part.labels)

    def _mistaken(self, part: Examples, classes: int) -> Examples:
        if not self.mistakes:
            return part
        wrong = mistaken(part.labels.numpy(), self.mistakes, classes, self.seed + 3)
        return Examples(part.inputs, torch.from_numpy(wrong))


@dataclass(frozen=True)
class Pair:
    """Two tasks to transfer between: the target, and the labeled images of the source.

    >>> import refprior as rp
    >>> low = rp.data.FewLabels("digits", labels=None, classes=(0, 1, 2, 3, 4))
    >>> high = rp.data.FewLabels("digits", labels=0, classes=(5, 6, 7, 8, 9))
    >>> task = rp.data.Pair(source=low, target=high)()
    >>> len(task.source), len(task.labeled), task.classes
    (601, 0, ('5', '6', '7', '8', '9'))
    """

    source: FewLabels
    target: FewLabels

    def __call__(self) -> Task:
        """Read both, and join them."""
        return transfer_task(self.source(), self.target())


def _two_sides(size: int | tuple[int, ...]) -> tuple[int, int]:
    """(height, width), of one side or of two."""
    sides = tuple(size) if isinstance(size, Iterable) else (size, size)
    if len(sides) != 2:
        raise ValueError(f"size must be one side or (height, width), got {size!r}")
    height, width = (whole_number("size", side, at_least=1) for side in sides)
    return height, width


def _pooled(images: Tensor, side: int) -> Tensor:
    """The mean of every square of pixels: (n, c, h, w) -> (n, c, h / side, w / side)."""
    if side == 1:
        return images
    if images.shape[-1] % side or images.shape[-2] % side:
        raise ValueError(f"shrink must divide images of {images.shape[-2]}×{images.shape[-1]} pixels, got {side}")
    small = avg_pool2d(images.float(), side)
    return small if images.is_floating_point() else small.round().to(images.dtype)


def _check_alike(images: Tensor, others: Tensor) -> None:
    if images.shape[1:] != others.shape[1:] or images.dtype != others.dtype:
        raise ValueError(
            f"inputs for the pool are {tuple(images.shape[1:])} {images.dtype}, "
            f"the others {tuple(others.shape[1:])} {others.dtype}"
        )
