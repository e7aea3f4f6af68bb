"""Inputs as users have them, block by block as a network takes them: arrays, tensors, lists, sparse matrices, frames of
pandas and polars, files of images and Pillow's images."""

from collections.abc import Callable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from refprior._words import in_short
from refprior.data._task import check_shape_like, like_training
from refprior.data.files import read_images


class Like(NamedTuple):
    """What the inputs of the training were."""

    shape: tuple[int, ...]  # of one input
    dtype: torch.dtype
    features: tuple[str, ...] = ()  # names of columns

    @property
    def pictures(self) -> bool:
        return self.dtype == torch.uint8 and len(self.shape) == 3 and self.shape[0] in (1, 3)

    def whole(self, values: np.ndarray) -> np.ndarray:
        """Return the numbers of a table as integers if the training had integers and all of them are whole."""
        whole = not self.dtype.is_floating_point and bool((values == np.rint(values)).all())
        return values.astype(np.int64) if whole else values


Cut = Callable[[slice], Tensor]


def in_blocks(inputs: Any, like: Like, rows: int) -> tuple[int, Iterator[Tensor]]:
    """How many inputs there are, and they themselves like those of the training: (≤ rows, *shape) at a time."""
    count, cut = _reader(inputs, like)
    return count, (cut(slice(start, min(count, start + rows))) for start in range(0, count, rows))


def _reader(inputs: Any, like: Like) -> tuple[int, Cut]:
    """How many inputs there are, and a function that gives some of them. What can be checked of all is checked."""
    if like.pictures and _is_picture(inputs):
        raise ValueError("given inputs must be a list, of one file or picture too: predict([file])")
    if isinstance(inputs, list | tuple):
        some = like.pictures and any(_is_picture(item) for item in inputs[:1])
        return len(inputs), lambda part: _pictures(inputs[part], like) if some else _like(inputs[part], like)
    if hasattr(inputs, "tocsr"):  # a sparse matrix
        check_shape_like(inputs.shape, like.shape)
        rows = inputs.tocsr()
        return rows.shape[0], lambda part: _like(rows[part].toarray(), like)
    if hasattr(inputs, "columns") and hasattr(inputs, "to_numpy"):
        return len(inputs), _frame(inputs, like)
    given = inputs.detach() if isinstance(inputs, Tensor) else np.asarray(inputs)
    _like(given[:0] if given.ndim else given, like)
    return len(given), lambda part: _like(given[part], like)


def _like(inputs: Any, like: Like) -> Tensor:
    return like_training(inputs, like.shape, like.dtype)


def _frame(frame: Any, like: Like) -> Cut:
    """Rows of a frame: the columns with the names of the features; without such names, all columns in their order."""
    columns = [str(name) for name in frame.columns]
    missing = [name for name in like.features if name not in columns]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ValueError(f"given inputs have no column {missing[0]!r}{more}; they have {in_short(', '.join(columns))}")
    wanted = like.features or tuple(columns)
    check_shape_like((len(frame), len(wanted)), like.shape)
    twice = [name for name in wanted if columns.count(name) > 1]
    if twice:
        raise ValueError(f"given inputs have the column {twice[0]!r} twice")
    names = dict(zip(columns, frame.columns, strict=True))

    def cut(part: slice) -> Tensor:
        rows = frame.iloc[part] if hasattr(frame, "iloc") else frame[part]
        values = [_column(rows[names[name]].to_numpy(), name, part.start) for name in wanted]
        return _like(like.whole(np.stack(values, axis=1)), like)

    return cut


def _column(values: np.ndarray, name: str, start: int) -> np.ndarray:
    """A column of numbers: (n,) -> (n,) float64. start: the row in which it begins, for the error."""
    try:
        if values.dtype.kind not in "biufO" or (values.dtype.kind == "O" and any(isinstance(v, str) for v in values)):
            raise TypeError
        numbers = values.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"column {name!r} of the given inputs holds something else than numbers") from None
    finite = np.isfinite(numbers)
    if not finite.all():
        raise ValueError(f"column {name!r} of the given inputs is not finite in row {start + int(np.argmin(finite))}")
    return numbers


def _is_picture(item: Any) -> bool:
    return isinstance(item, str | PathLike | Image.Image)


def _pictures(items: Sequence[Any], like: Like) -> Tensor:
    """Files, or Pillow's images: (n, channels, height, width) uint8."""
    channels, height, width = like.shape
    if all(isinstance(item, Image.Image) for item in items):
        return torch.stack([_pixels(item, like.shape) for item in items])
    if not all(isinstance(item, str | PathLike) for item in items):
        raise ValueError("given inputs must be all files, all Pillow images, or all numbers")
    try:
        return read_images([Path(item) for item in items], size=(height, width), color=channels == 3)
    except OSError as error:
        raise ValueError(f"{error.filename}: {error.strerror}" if error.filename else in_short(error)) from None


def _pixels(picture: Image.Image, shape: tuple[int, ...]) -> Tensor:
    """A Pillow image with the channels and the size of the training: -> (channels, height, width) uint8."""
    channels, height, width = shape
    if picture.mode.startswith(("I", "F")):
        raise ValueError(f"a picture of mode {picture.mode} has no scale of 8 bits: convert it, or give its file")
    plain = ImageOps.exif_transpose(picture).convert("RGB" if channels == 3 else "L")
    if plain.size != (width, height):
        plain = plain.resize((width, height), Image.Resampling.BILINEAR)
    return torch.from_numpy(np.array(plain).reshape(height, width, channels).transpose(2, 0, 1).copy())
