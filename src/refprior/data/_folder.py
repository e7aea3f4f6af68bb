"""A folder of images: `root/class/*.png` (or jpg, bmp, gif, webp, tif, ppm), and `root/unlabelled/*` for the pool."""

import io
import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from refprior._checks import whole_number
from refprior._limits import check_memory
from refprior._words import in_short
from refprior.data._data_set import DataSet, data_set, held_out
from refprior.data._error import DataError

UNLABELLED = "unlabelled"
_TRAIN, _TEST, _VALIDATION = "train", "test", ("val", "valid", "validation")
_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")  # Pillow's others run programs, or are rare
_MOST_PIXELS = 52_000_000  # of one picture
_MANY_PIXELS, _MOST_PACKED = 4_000_000, 200  # a picture of many pixels has at most so many from each byte of its file
_LARGEST = 200_000_000  # bytes of one file
_COPIES = 3  # of the images, until the parts of a data set are made of them


def image_folder(
    root: str | Path, *, test: int | None = None, size: tuple[int, int] | None = None, colour: bool | None = None
) -> DataSet:
    """A data set from a folder with one subfolder per class, and `unlabelled/` for images without labels.

    Where the classes are inside `train/` and `test/`, these are its parts. Links to files and folders are followed.

    test: images to test with in all, equally many per class; None: of each class, a fifth of the smallest one. size:
    (height, width) to which every image is resized; None: that of the first image. colour: turn all images to colour or
    to grey; None: they must be all colour or all grey.

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
    root = Path(root)
    if _divided(root):
        if test is not None:
            raise ValueError(f"{root} has a test part of its own, test/: leave test out, got test={test}")
        parts = [_labelled_files(root / part) for part in (_TRAIN, _TEST)]
        if parts[0][0] != parts[1][0]:
            raise DataError(f"{root}: the classes of {_TRAIN}/ are {parts[0][0]}, those of {_TEST}/ {parts[1][0]}")
    else:
        parts = [_labelled_files(root)]
    classes = parts[0][0]
    flat = [file for _, files in parts for members in files for file in members]
    free = _files(root / UNLABELLED) if (root / UNLABELLED).is_dir() else []
    images = read_images([*flat, *free], size, colour)
    labels = [np.repeat(np.arange(len(classes)), [len(members) for members in files]) for _, files in parts]
    if len(parts) == 2:
        known = len(labels[0])
        data = data_set(root.name, classes, (images[:known], labels[0]), (images[known : len(flat)], labels[1]))
    else:
        fifth = max(1, int(np.bincount(labels[0]).min()) // 5)
        count = fifth * len(classes) if test is None else test
        data = held_out(root.name, classes, (images[: len(flat)].numpy(), labels[0]), count)
    return replace(data, unlabelled=images[len(flat) :]) if free else data


def read_images(files: Sequence[Path], size: tuple[int, int] | None = None, colour: bool | None = None) -> Tensor:
    """Images of one size and one number of channels: (n, 1 or 3, height, width) uint8."""
    if not files:
        raise DataError("no image files to read")
    first = _open(files[0], colour)
    height, width = (whole_number("size", side, at_least=1) for side in size or (first.height, first.width))
    shape = (len(files), len(first.getbands()), height, width)
    check_memory(
        _COPIES * math.prod(shape), f"{len(files)} images like {files[0]}, {height}×{width}", "give a smaller size="
    )
    images = torch.empty(shape, dtype=torch.uint8)
    for index, file in enumerate(files):
        picture = _open(file, colour) if index else first
        if picture.mode != first.mode:
            kinds = {"L": "grey", "RGB": "colour"}
            raise DataError(
                f"{file} is {kinds[picture.mode]}, {files[0]} {kinds[first.mode]}; choose colour=True or colour=False"
            )
        images[index] = _pixels(picture, height, width)
    return images


def decoded(content: bytes, colour: bool | None) -> Image.Image:
    """A grey (L) or colour (RGB) picture; DataError if it is damaged, or larger than a photograph."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of odd remarks beside the pixels
        try:
            with Image.open(io.BytesIO(content), formats=_FORMATS) as picture:
                _check_pixels(picture.width, picture.height, len(content))
                shallow = _eight_bits(picture)
                grey = shallow.mode in ("1", "L", "LA") if colour is None else not colour
                mode = "L" if grey else "RGB"
                shallow.load()
                return shallow if shallow.mode == mode else shallow.convert(mode)
        except UnidentifiedImageError as error:
            raise DataError(f"damaged, or none of {', '.join(_FORMATS)}") from error
        except MemoryError:
            raise
        except Exception as error:  # Pillow's decoders raise OSError, SyntaxError, ValueError, struct.error and more
            raise DataError(in_short(error)) from error


def _check_pixels(width: int, height: int, size: int) -> None:
    """Refuse a picture of more pixels than cameras have, or than belong into a file of its size."""
    pixels = width * height
    if pixels > _MOST_PIXELS:
        raise DataError(f"{width}×{height} pixels, at most {_MOST_PIXELS:,} are read")
    if pixels > max(_MANY_PIXELS, _MOST_PACKED * size):
        raise DataError(f"{width}×{height} pixels from {size:,} bytes, more than {_MOST_PACKED} from each byte")
    check_memory(8 * pixels, "decoding it")


def _open(file: Path, colour: bool | None) -> Image.Image:
    try:
        size = file.stat().st_size
        if size > _LARGEST:
            raise DataError(f"{size:,} bytes, at most {_LARGEST:,} are read")
        return decoded(file.read_bytes(), colour)
    except DataError as error:
        raise DataError(f"{file}: not a readable image ({error})") from error


def _divided(root: Path) -> bool:
    """Whether it has folders train/ and test/ with folders of classes in them, and not images of classes so named."""
    parts = [name for name in (_TRAIN, _TEST, *_VALIDATION) if _has_folders(root / name)]
    if _TRAIN not in parts:
        return False
    if parts != [_TRAIN, _TEST]:
        found = " and ".join(f"{name}/" for name in parts)
        raise DataError(
            f"{root} looks like {found}, each with its classes: train/ and test/ are read (rename a part to test/, "
            "move other images into train/; validation= of FewLabels keeps some of them apart)"
        )
    return True


def _has_folders(folder: Path) -> bool:
    return folder.is_dir() and any(inside.is_dir() for inside in _visible(folder))


def _labelled_files(root: Path) -> tuple[list[str], list[list[Path]]]:
    if not root.is_dir():
        raise DataError(f"{root} is not a folder")
    inside = [f for f in _visible(root) if f.is_dir() or _leads_nowhere(f)]
    folders = [f for f in inside if f.name != UNLABELLED]
    if not folders:
        raise DataError(f"{root} has no folders of classes")
    _check_different(inside)
    files = [_files(folder) for folder in folders]
    for folder, members in zip(folders, files, strict=True):
        if not members:
            raise DataError(f"class folder {folder} is empty")
    return [folder.name for folder in folders], files


def _leads_nowhere(path: Path) -> bool:
    return path.is_symlink() and not path.exists()


def _check_different(folders: list[Path]) -> None:
    """Refuse links by which the images of one folder would be in two classes, and those that lead nowhere."""
    first: dict[Path, Path] = {folders[0].parent.resolve(): folders[0].parent}
    for folder in folders:
        if _leads_nowhere(folder):
            raise DataError(f"{folder} is a link that leads nowhere: remove it")
        other = first.setdefault(folder.resolve(), folder)
        if other is not folder:
            raise DataError(f"class folder {folder} is a link to {other}: remove it")


def _files(folder: Path) -> list[Path]:
    """The files in a folder, and what links there lead to. Nothing goes deeper, so that links cannot go in circles."""
    found = _visible(folder)
    for file in found:
        if not file.is_file():
            what = (
                "a folder" if file.is_dir() else "a link that leads nowhere" if _leads_nowhere(file) else "not a file"
            )
            raise DataError(f"{file} is {what}; a class folder holds images only: move it away")
    return found


def _visible(folder: Path) -> list[Path]:
    found = sorted(f for f in folder.iterdir() if not f.name.startswith("."))
    for path in found:
        if not path.name.isprintable():
            raise DataError(f"{folder} holds {path.name!r}: rename it, with printable characters")
    return found


def _eight_bits(picture: Image.Image) -> Image.Image:
    """Grey levels of 16 bits scaled to 8, which Pillow would clip; what has no fixed scale is refused."""
    if picture.mode in ("I", "F"):
        raise DataError(f"pixels of mode {picture.mode} have no scale of grey: save it with 8 or 16 bits per pixel")
    if not picture.mode.startswith("I;16"):
        return picture
    levels = np.array(picture)
    shallow = np.empty(levels.shape, np.uint8)
    for row, into in zip(levels, shallow, strict=True):
        into[:] = (row.astype(np.uint32) + 128) // 257  # 65535 = 257 · 255, rounded to the nearest
    return Image.fromarray(shallow)


def _pixels(picture: Image.Image, height: int, width: int) -> Tensor:
    if (picture.height, picture.width) != (height, width):
        picture = picture.resize((width, height), Image.Resampling.BILINEAR)
    return torch.from_numpy(np.array(picture).reshape(height, width, -1).transpose(2, 0, 1))
