"""Files as the makers of MNIST and CIFAR write them, in small."""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np

from refprior.data.files._error import DataError

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
