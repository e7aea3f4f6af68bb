"""A folder of images: `root/class/*.png` (or jpg, bmp, gif, webp, tif, ppm), and `root/unlabeled/*` for the pool."""

import logging
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from refprior._checks import whole_number
from refprior._process import check_memory
from refprior.data._data_set import DataSet, divided
from refprior.data._error import DataError
from refprior.data._pictures import look, read_into
from refprior.data._survey import FoundFolder, Survey, survey
from refprior.data._task import Examples

_COPIES = 2  # of the images: as they are read, and the parts that a task is made of
log = logging.getLogger("refprior")


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


def read_images(files: Sequence[Path], size: tuple[int, int] | None = None, color: bool | None = None) -> Tensor:
    """Images of one size and one number of channels: (n, 1 or 3, height, width) uint8."""
    if not files:
        raise DataError("no image files to read")
    first = look(files[0], color)
    height, width = (whole_number("size", side, at_least=1) for side in size or (first.height, first.width))
    shape = (len(files), 1 if first.gray else 3, height, width)
    check_memory(
        _COPIES * math.prod(shape), f"{len(files)} images like {files[0]}, {height}×{width}", "give a smaller size="
    )
    images = torch.empty(shape, dtype=torch.uint8)
    read_into(images.numpy(), files, color)
    return images


def _flat(folders: Sequence[FoundFolder]) -> tuple[list[Path], np.ndarray]:
    """All files of some folders, and for each the number of its folder."""
    files = [file for folder in folders for file in folder.files]
    return files, np.repeat(np.arange(len(folders)), [len(folder.files) for folder in folders])


def _examples(images: Tensor, folders: Sequence[FoundFolder]) -> Examples | None:
    return Examples(images, torch.from_numpy(_flat(folders)[1])) if folders else None
