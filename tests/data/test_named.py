"""The named tasks, on small files in the official format, and on the real data where they are."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from refprior.data._duplicates import duplicates
from refprior.data._error import DataError
from refprior.data._named import (
    FIVE_SUPERCLASSES,
    SUPERCLASSES,
    TASKS,
    cifar100_superclass,
    fashion_mnist,
    mnist,
    read_superclasses,
)
from tests.data.files import idx, write_mnist

FIVE = Path(__file__).parents[3] / "shared" / "data" / "cifar100_5super.npz"
needs_five = pytest.mark.skipif(not FIVE.is_file(), reason=f"needs {FIVE.name} in ../shared/data")
REAL = Path(os.environ.get("REFPRIOR_DATA", "nowhere"))
needs_mnist = pytest.mark.skipif(not (REAL / "mnist").is_dir(), reason="needs MNIST in $REFPRIOR_DATA")
MNIST_SUMS = [34562, 17541, 17516, 13420, 31166, 35338, 34179, 14034, 24863, 32556]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_mnist(tmp_path / "mnist")
    return tmp_path


def test_mnist_from_a_data_folder_and_from_its_own_folder(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = mnist(labels=2, validation=3, folder=root)
    second = mnist(labels=2, validation=3, folder=root / "mnist")
    monkeypatch.setenv("REFPRIOR_DATA", str(root))
    third = mnist(labels=2, validation=3)
    assert (len(first.labelled), len(first.unlabelled), len(first.test)) == (20, 250, 50)
    for other in (second, third):
        assert torch.equal(first.labelled.images, other.labelled.images)
    assert torch.equal(first.labelled.images[:, 0, 0, 0].long(), first.labelled.labels)


@pytest.mark.parametrize(("name", "digits"), [("mnist-0-4", "01234"), ("mnist-5-9", "56789"), ("mnist-3-5", "35")])
def test_digit_subsets(root: Path, name: str, digits: str) -> None:
    task = TASKS[name](labels=2, validation=3, folder=root)
    assert "".join(task.classes) == digits
    expected = torch.tensor([int(d) for d in digits])[task.labelled.labels]
    assert torch.equal(task.labelled.images[:, 0, 0, 0].long(), expected)
    assert set(task.unlabelled[:, 0, 0, 0].tolist()) == {int(d) for d in digits}


def test_pools_out_of_distribution_and_out_of_balance(root: Path) -> None:
    task = mnist(labels=2, validation=3, classes=(3, 5), imbalance=5, outside=11, folder=root)
    counts = np.bincount(task.unlabelled[:, 0, 0, 0], minlength=10)
    assert (counts[3], counts[5], counts.sum()) == (25, 5, 41)


def test_bad_idx_files_are_named(root: Path) -> None:
    labels = root / "mnist" / "train-labels-idx1-ubyte"
    good = labels.read_bytes()
    labels.write_bytes(good[:-1] + b"\x0a")
    with pytest.raises(DataError, match=r"train-labels-idx1-ubyte: label 10 of image 299 is outside 0 … 9"):
        mnist(folder=root)
    labels.write_bytes(idx(np.zeros(17)))
    with pytest.raises(DataError, match=r"holds \(300, 28, 28\), .*train-labels-idx1-ubyte \(17,\)"):
        mnist(folder=root)


def test_absent_data_say_how_to_get_them(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="refprior data get mnist"):
        mnist(folder=tmp_path)
    with pytest.raises(FileNotFoundError, match="refprior data get cifar100"):
        cifar100_superclass("fish", folder=tmp_path)


def test_fashion_mnist_has_its_own_classes(tmp_path: Path) -> None:
    write_mnist(tmp_path / "fashion-mnist")
    task = fashion_mnist(labels=1, validation=0, folder=tmp_path)
    assert task.classes[9] == "Ankle boot"
    assert task.name == "fashion-mnist"


def test_the_paper_names_five_of_twenty_superclasses() -> None:
    assert len(SUPERCLASSES) == 20
    assert set(FIVE_SUPERCLASSES) <= set(SUPERCLASSES)
    assert all(f"cifar100-{name}" in TASKS for name in SUPERCLASSES)


@needs_five
@pytest.mark.parametrize("name", FIVE_SUPERCLASSES)
def test_the_five_superclasses_load_as_tasks(name: str) -> None:
    task = cifar100_superclass(name, labels=20, folder=FIVE)
    assert task.name == f"cifar100-{name}"
    assert task.validation is not None
    sizes = [len(part) for part in (task.labelled, task.unlabelled, task.validation, task.test)]
    assert (len(task.classes), sizes) == (5, [100, 2150, 250, 500])
    assert task.shape == (3, 32, 32)


@needs_five
def test_nine_images_stand_in_both_parts_of_the_five_superclasses() -> None:
    data, members = read_superclasses(FIVE.parent)
    assert sorted(members) == sorted(FIVE_SUPERCLASSES)
    assert [data.classes[c] for c in members["fish"]] == ["aquarium_fish", "flatfish", "ray", "shark", "trout"]
    assert len({j for _, j in duplicates(data.train.images, data.test.images)}) == 9
    with pytest.raises(ValueError, match=r"no superclass 'trees' here; there are .*fish"):
        cifar100_superclass("trees", folder=FIVE)


@needs_mnist
def test_the_split_of_the_real_mnist_is_fixed() -> None:
    task = mnist(labels=1, seed=0, validation=100)
    assert task.labelled.images.int().sum((1, 2, 3)).tolist() == MNIST_SUMS
    assert len(task.unlabelled) == 60_000 - 1_000 - 10
