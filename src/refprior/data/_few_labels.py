"""Tasks of a recipe: a data set with most of its labels hidden, a pair to transfer between, and a task with answers."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from os import PathLike, fspath
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

from refprior._checks import number, one_of, whole_number
from refprior._kinds import Kind
from refprior._words import counted
from refprior.data._backbone import as_backbone
from refprior.data._data_set import (
    DataSet,
    check_members,
    check_multiple,
    inputs_of_other_classes,
    long_tail,
    per_class,
    subset,
    with_label_noise,
    without,
)
from refprior.data._read import drawn_to_test, labeled_folder, read
from refprior.data._task import Examples, Task, check_labels
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
    """A data set with most of its labels hidden: which inputs a run may learn from.

    Calling it reads the data and returns the `Task`. All counts are totals with equally many per class: ``labels=50``
    of ten classes are 5 labels per class.

    Parameters
    ----------
    data : str or DataSet, default: "digits"
        A name such as "mnist", the path of a file or image folder, or a data set in memory.
    labels : int or None, default: 50
        Number of labeled inputs. None: all, 0: none.
    seed : int, default: 0
        Chooses the inputs of every part; the same seed gives the same parts on every machine.
    validation : int, default: 0
        Number of inputs held out to choose settings.
    classes : tuple of int or str, optional
        Some classes by number, renumbered in this order; or the name of a superclass. Defaults to all classes.
    labeled_in_pool : bool, default: False
        Whether the labeled inputs are in the unlabeled pool too, as in FixMatch. They are not in the paper.
    imbalance : float, default: 1.0
        How many times more often the first class is in the pool than the last; geometric in between.
    out_of_distribution : int, default: 0
        Number of out-of-distribution inputs in the pool, drawn from the other classes.
    label_noise : float, default: 0.0
        Share of wrong labels, each another class drawn at random.
    shrink : int, default: 1
        Squares of this many pixels on a side become one pixel.
    folder : str, optional
        Folder of the files of a named data set. Defaults to where ``refprior data get`` puts them.
    test : int, optional
        Of your data, the number of inputs held out for testing; 0: none. Defaults to what `read` does.
    size : int or (int, int), optional
        Height and width, or one side, to which the images of a folder are resized. Defaults to the first image's.
    target : str, optional
        The column of labels in a table or in ``labels_file``. Defaults to "label".
    color : bool, optional
        Convert the images of a folder to color (True) or gray (False). Defaults to leaving them as they are.
    text : str or tuple of str, optional
        The columns of a table that hold texts to classify; all other columns are left out then.
    features : str, optional
        Pretrained network whose features replace the images of a folder or ``.npz`` file, such as
        "efficientnet-lite0", or the encoder of ``text``. See `read`.
    skip_damaged : bool, default: False
        Leave out images of a folder that cannot be read, with a warning that names them.
    labels_file : str, optional
        Table of the labels of the images of a folder. See `read`.
    groups : str, optional
        Column of a table with the group of each row, such as a hospital. It is no input: the rules that fit the labels
        are compared in the groups of the test rows.

    Raises
    ------
    ValueError
        If a setting is out of its range, or a count is not a multiple of the number of classes.

    Examples
    --------
    >>> import refprior as rp
    >>> task = rp.data.FewLabels("digits", labels=50, validation=300)()
    >>> len(task.labeled), len(task.unlabeled), len(task.validation), len(task.test)
    (50, 847, 300, 600)
    """

    data: str | DataSet = "digits"
    labels: int | None = 50
    seed: int = 0
    validation: int = 0
    classes: tuple[int, ...] | str | None = None
    labeled_in_pool: bool = False
    imbalance: float = 1.0
    out_of_distribution: int = 0
    label_noise: float = 0.0
    shrink: int = 1
    folder: str | None = None
    test: int | None = None
    size: int | tuple[int, ...] | None = None
    target: str | None = None
    color: bool | None = None
    text: tuple[str, ...] | str = ()
    features: str | None = None
    skip_damaged: bool = False
    labels_file: str | None = None
    groups: str | None = None

    def __post_init__(self) -> None:
        for name in ("data", "folder", "labels_file"):
            if isinstance(getattr(self, name), PathLike):
                object.__setattr__(self, name, fspath(getattr(self, name)))
        for name in ("labels", "validation", "out_of_distribution", "test"):
            if getattr(self, name) is not None:
                whole_number(name, getattr(self, name), at_least=0)
        if self.size is not None:
            object.__setattr__(self, "size", _two_sides(self.size))
        if self.color is not None:
            one_of("color", self.color, (True, False))
        object.__setattr__(self, "text", (self.text,) if isinstance(self.text, str) else tuple(self.text))
        whole_number("shrink", self.shrink, at_least=1)
        whole_number("seed", self.seed, at_least=0)
        number("imbalance", self.imbalance, at_least=1)
        number("label_noise", self.label_noise, at_least=0, at_most=1)
        if self.classes is not None and not isinstance(self.classes, str):
            if not isinstance(self.classes, Iterable) or not tuple(self.classes):
                raise ValueError(f"classes must be numbers of classes, or a superclass, got {self.classes!r}")
            object.__setattr__(self, "classes", tuple(self.classes))
        for name in ("labels", "validation"):
            if getattr(self, name) and (known := self.class_count):
                check_multiple(name, getattr(self, name), known)

    def __call__(self) -> Task:
        """Read the data and divide them."""
        data = self.read()
        members = self._members(len(data.classes), data.groups, data.name)
        extra = [data.unlabeled] if data.unlabeled is not None else []
        if self.out_of_distribution:
            extra.append(inputs_of_other_classes(data, members, self.out_of_distribution, self.seed))
        if members != tuple(range(len(data.classes))):
            data = subset(data, members, f"{data.name}-{self.classes}" if isinstance(self.classes, str) else None)
        if self.validation and data.validation is not None:
            given = self.validation
            raise ValueError(f"{data.name} already has a validation part: leave validation out, got {given}")
        # Seeds: seed for the labels, + 1 for validation, + 2 for the imbalance, + 3 for label noise and other classes.
        truth = data.train.labels.numpy()
        held = per_class(truth, self.validation, self.seed + 1, "validation")
        train = without(len(truth), held)
        labeled = train if self.labels is None else train[per_class(truth[train], self.labels, self.seed, "labels")]
        pool = train if self.labeled_in_pool else without(len(truth), held, labeled)
        if self.imbalance != 1 and len(pool):
            pool = pool[long_tail(truth[pool], self.imbalance, self.seed + 2)]
        known, unlabeled = data.train[torch.from_numpy(labeled)], data.train.inputs[torch.from_numpy(pool)]
        if self.label_noise:
            wrong = with_label_noise(known.labels.numpy(), self.label_noise, len(data.classes), self.seed + 3)
            known = Examples(known.inputs, torch.from_numpy(wrong))
        for inputs in extra:
            if inputs.shape[1:] != unlabeled.shape[1:] or inputs.dtype != unlabeled.dtype:
                raise ValueError(
                    f"inputs for the pool are {tuple(inputs.shape[1:])} {inputs.dtype}, "
                    f"the others {tuple(unlabeled.shape[1:])} {unlabeled.dtype}"
                )
        validation = data.train[torch.from_numpy(held)] if self.validation else data.validation
        named = data.names and not self.out_of_distribution
        return Task(
            name=data.name,
            classes=data.classes,
            labeled=_shrunk(known, self.shrink),
            unlabeled=_pooled(torch.cat([unlabeled, *extra]), self.shrink),
            test=None if data.test is None else _shrunk(data.test, self.shrink),
            validation=None if validation is None else _shrunk(validation, self.shrink),
            kind=data.kind,
            features=data.features,
            integer_labels=data.integer_labels,
            preparation=data.preparation,
            names=(*(data.names[i] for i in pool), *data.names[len(data.train) :]) if named else (),
            labeled_names=tuple(data.names[i] for i in labeled) if named else (),
            test_groups=data.test_groups,
        )

    @property
    def sides(self) -> tuple[int, int] | None:
        """Height and width to which images are resized, or None."""
        return None if self.size is None else _two_sides(self.size)

    def read(self) -> DataSet:
        """Read the data set with all its labels.

        Returns
        -------
        DataSet
            The data before any label is hidden.
        """
        if isinstance(self.data, str):
            return read(
                self.data,
                self.folder,
                test=self.test,
                size=self.sides,
                color=self.color,
                target=self.target,
                text=tuple(self.text),
                features=self.features,
                skip_damaged=self.skip_damaged,
                labels_file=self.labels_file,
                groups=self.groups,
            )
        for name in ("test", "size", "color", "target", "text", "features", "labels_file", "groups"):
            if getattr(self, name) not in (None, ()):
                raise ValueError(
                    f"{name} applies to files and folders, and {self.data.name!r} is in memory: leave it out"
                )
        return self.data

    def outline(self) -> Outline:
        """Find the shape and the sizes of the task without decoding the images of a folder.

        Returns
        -------
        Outline
            Number of classes, shape and kind of the inputs, numbers of labeled and unlabeled inputs, and whether there
            is a test or validation part.
        """
        if is_folder(self.data):
            if self.labels_file is None:
                found = survey(str(self.data))
            else:
                found = labeled_folder(str(self.data), self.labels_file, self.target or "label")
            counts = [len(folder.files) for folder in found.part("train")]
            first = look(found.part("train")[0].files[0], self.color)
            drawn = drawn_to_test(found, self.test)
            members = self._members(len(counts), {}, found.root.name)
            counts = [count - drawn // len(counts) for count in counts]
            shape: tuple[int, ...] = (1 if first.gray else 3, *(self.sides or (first.height, first.width)))
            if self.features is not None:
                shape = (as_backbone(self.features, self.sides).width,)
            pool = sum(len(folder.files) for folder in found.part("unlabeled"))
            measured = bool(drawn or found.part("test") or found.part("validation"))
            kind: Kind | None = None if self.features is None else "vectors"
        else:
            data = self.read()
            counts = torch.bincount(data.train.labels, minlength=len(data.classes)).tolist()
            members = self._members(len(counts), data.groups, data.name)
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

    @property
    def class_count(self) -> int | None:
        """Number of classes, if it is known without reading the data."""
        if isinstance(self.classes, tuple):
            return len(self.classes)
        return KNOWN[self.data].classes if self.data in KNOWN and self.classes is None else None

    def _members(self, count: int, groups: Mapping[str, tuple[int, ...]], name: str) -> tuple[int, ...]:
        """Return the chosen ones of `count` classes."""
        if self.classes is None:
            return tuple(range(count))
        if not isinstance(self.classes, str):
            check_members(self.classes, count)
            return self.classes
        if self.classes not in groups:
            known = ", ".join(groups) or "none"
            raise ValueError(f"{name} has no superclass {self.classes!r}; there are: {known}")
        return groups[self.classes]


@dataclass(frozen=True)
class Pair:
    """A transfer task: a target, and the labeled inputs of a source.

    Calling it reads both and returns the `Task`.

    Parameters
    ----------
    source : FewLabels
        The data whose labels are transferred.
    target : FewLabels
        The data to classify.

    See Also
    --------
    Task.with_source : The same for tasks in memory.

    Examples
    --------
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
        """Read both and join them."""
        return self.target().with_source(self.source())


def _two_sides(size: int | tuple[int, ...]) -> tuple[int, int]:
    """Return (height, width) of one side or two."""
    sides = tuple(size) if isinstance(size, Iterable) else (size, size)
    if len(sides) != 2:
        raise ValueError(f"size must be one side or (height, width), got {size!r}")
    height, width = (whole_number("size", side, at_least=1) for side in sides)
    return height, width


def _shrunk(part: Examples, side: int) -> Examples:
    return Examples(_pooled(part.inputs, side), part.labels)


def _pooled(images: Tensor, side: int) -> Tensor:
    """Return the mean of every square of pixels: (n, c, h, w) -> (n, c, h / side, w / side)."""
    if side == 1:
        return images
    if images.shape[-1] % side or images.shape[-2] % side:
        raise ValueError(f"shrink must divide images of {images.shape[-2]}×{images.shape[-1]} pixels, got {side}")
    small = avg_pool2d(images.float(), side)
    return small if images.is_floating_point() else small.round().to(images.dtype)


@dataclass(frozen=True)
class Answered:
    """Another task, some of whose unlabeled inputs have been labeled since, or labels checked.

    Calling it reads the task, corrects the checked labels and moves the answered inputs to the labeled part.

    Parameters
    ----------
    task : Task or callable
        The task, or what reads it, such as `FewLabels`.
    asked : tuple of int
        Indices in its unlabeled pool.
    answers : tuple of int
        The class of each of them.
    checked : tuple of (int, int)
        Positions in its labeled part, and the right class of each of them.

    Raises
    ------
    ValueError
        If there is not one answer for each index, or two for a label.

    Examples
    --------
    >>> import refprior as rp
    >>> few = rp.data.FewLabels("digits", labels=50)
    >>> before, now = few(), rp.data.Answered(few, asked=(7, 3), answers=(1, 0))()
    >>> len(now.labeled) - len(before.labeled), len(before.unlabeled) - len(now.unlabeled)
    (2, 2)
    """

    task: Callable[[], Task] | Task
    asked: tuple[int, ...]
    answers: tuple[int, ...]
    checked: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        for name in ("asked", "answers"):
            object.__setattr__(self, name, tuple(int(number) for number in getattr(self, name)))
        object.__setattr__(self, "checked", tuple((int(place), int(label)) for place, label in self.checked))
        if len(dict(self.checked)) < len(self.checked):
            raise ValueError("a label was checked twice")
        if len(self.asked) != len(self.answers) or len(set(self.asked)) < len(self.asked):
            inputs = counted(len(set(self.asked)), "different input")
            raise ValueError(
                f"expected one answer for each input, got {counted(len(self.answers), 'answer')} for {inputs}"
            )

    def __call__(self) -> Task:
        """Read the task and move the answered inputs."""
        task = self.task if isinstance(self.task, Task) else self.task()
        pool, labels = task.unlabeled, torch.tensor(self.answers, dtype=torch.int64)
        wrong = [index for index in self.asked if not 0 <= index < len(pool)]
        if wrong:
            raise ValueError(
                f"input {wrong[0]} is not in the pool of {len(pool)}: these answers belong to another task"
            )
        check_labels("answered", labels, len(task.classes))
        known = _corrected(task.labeled, self.checked, len(task.classes))
        names = (*task.labeled_names, *(task.names[i] for i in self.asked if task.names))
        moved, rest = torch.tensor(self.asked, dtype=torch.int64), without(len(pool), np.array(self.asked, int))
        return replace(
            task,
            labeled=Examples(torch.cat([known.inputs, pool[moved]]), torch.cat([known.labels, labels])),
            unlabeled=pool[torch.from_numpy(rest)],
            names=tuple(task.names[i] for i in rest) if task.names else (),
            labeled_names=names if len(names) == len(known) + len(labels) else (),
        )


def _corrected(labeled: Examples, checked: tuple[tuple[int, int], ...], classes: int) -> Examples:
    """Set checked labels to their right classes."""
    places, labels = torch.tensor(checked, dtype=torch.int64).reshape(-1, 2).unbind(1)
    wrong = [place for place in places.tolist() if not 0 <= place < len(labeled)]
    if wrong:
        raise ValueError(f"label {wrong[0]} is not among {len(labeled)}: these checks belong to another task")
    check_labels("checked", labels, classes)
    return Examples(labeled.inputs, labeled.labels.index_copy(0, places, labels))
