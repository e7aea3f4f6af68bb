"""Images from files: decoded upright and at the wanted size, several at once, within a memory budget.

The files are untrusted: only formats whose decoders start no program are opened, and no more pixels than cameras have.
"""

import io
import math
import os
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from refprior._checks import whole_number
from refprior._process import check_memory
from refprior._words import in_short
from refprior.data.files._error import DamagedError, DataError

BUDGET = 256_000_000  # bytes that pictures take together while they are decoded; a larger one is decoded alone
_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")  # Pillow's others start programs or are rare
_MOST_PIXELS = 52_000_000  # of one picture
_MANY_PIXELS, _MOST_PACKED = 4_000_000, 200  # a picture of many pixels has at most so many from each byte of its file
_LARGEST = 200_000_000  # bytes of one file
_LARGE_PHOTO = 1_000_000  # pixels; JPEG files of more are decoded at twice the wanted size or a little more
_DECODING = 8  # bytes for each pixel: what is decoded, and what it is converted to
_MOST_THREADS = 8
_COPIES = 2  # of the images: as they are read, and the parts that a task is made of
_ORIENTATION = 0x0112  # the tag of EXIF that says how the camera was held
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_ON_ITS_SIDE = (5, 6, 7, 8)


class Look(NamedTuple):
    """The size of an image and whether it is gray."""

    height: int
    width: int
    gray: bool


def look(file: Path, color: bool | None) -> Look:
    """Return the size of an image held upright and whether it is gray, from its header."""
    with _quiet(), _picture(file) as picture:
        height, width = picture.height, picture.width
        if picture.format != "TIFF" and _orientation(picture) in _ON_ITS_SIDE:  # Pillow turns a TIFF by itself
            height, width = width, height
        return Look(height, width, _is_gray(picture, color))


def read_into(images: np.ndarray, files: Sequence[Path], color: bool | None) -> None:
    """Fill `images`, (n, 1 or 3, height, width) uint8, in the order of the files; the first bad one is named."""
    room, gray, size = _Room(BUDGET), images.shape[1] == 1, images.shape[2:]

    def read(index: int) -> None:
        file = files[index]
        packed = file.stat().st_size
        with room.of(packed), _picture(file) as picture:
            mine, cost = _is_gray(picture, color), _reduced(picture, size)
        if mine is not gray:
            kinds = ("color", "gray")
            raise DataError(f"{file} is {kinds[mine]}, {files[0]} {kinds[gray]}; choose color=True or color=False")
        with room.of(packed + cost + 2 * images[index].nbytes), _picture(file) as picture:
            _reduced(picture, size)
            images[index] = _pixels(picture, size, gray)

    with _quiet():
        _in_order(read, len(files))


def decoded(content: bytes, color: bool | None) -> Image.Image:
    """Decode an image as gray (L) or color (RGB); DataError if it is damaged or larger than a photograph."""
    with _quiet(), _opened(io.BytesIO(content), len(content)) as picture:
        return _loaded(picture, _is_gray(picture, color))


def picture_pixels(picture: Image.Image) -> np.ndarray:
    """Return the pixels of a Pillow image: (1 or 3, height, width) uint8."""
    with _quiet():
        loaded = np.array(_loaded(picture, _is_gray(picture, None)))
    return np.ascontiguousarray(loaded[None] if loaded.ndim == 2 else loaded.transpose(2, 0, 1))


class _Room:
    """Memory that several threads share: each waits until its part is free or no other has any."""

    def __init__(self, size: int) -> None:
        self._size, self._taken = size, 0
        self._changed = threading.Condition()

    @contextmanager
    def of(self, size: int) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not self._taken or self._taken + size <= self._size)
            self._taken += size
        try:
            yield
        finally:
            with self._changed:
                self._taken -= size
                self._changed.notify_all()


def _in_order(work: Callable[[int], None], count: int) -> None:
    """Do work 0 … count - 1 in threads; of several errors, raise that of the smallest number."""
    threads = min(_MOST_THREADS, count, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2)
    if threads == 1:
        for number in range(count):
            work(number)
        return
    pool = ThreadPoolExecutor(threads, thread_name_prefix="pictures")
    try:
        waiting: deque[Future[None]] = deque()
        for number in range(count):
            waiting.append(pool.submit(work, number))
            if len(waiting) > 2 * threads:
                waiting.popleft().result()
        for future in waiting:
            future.result()
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence Pillow's warnings about metadata. Use it around threads, not in them: warning filters are global."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def _picture(file: Path) -> Iterator[Image.Image]:
    """Open a file and decode only its header; errors name the file."""
    try:
        size = file.stat().st_size
        if size > _LARGEST:
            raise DataError(f"{size:,} bytes, at most {_LARGEST:,} are read")
        # From memory: asked for more bytes than a file has, as a damaged picture may, a file allocates them first.
        with _opened(io.BytesIO(file.read_bytes()), size) as picture:
            yield picture
    except DataError as error:
        raise DamagedError(f"{file}: not a readable image ({error})") from error


@contextmanager
def _opened(stream: IO[bytes], size: int) -> Iterator[Image.Image]:
    """Decode only the header of an image; errors become DataError."""
    try:
        with Image.open(stream, formats=_FORMATS) as picture:
            _check_pixels(picture.width, picture.height, size)
            yield picture
    except UnidentifiedImageError as error:
        raise DataError(f"damaged, or none of {', '.join(_FORMATS)}") from error
    except (MemoryError, DataError):
        raise
    except Exception as error:  # Pillow's decoders raise OSError, SyntaxError, ValueError, struct.error and more
        raise DataError(in_short(error)) from error


def _check_pixels(width: int, height: int, size: int) -> None:
    """Reject an image with more pixels than cameras have, or than a file of its size can hold."""
    pixels = width * height
    if pixels > _MOST_PIXELS:
        raise DataError(f"{width}×{height} pixels, at most {_MOST_PIXELS:,} are read")
    if pixels > max(_MANY_PIXELS, _MOST_PACKED * size):
        raise DataError(f"{width}×{height} pixels from {size:,} bytes, more than {_MOST_PACKED} from each byte")
    check_memory(_DECODING * pixels, "decoding it")


def _reduced(picture: Image.Image, size: tuple[int, ...]) -> int:
    """Decode a large photograph at a smaller size if that is enough, and return the bytes that decoding takes."""
    whole = picture.width * picture.height
    if picture.format == "JPEG" and whole > _LARGE_PHOTO:
        height, width = size[::-1] if _orientation(picture) in _ON_ITS_SIDE else size
        picture.draft(None, (2 * width, 2 * height))
    progressive = "progressive" in picture.info  # its coefficients are all kept until the last is read
    return _DECODING * (whole if progressive else picture.width * picture.height)


def _pixels(picture: Image.Image, size: tuple[int, ...], gray: bool) -> np.ndarray:
    """Return the upright pixels (channels, height, width). They are turned last, after the resize."""
    shallow = _loaded(picture, gray)
    orientation = _orientation(picture)
    height, width = size[::-1] if orientation in _ON_ITS_SIDE else size
    if (shallow.height, shallow.width) != (height, width):
        shallow = shallow.resize((width, height), Image.Resampling.BILINEAR)
    if orientation in _TURNS:
        shallow = shallow.transpose(_TURNS[orientation])
    return np.asarray(shallow).reshape(*size, -1).transpose(2, 0, 1)


def _orientation(picture: Image.Image) -> int:
    """Return how the camera was held, 1 … 8; damaged EXIF data count as upright."""
    if picture.format == "PNG":
        picture.load()  # its EXIF may follow the pixels, whose damage is an error
    try:
        found = picture.getexif().get(_ORIENTATION)
    except MemoryError:
        raise
    except Exception:
        return 1
    return found if isinstance(found, int) else 1


def _is_gray(picture: Image.Image, color: bool | None) -> bool:
    if color is not None:
        return not color
    return picture.mode in ("1", "L", "LA", "I", "F") or picture.mode.startswith("I;16")


def _loaded(picture: Image.Image, gray: bool) -> Image.Image:
    """Return the pixels as mode L or RGB."""
    shallow, mode = _eight_bits(picture), "L" if gray else "RGB"
    shallow.load()
    return shallow if shallow.mode == mode else shallow.convert(mode)


def _eight_bits(picture: Image.Image) -> Image.Image:
    """Scale gray levels of 16 bits to 8, which Pillow would clip; reject modes without a fixed scale."""
    if picture.mode in ("I", "F"):
        raise DataError(f"pixels of mode {picture.mode} have no scale of gray: save it with 8 or 16 bits per pixel")
    if not picture.mode.startswith("I;16"):
        return picture
    levels = np.array(picture)
    shallow = np.empty(levels.shape, np.uint8)
    for row, into in zip(levels, shallow, strict=True):
        into[:] = (row.astype(np.uint32) + 128) // 257  # 65535 = 257 · 255, rounded to the nearest
    return Image.fromarray(shallow)


def read_images(files: Sequence[Path], size: tuple[int, int] | None = None, color: bool | None = None) -> Tensor:
    """Read images with one size and number of channels: (n, 1 or 3, height, width) uint8."""
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
