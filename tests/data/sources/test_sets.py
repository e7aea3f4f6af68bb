"""The data sets by name, from small files in the official format, and from the real data where they are."""

from pathlib import Path

import numpy as np
import pytest
import torch

from refprior.data import duplicates, read
from refprior.data.files._error import DataError
from refprior.data.sources._catalog import INSTALLED, SOURCES
from refprior.data.sources._sets import (
    DATA_SETS,
    FIVE_SUPERCLASSES,
    KNOWN,
    SUPERCLASSES,
    read_fashion_mnist,
    read_mnist,
    read_superclasses,
)
from tests.data.written import idx, write_mnist

FIVE = Path(__file__).parents[4] / "shared" / "data" / "cifar100_5super.npz"
needs_five = pytest.mark.skipif(not FIVE.is_file(), reason=f"needs {FIVE.name} in ../shared/data")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_mnist(tmp_path / "mnist")
    return tmp_path


def test_mnist_is_read_by_its_name(root: Path) -> None:
    data = read("mnist", root)
    assert (data.name, "".join(data.classes)) == ("mnist", "0123456789")
    assert data.test is not None
    assert (len(data.train), len(data.test)) == (300, 50)
    for part in (data.train, data.test):
        assert torch.equal(part.inputs[:, 0, 0, 0].long(), part.labels)


def test_digits_have_sixty_test_images_per_class() -> None:
    data = read("digits")
    assert data.test is not None
    assert torch.bincount(data.test.labels).tolist() == [60] * 10
    assert len(data.train) + len(data.test) == 1797
    assert int(data.train.inputs.max()) == 255


def test_a_npz_file_and_a_folder_are_read_by_their_paths(tmp_path: Path) -> None:
    images, labels = np.zeros((6, 1, 4, 4), np.uint8), np.arange(6) % 2
    np.savez(tmp_path / "mine.npz", images=images, labels=labels, split=np.arange(6) // 4)
    assert (read(str(tmp_path / "mine.npz")).name, len(read(str(tmp_path / "mine.npz")).train)) == ("mine", 4)
    with pytest.raises(DataError, match="has no folders of classes"):
        read(str(tmp_path))


def test_other_names_are_refused_with_what_there_is() -> None:
    message = rf"no data set 'emnist': give {', '.join(DATA_SETS)}, a \.npz, \.csv or \.parquet file or a folder"
    with pytest.raises(ValueError, match=message):
        read("emnist")


def test_bad_idx_files_are_named(root: Path) -> None:
    labels = root / "mnist" / "train-labels-idx1-ubyte"
    good = labels.read_bytes()
    labels.write_bytes(good[:-1] + b"\x0a")
    with pytest.raises(DataError, match=r"train-labels-idx1-ubyte: label 10 of image 299 is outside 0 … 9"):
        read_mnist(root)
    labels.write_bytes(idx(np.zeros(17)))
    with pytest.raises(DataError, match=r"holds \(300, 28, 28\), .*train-labels-idx1-ubyte \(17,\)"):
        read_mnist(root)


def test_absent_data_say_how_to_get_them(tmp_path: Path) -> None:
    for name in ("mnist", "cifar10", "cifar100"):
        with pytest.raises(FileNotFoundError, match=f"refprior data get {name}$"):
            read(name, tmp_path)


def test_fashion_mnist_has_its_own_classes(tmp_path: Path) -> None:
    write_mnist(tmp_path / "fashion-mnist")
    data = read_fashion_mnist(tmp_path)
    assert data.classes[9] == "Ankle boot"
    assert data.name == "fashion-mnist"


def test_the_numbers_of_classes_known_beforehand_are_right(tmp_path: Path) -> None:
    for name in ("mnist", "fashion-mnist"):
        write_mnist(tmp_path / name)
        assert len(read(name, tmp_path).classes) == KNOWN[name].classes
    assert len(read("digits").classes) == KNOWN["digits"].classes
    assert set(KNOWN) == set(DATA_SETS)


def test_what_is_known_beforehand_is_what_is_read(tmp_path: Path) -> None:
    for name in ("mnist", "fashion-mnist"):
        write_mnist(tmp_path / name)
    for name in ("mnist", "fashion-mnist", "digits"):
        data = read(name, tmp_path)
        assert (data.kind, data.train.inputs.dim()) == (KNOWN[name].kind, 4)
    assert read("digits").train.inputs.shape[1:] == KNOWN["digits"].shape


def test_settings_of_folders_are_refused_for_other_data(tmp_path: Path) -> None:
    np.savez(tmp_path / "mine.npz", images=np.zeros((4, 8, 8), np.uint8), labels=np.arange(4) % 2)
    for name in ("digits", str(tmp_path / "mine.npz")):
        with pytest.raises(ValueError, match=r"size and color are for folders of images, and .* is none"):
            read(name, size=(8, 8))
    with pytest.raises(ValueError, match="digits already has a test part: leave test out, got test=10"):
        read("digits", test=10)


def test_the_paper_names_five_of_twenty_superclasses() -> None:
    assert len(SUPERCLASSES) == 20
    assert set(FIVE_SUPERCLASSES) <= set(SUPERCLASSES)


@needs_five
def test_nine_images_are_in_both_parts_of_the_five_superclasses() -> None:
    data = read_superclasses(FIVE.parent)
    assert sorted(data.groups) == sorted(FIVE_SUPERCLASSES)
    assert [data.classes[c] for c in data.groups["fish"]] == ["aquarium_fish", "flatfish", "ray", "shark", "trout"]
    assert data.test is not None
    assert len({j for _, j in duplicates(data.train.inputs, data.test.inputs)}) == 9


def test_every_data_set_is_installed_or_has_a_source() -> None:
    assert [*INSTALLED, *SOURCES] == list(DATA_SETS)
