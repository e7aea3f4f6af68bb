"""A folder of images: `root/class/*.png` (or jpg, bmp, gif, webp, …), and `root/unlabelled/*` for the pool."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from refprior.data._data_set import DataSet, held_out
from refprior.data._error import DataError

UNLABELLED = "unlabelled"


def image_folder(
    root: str | Path, *, test: int | None = None, size: tuple[int, int] | None = None, colour: bool | None = None
) -> DataSet:
    """A data set from a folder with one subfolder per class, and `unlabelled/` for images without labels.

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
    classes, files = _labelled_files(Path(root))
    flat = [file for members in files for file in members]
    free = _files(Path(root) / UNLABELLED) if (Path(root) / UNLABELLED).is_dir() else []
    images = read_images([*flat, *free], size, colour)
    truth = np.repeat(np.arange(len(classes)), [len(members) for members in files])
    fifth = max(1, min(len(members) for members in files) // 5)
    count = fifth * len(classes) if test is None else test
    data = held_out(Path(root).name, classes, (images[: len(flat)].numpy(), truth), count)
    return replace(data, unlabelled=images[len(flat) :]) if free else data


def read_images(files: Sequence[Path], size: tuple[int, int] | None = None, colour: bool | None = None) -> Tensor:
    """Images of one size and one number of channels: (n, 1 or 3, height, width) uint8."""
    pictures = [_open(file, colour) for file in files]
    if not pictures:
        raise DataError("no image files to read")
    first = pictures[0]
    for file, picture in zip(files, pictures, strict=True):
        if picture.mode != first.mode:
            kinds = {"L": "grey", "RGB": "colour"}
            raise DataError(
                f"{file} is {kinds[picture.mode]}, {files[0]} {kinds[first.mode]}; choose colour=True or colour=False"
            )
    height, width = size or (first.height, first.width)
    return torch.stack([_pixels(picture, height, width) for picture in pictures])


def _labelled_files(root: Path) -> tuple[list[str], list[list[Path]]]:
    if not root.is_dir():
        raise DataError(f"{root} is not a folder")
    folders = sorted(f for f in root.iterdir() if f.is_dir() and f.name != UNLABELLED and not f.name.startswith("."))
    if not folders:
        raise DataError(f"{root} has no folders of classes")
    files = [_files(folder) for folder in folders]
    for folder, members in zip(folders, files, strict=True):
        if not members:
            raise DataError(f"class folder {folder} is empty")
    return [folder.name for folder in folders], files


def _files(folder: Path) -> list[Path]:
    return sorted(f for f in folder.iterdir() if f.is_file() and not f.name.startswith("."))


def _open(file: Path, colour: bool | None) -> Image.Image:
    """A grey (L) or colour (RGB) picture."""
    try:
        with Image.open(file) as picture:
            shallow = _eight_bits(picture)
            grey = shallow.mode in ("1", "L", "LA") if colour is None else not colour
            return shallow.convert("L" if grey else "RGB")
    except Exception as error:  # Pillow's decoders raise OSError, SyntaxError, ValueError, struct.error and more
        raise DataError(f"{file}: not a readable image ({error})") from error


def _eight_bits(picture: Image.Image) -> Image.Image:
    """Grey levels of 16 bits scaled to 8, which Pillow would clip; what has no fixed scale is refused."""
    if picture.mode in ("I", "F"):
        raise DataError(f"pixels of mode {picture.mode} have no scale of grey: save it with 8 or 16 bits per pixel")
    if not picture.mode.startswith("I;16"):
        return picture
    levels = np.array(picture).astype(np.uint32)
    return Image.fromarray(((levels + 128) // 257).astype(np.uint8))  # 65535 = 257 · 255, rounded to the nearest


def _pixels(picture: Image.Image, height: int, width: int) -> Tensor:
    if (picture.height, picture.width) != (height, width):
        picture = picture.resize((width, height), Image.Resampling.BILINEAR)
    pixels = np.array(picture).reshape(height, width, -1)
    return torch.from_numpy(pixels.transpose(2, 0, 1).copy())
