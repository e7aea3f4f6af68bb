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
from refprior.data import Backbone, Columns, Preparation
from refprior.data.files import read_images

_WHOLE = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32)


class Like(NamedTuple):
    """What the inputs of the training were."""

    shape: tuple[int, ...]  # of one input
    dtype: torch.dtype
    features: tuple[str, ...] = ()  # names of columns
    preparation: Preparation | None = None  # of raw inputs

    @property
    def pictures(self) -> bool:
        if isinstance(self.preparation, Backbone):
            return True
        return self.dtype == torch.uint8 and len(self.shape) == 3 and self.shape[0] in (1, 3)

    def whole(self, values: np.ndarray) -> np.ndarray:
        """Return the numbers of a table as integers if the training had integers and all of them are whole."""
        whole = not self.dtype.is_floating_point and bool((values == np.rint(values)).all())
        return values.astype(np.int64) if whole else values

    def tensor(self, inputs: object) -> Tensor:
        """Return inputs as a tensor of the training's shape and dtype; convert dtypes only if that loses nothing."""
        given = _tensor(inputs)
        if isinstance(self.preparation, Backbone) and given.dtype == torch.uint8 and given.dim() == 4:
            return self.preparation.of_images(given)
        self.check_shape(tuple(given.shape))
        if given.dtype == self.dtype and not self.dtype.is_floating_point:
            return given
        if self.dtype.is_floating_point and given.dtype != torch.uint8 and not given.is_complex():
            values = given.to(self.dtype)
            if not values.isfinite().all():
                raise ValueError(f"given inputs are not finite as {self.dtype}")
            return values
        if not self.dtype.is_floating_point and given.dtype in _WHOLE:
            whole = given.long()
            if self.dtype == torch.uint8 and len(whole) and not (whole.min() >= 0 and whole.max() <= 255):
                raise ValueError(f"given inputs are {whole.min()} … {whole.max()}, those of the training 0 … 255")
            return whole.to(self.dtype)
        raise ValueError(
            f"given inputs are {given.dtype}, those of the training {self.dtype}: convert them in the same way"
        )

    def check_shape(self, given: tuple[int, ...]) -> None:
        """Reject inputs (n, *shape) of another shape than those of the training."""
        if len(given) == 2 and len(self.shape) == 1 and given[1:] != self.shape:
            raise ValueError(f"given inputs have {given[1]} features, those of the training {self.shape[0]}")
        if not given or given[1:] != self.shape:
            raise ValueError(f"given inputs are {given[1:]}, those of the training {self.shape}")


Cut = Callable[[slice], Tensor]


def in_blocks(inputs: object, like: Like, rows: int) -> tuple[int, Iterator[Tensor]]:
    """Return the number of inputs and an iterator over blocks (≤ rows, *shape) in the training dtype."""
    columns = like.preparation
    if isinstance(columns, Columns) and columns.takes(inputs):
        count, prepared = columns.reader(inputs)
        return count, (like.tensor(prepared(slice(start, min(count, start + rows)))) for start in range(0, count, rows))
    count, cut = _reader(inputs, like)
    return count, (cut(slice(start, min(count, start + rows))) for start in range(0, count, rows))


def _reader(inputs: Any, like: Like) -> tuple[int, Cut]:
    """Return the number of inputs and a function that reads some of them; check what can be checked of all."""
    if like.pictures and _is_picture(inputs):
        raise ValueError("given inputs must be a list, of one file or picture too: predict([file])")
    if isinstance(inputs, list | tuple):
        some = like.pictures and any(_is_picture(item) for item in inputs[:1])
        return len(inputs), lambda part: _pictures(inputs[part], like) if some else like.tensor(inputs[part])
    if hasattr(inputs, "tocsr"):  # a sparse matrix
        like.check_shape(inputs.shape)
        rows = inputs.tocsr()
        return rows.shape[0], lambda part: like.tensor(rows[part].toarray())
    if hasattr(inputs, "columns") and hasattr(inputs, "to_numpy"):
        return len(inputs), _frame(inputs, like)
    given = inputs.detach() if isinstance(inputs, Tensor) else np.asarray(inputs)
    like.tensor(given[:0] if given.ndim else given)
    return len(given), lambda part: like.tensor(given[part])


def _frame(frame: Any, like: Like) -> Cut:
    """Return a function that reads rows of a frame: the columns of the features, or all columns without such names."""
    columns = [str(name) for name in frame.columns]
    missing = [name for name in like.features if name not in columns]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ValueError(f"given inputs have no column {missing[0]!r}{more}; they have {in_short(', '.join(columns))}")
    wanted = like.features or tuple(columns)
    like.check_shape((len(frame), len(wanted)))
    twice = [name for name in wanted if columns.count(name) > 1]
    if twice:
        raise ValueError(f"given inputs have the column {twice[0]!r} twice")
    names = dict(zip(columns, frame.columns, strict=True))

    def cut(part: slice) -> Tensor:
        rows = frame.iloc[part] if hasattr(frame, "iloc") else frame[part]
        values = [_column(rows[names[name]].to_numpy(), name, part.start) for name in wanted]
        return like.tensor(like.whole(np.stack(values, axis=1)))

    return cut


def _column(values: np.ndarray, name: str, start: int) -> np.ndarray:
    """Return a column as numbers: (n,) -> (n,) float64. Errors count rows from `start`."""
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


def _is_picture(item: object) -> bool:
    return isinstance(item, str | PathLike | Image.Image)


def _pictures(items: Sequence[Any], like: Like) -> Tensor:
    """Read files, or convert Pillow's images: (n, channels, height, width) uint8."""
    backbone = like.preparation if isinstance(like.preparation, Backbone) else None
    shape = like.shape if backbone is None else (3, backbone.side, backbone.side)
    channels, height, width = shape
    if all(isinstance(item, Image.Image) for item in items):
        images = torch.stack([_pixels(item, shape) for item in items])
        return images if backbone is None else backbone.of_images(images)
    if not all(isinstance(item, str | PathLike) for item in items):
        raise ValueError("given inputs must be all files, all Pillow images, or all numbers")
    try:
        files = [Path(item) for item in items]
        return backbone.of_files(files) if backbone else read_images(files, (height, width), color=channels == 3)
    except OSError as error:
        raise ValueError(f"{error.filename}: {error.strerror}" if error.filename else in_short(error)) from None


def _pixels(picture: Image.Image, shape: tuple[int, ...]) -> Tensor:
    """Convert a Pillow image to the channels and size of the training: -> (channels, height, width) uint8."""
    channels, height, width = shape
    if picture.mode.startswith(("I", "F")):
        raise ValueError(f"a picture of mode {picture.mode} has no scale of 8 bits: convert it, or give its file")
    plain = ImageOps.exif_transpose(picture).convert("RGB" if channels == 3 else "L")
    if plain.size != (width, height):
        plain = plain.resize((width, height), Image.Resampling.BILINEAR)
    return torch.from_numpy(np.array(plain).reshape(height, width, channels).transpose(2, 0, 1).copy())


def _tensor(values: object) -> Tensor:
    """Make a tensor of anything with numbers in it; errors of numpy and torch are summed up in one line."""
    if isinstance(values, Tensor):
        return values.detach()
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "biufc":
            raise TypeError(f"got {'text' if array.dtype.kind == 'U' else array.dtype}")
        if not array.flags.writeable or min(array.strides, default=0) < 0:  # torch takes neither
            array = array.copy()
        return torch.from_numpy(np.ascontiguousarray(array, array.dtype.newbyteorder("=")))
    except (TypeError, ValueError) as error:
        raise ValueError(f"given inputs must be an array, a tensor or a list of numbers: {in_short(error)}") from None
