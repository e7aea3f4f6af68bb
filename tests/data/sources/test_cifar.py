"""CIFAR readers: the binary archives, packed or unpacked, and their own error for everything else."""

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from refprior.data.files._error import DataError
from refprior.data.sources._cifar import PIXELS, read_binary, read_cifar10, read_cifar100
from tests.data.written import outcome

COUNT = 3
DATA = np.random.RandomState(0).randint(0, 256, (COUNT, PIXELS)).astype(np.uint8)
FINE, COARSE = [7, 99, 0], [3, 19, 0]


def binary(fine: list[int] = FINE) -> bytes:
    return np.concatenate([np.array([COARSE, fine]).T, DATA], axis=1).astype(np.uint8).tobytes()


def test_binary_records_are_labels_and_planes_of_color() -> None:
    records = read_binary(binary(), "train.bin", COUNT, (20, 100))
    assert np.array_equal(records.images, DATA.reshape(COUNT, 3, 32, 32))
    assert records.labels.tolist() == FINE
    assert records.coarse.tolist() == COARSE


def test_a_truncated_binary_file_is_named_with_its_numbers() -> None:
    with pytest.raises(DataError, match=r"train.bin: 9221 bytes, expected 3 records of 3074, 9222"):
        read_binary(binary()[:-1], "train.bin", COUNT, (20, 100))


def test_a_label_out_of_range_is_named() -> None:
    with pytest.raises(DataError, match="train: label 100 of image 1 is outside 0 … 99"):
        read_binary(binary([7, 100, 0]), "train", COUNT, (20, 100))


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_damaged_records_give_the_readers_own_error(data: st.DataObject) -> None:
    content = bytearray(binary())
    for _ in range(data.draw(st.integers(0, 3))):
        place = data.draw(st.one_of(st.integers(0, len(content) - 1), st.integers(0, 60)))
        content[place] = data.draw(st.integers(0, 255))
    content = content[: data.draw(st.integers(0, len(content)))]
    records = outcome(lambda: read_binary(bytes(content), "x", COUNT, (20, 100)))
    if isinstance(records, str):
        assert records.startswith("x: ")
    else:
        assert records.images.shape == (COUNT, 3, 32, 32)
        assert 0 <= records.labels.min() <= records.labels.max() < 100


def official_cifar10() -> dict[str, bytes]:
    """The six files of CIFAR-10 with random content, the first pixel of each image is its label."""
    files = {}
    for seed, stem in enumerate([*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]):
        labels = np.arange(10_000, dtype=np.uint8) % 10
        data = np.full((10_000, PIXELS), seed, dtype=np.uint8)
        data[:, 0] = labels
        files[f"{stem}.bin"] = np.concatenate([labels[:, None], data], axis=1).tobytes()
    return files


@pytest.mark.parametrize("packed", [False, True])
def test_cifar10_packed_or_unpacked(tmp_path: Path, packed: bool) -> None:
    if packed:
        with tarfile.open(tmp_path / "cifar-10-binary.tar.gz", "w:gz", compresslevel=1) as tar:
            for name, content in official_cifar10().items():
                member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    else:
        (tmp_path / "cifar-10-batches-bin").mkdir()
        for name, content in official_cifar10().items():
            (tmp_path / "cifar-10-batches-bin" / name).write_bytes(content)
    data = read_cifar10(tmp_path)
    assert data.test is not None
    assert (len(data.train), len(data.test)) == (50_000, 10_000)
    assert torch.equal(data.train.inputs[:, 0, 0, 0].long(), data.train.labels)
    assert data.train.inputs[::10_000, 2, 31, 31].tolist() == [0, 1, 2, 3, 4]
    assert data.classes[data.train.labels[3]] == "cat"


def test_cifar100_knows_its_superclasses(tmp_path: Path) -> None:
    fine = np.arange(100)
    for stem, count in (("train", 50_000), ("test", 10_000)):
        labels = np.tile(fine, count // 100)
        table = np.zeros((count, 2 + PIXELS), dtype=np.uint8)
        table[:, 0], table[:, 1] = labels % 20, labels
        (tmp_path / f"{stem}.bin").write_bytes(table.tobytes())
    (tmp_path / "fine_label_names.txt").write_text("\n".join(f"fine{i}" for i in range(100)) + "\n\n")
    (tmp_path / "coarse_label_names.txt").write_text("\n".join(f"coarse{i}" for i in range(20)) + "\n")
    data = read_cifar100(tmp_path)
    assert data.classes[42] == "fine42"
    assert len(data.groups) == 20
    assert data.groups["coarse3"] == (3, 23, 43, 63, 83)


def test_a_damaged_archive_is_named(tmp_path: Path) -> None:
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(b"\x1f\x8b nothing")
    with pytest.raises(DataError, match=r"cifar-10-binary.tar.gz: the gzip data are damaged or cut short"):
        read_cifar10(tmp_path)


def test_absent_data_say_how_to_get_them(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="refprior data get cifar10"):
        read_cifar10(tmp_path)


@pytest.mark.parametrize("file", ["cifar-10-python.tar.gz", "cifar-10-batches-py/data_batch_1", "data_batch_1"])
def test_the_python_version_is_rejected_with_the_archive_to_get(tmp_path: Path, file: str) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_bytes(b"\x80\x02}.")
    message = (
        "the python version of cifar10 is not supported; get cifar-10-binary.tar.gz with: refprior data get cifar10"
    )
    with pytest.raises(DataError, match=message):
        read_cifar10(tmp_path)
