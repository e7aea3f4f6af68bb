"""Files as the makers of MNIST and CIFAR write them, in small."""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np

from refprior.data._error import DataError

T = TypeVar("T")


def outcome(read: Callable[[], T]) -> T | str:
    """What a reader gives back, or the text of its own error; every other error goes through."""
    try:
        return read()
    except DataError as error:
        return str(error)


def idx(array: np.ndarray) -> bytes:
    """An array of unsigned bytes in the idx format."""
    header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.astype(np.uint8).tobytes()


def write_mnist(folder: Path, per_class: int = 30, classes: int = 10) -> None:
    """A data set of four idx files with `per_class` training and 5 test images per class, of 28×28 noise."""
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (part, count) in enumerate({"train": per_class, "t10k": 5}.items()):
        labels = np.random.RandomState(seed).permutation(np.repeat(np.arange(classes), count))
        images = np.random.RandomState(seed + 2).randint(0, 256, (len(labels), 28, 28))
        images[:, 0, 0] = labels  # so that a test can see whether images and labels still belong together
        (folder / f"{part}-images-idx3-ubyte").write_bytes(idx(images))
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(idx(labels))


def python2_pickle(value: object) -> bytes:
    """What Python 2 wrote for CIFAR's dictionaries with protocol 2."""
    return b"\x80\x02" + _pickled(value) + b"."


def _pickled(value: object) -> bytes:
    if isinstance(value, str | bytes):
        text = value.encode("latin1") if isinstance(value, str) else value
        return b"U" + bytes([len(text)]) + text if len(text) < 256 else b"T" + struct.pack("<i", len(text)) + text
    if isinstance(value, int):
        return b"K" + bytes([value]) if 0 <= value < 256 else b"J" + struct.pack("<i", value)
    if isinstance(value, list):
        return b"](" + b"".join(map(_pickled, value)) + b"e"
    if isinstance(value, dict):
        return b"}(" + b"".join(_pickled(k) + _pickled(v) for k, v in value.items()) + b"u"
    if isinstance(value, np.ndarray):
        shape = b"(" + b"".join(_pickled(n) for n in value.shape) + b"t"
        dtype = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
        made = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
        return made + b"(K\x01" + shape + dtype + b"\x89" + _pickled(value.tobytes()) + b"tb"
    raise TypeError(type(value))
