"""Tasks that hide most labels: who is in which part, what may be asked for, and where the data may come from."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from refprior.data import DataSet, FewLabels, Pair, Task
from refprior.data._data_set import data_set, inputs_of_other_classes
from refprior.data.sources._catalog import data_folder
from refprior.data.sources._sets import FIVE_SUPERCLASSES
from tests.data.written import write_mnist

LABELS = np.arange(400) % 4
IMAGES = np.zeros((400, 1, 2, 2), dtype=np.uint8)
IMAGES[:, 0, 0, 0], IMAGES[:, 0, 0, 1] = np.arange(400) // 256, np.arange(400) % 256  # every image knows its index
IMAGES[:, 0, 1, 0] = LABELS
FIXED_0 = [17, 183, 200, 310]
FIXED_7 = [9, 26, 175, 252]
DIGITS_LABELS = [0, 8, 3, 7, 1, 2, 5, 4, 6, 9]
DIGITS_SUMS = [5484, 4830, 4462, 4306, 6423, 5498, 4414, 5034, 4718, 4924]
MNIST_SUMS = [34562, 17541, 17516, 13420, 31166, 35338, 34179, 14034, 24863, 32556]
FIVE = Path(__file__).parents[3] / "shared" / "data" / "cifar100_5super.npz"
needs_five = pytest.mark.skipif(not FIVE.is_file(), reason=f"needs {FIVE.name} in ../shared/data")
needs_mnist = pytest.mark.skipif(not (data_folder() / "mnist").is_dir(), reason="needs MNIST in the data folder")


def index(images: torch.Tensor) -> list[int]:
    return (images[:, 0, 0, 0].int() * 256 + images[:, 0, 0, 1]).tolist()


@pytest.fixture
def data() -> DataSet:
    made = data_set("toy", "abcd", (IMAGES[:320], LABELS[:320]), (IMAGES[320:], LABELS[320:]))
    return replace(made, groups={"odd": (1, 3), "even": (0, 2)})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_mnist(tmp_path / "mnist")
    return tmp_path


def test_parts_are_disjoint_and_whole(data: DataSet) -> None:
    task = FewLabels(data, labels=12, seed=5, validation=40)()
    assert task.validation is not None
    parts = [index(p) for p in (task.labeled.inputs, task.validation.inputs, task.unlabeled, task.held_out.inputs)]
    assert [len(p) for p in parts] == [12, 40, 268, 80]
    assert sorted(i for p in parts for i in p) == list(range(400))
    assert np.bincount(task.labeled.labels).tolist() == [3] * 4
    assert np.bincount(task.validation.labels).tolist() == [10] * 4
    assert torch.equal(task.labeled.inputs[:, 0, 1, 0].long(), task.labeled.labels)


def test_indices_are_fixed_for_ever(data: DataSet) -> None:
    assert index(FewLabels(data, labels=4, seed=0)().labeled.inputs) == FIXED_0
    assert index(FewLabels(data, labels=4, seed=7, validation=8)().labeled.inputs) == FIXED_7
    task = FewLabels("digits", labels=10, seed=0, validation=300)()
    assert task.labeled.labels.tolist() == DIGITS_LABELS
    assert task.labeled.inputs.int().sum((1, 2, 3)).tolist() == DIGITS_SUMS


@needs_mnist
def test_the_split_of_the_real_mnist_is_fixed() -> None:
    task = FewLabels("mnist", labels=10, seed=0, validation=1000)()
    assert task.labeled.inputs.int().sum((1, 2, 3)).tolist() == MNIST_SUMS
    assert len(task.unlabeled) == 60_000 - 1_000 - 10


def test_the_same_seed_gives_the_same_task_and_another_one_another(data: DataSet) -> None:
    first, again, other = (FewLabels(data, labels=40, seed=s)() for s in (1, 1, 2))
    assert torch.equal(first.labeled.inputs, again.labeled.inputs)
    assert not torch.equal(first.labeled.inputs, other.labeled.inputs)


def test_labeled_images_may_stay_in_the_pool(data: DataSet) -> None:
    task = FewLabels(data, labels=12, labeled_in_pool=True)()
    assert len(task.unlabeled) == 320
    assert set(index(task.labeled.inputs)) <= set(index(task.unlabeled))


def test_all_images_can_be_labeled(data: DataSet) -> None:
    task = FewLabels(data, labels=None, validation=20)()
    assert (len(task.labeled), len(task.unlabeled)) == (300, 0)


def test_none_need_be_labeled(data: DataSet) -> None:
    task = FewLabels(data, labels=0)()
    assert (len(task.labeled), len(task.unlabeled), task.shape) == (0, 320, (1, 2, 2))


def test_mistakes_change_labels_and_nothing_else(data: DataSet) -> None:
    right, wrong = (FewLabels(data, labels=20, validation=20, label_noise=share)() for share in (0.0, 0.25))
    assert right.validation is not None
    assert wrong.validation is not None
    assert right.labeled.inputs.equal(wrong.labeled.inputs)
    assert (right.labeled.labels != wrong.labeled.labels).sum() == 5
    assert right.unlabeled.equal(wrong.unlabeled)
    assert right.validation.labels.equal(wrong.validation.labels)


def test_an_imbalanced_pool_leaves_the_labels_balanced(data: DataSet) -> None:
    task = FewLabels(data, labels=20, imbalance=15)()
    assert np.bincount(task.labeled.labels).tolist() == [5] * 4
    assert np.bincount(task.unlabeled[:, 0, 1, 0]).tolist() == [75, 30, 12, 5]


def test_foreign_images_join_the_pool_and_nothing_else(data: DataSet) -> None:
    task = FewLabels(data, labels=4, classes=(3, 1), out_of_distribution=7)()
    assert len(task.unlabeled) == 160 - 4 + 7
    assert torch.equal(task.unlabeled[-7:], inputs_of_other_classes(data, (3, 1), 7, seed=0))
    assert set(task.unlabeled[-7:, 0, 1, 0].tolist()) <= {0, 2}
    assert set(task.unlabeled[:-7, 0, 1, 0].tolist()) == {1, 3}
    assert set(task.labeled.inputs[:, 0, 1, 0].tolist()) == {1, 3}


def test_images_without_labels_join_the_pool(data: DataSet) -> None:
    more = torch.full((5, 1, 2, 2), 9, dtype=torch.uint8)
    task = FewLabels(replace(data, unlabeled=more), labels=4)()
    assert len(task.unlabeled) == 316 + 5
    assert torch.equal(task.unlabeled[-5:], more)


def test_classes_may_be_a_group(data: DataSet) -> None:
    task = FewLabels(data, labels=4, classes="odd")()
    assert (task.name, task.classes) == ("toy-odd", ("b", "d"))
    by_number = FewLabels(data, labels=4, classes=(1, 3))()
    assert by_number.name == "toy-b-d"
    assert torch.equal(task.labeled.inputs, by_number.labeled.inputs)
    with pytest.raises(ValueError, match="toy has no superclass 'prime'; there are: odd, even"):
        FewLabels(data, labels=4, classes="prime")()
    with pytest.raises(ValueError, match="digits has no superclass 'odd'; there are: none"):
        FewLabels("digits", classes="odd")()


def test_a_list_of_classes_is_kept_as_a_tuple() -> None:
    classes: Any = [3, 5]
    assert FewLabels("digits", classes=classes) == FewLabels("digits", classes=(3, 5))
    assert hash(FewLabels("digits", classes=classes)) == hash(FewLabels("digits", classes=(3, 5)))


def test_squares_of_pixels_become_one() -> None:
    images = np.zeros((20, 1, 4, 6), np.uint8)
    images[:, 0, :2, :2] = [[10, 20], [30, 41]]
    made = data_set("toy", "ab", (images, np.arange(20) % 2), (images, np.arange(20) % 2))
    task = FewLabels(made, labels=2, validation=2, shrink=2)()
    assert task.validation is not None
    for part in (task.labeled.inputs, task.validation.inputs, task.unlabeled, task.held_out.inputs):
        assert (part.shape[1:], part.dtype) == ((1, 2, 3), torch.uint8)
        assert (part[:, 0, 0, 0] == 25).all()  # 25.25 is rounded
        assert not part[:, 0, 1:].any()
    floats = data_set("toy", "ab", *[(images.astype(np.float32), np.arange(20) % 2)] * 2)
    assert float(FewLabels(floats, labels=2, shrink=2)().unlabeled[0, 0, 0, 0]) == 25.25
    with pytest.raises(ValueError, match="shrink must divide images of 4×6 pixels, got 4"):
        FewLabels(made, labels=2, shrink=4)()


BAD: list[tuple[dict[str, Any], str]] = [
    ({"labels": 324}, "labels must be at most 320, 80 of each of 4 classes, got 324"),
    ({"labels": 84, "validation": 240}, "labels must be at most 80, 20 of each of 4 classes, got 84"),
    ({"labels": 4, "validation": 324}, "validation must be at most 320, 80 of each of 4 classes, got 324"),
    ({"labels": 6}, r"labels must be a multiple of the 4 classes, for example \d+, got 6"),
    ({"labels": 5, "classes": (1, 3)}, r"labels must be a multiple of the 2 classes, for example \d+, got 5"),
    ({"labels": 4, "validation": 2}, r"validation must be a multiple of the 4 classes, for example \d+, got 2"),
    ({"labels": -1}, "labels must be a whole number of at least 0, got -1"),
    ({"labels": 4.0}, "labels must be a whole number of at least 0, got 4.0"),
    ({"validation": -1}, "validation must be a whole number of at least 0, got -1"),
    ({"out_of_distribution": -1}, "out_of_distribution must be a whole number of at least 0, got -1"),
    ({"shrink": 0}, "shrink must be a whole number of at least 1, got 0"),
    ({"imbalance": 0.5}, "imbalance must be at least 1, got 0.5"),
    ({"label_noise": 1.5}, "label_noise must be at least 0 and at most 1, got 1.5"),
    ({"imbalance": float("nan")}, "imbalance must be at least 1, got nan"),
    ({"labels": 4, "classes": (1, 4)}, r"\[1, 4\] must be different numbers of 0 … 3"),
    (
        {"labels": 4, "classes": (0, 1), "out_of_distribution": 161},
        "out_of_distribution must be at most 160, the inputs of the other classes, got 161",
    ),
]


@pytest.mark.parametrize(("settings", "message"), BAD, ids=str)
def test_what_cannot_be_is_named_with_its_numbers(data: DataSet, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FewLabels(data, **settings)()


def test_labels_that_do_not_divide_are_rejected_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"labels must be a multiple of the 10 classes, for example \d+, got 55"):
        FewLabels("mnist", labels=55, folder=str(tmp_path))


def test_images_of_another_shape_do_not_join_the_pool(data: DataSet) -> None:
    other = replace(data, unlabeled=torch.zeros(1, 1, 3, 2, dtype=torch.uint8))
    message = r"inputs for the pool are \(1, 3, 2\) torch.uint8, the others \(1, 2, 2\) torch.uint8"
    with pytest.raises(ValueError, match=message):
        FewLabels(other, labels=4)()


def test_mnist_from_a_data_folder_and_from_its_own_folder(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (FewLabels("mnist", labels=20, validation=30, folder=str(f))() for f in (root, root / "mnist"))
    monkeypatch.setenv("REFPRIOR_DATA", str(root))
    third = FewLabels("mnist", labels=20, validation=30)()
    assert (len(first.labeled), len(first.unlabeled), len(first.held_out)) == (20, 250, 50)
    for other in (second, third):
        assert torch.equal(first.labeled.inputs, other.labeled.inputs)
    assert torch.equal(first.labeled.inputs[:, 0, 0, 0].long(), first.labeled.labels)


@pytest.mark.parametrize("digits", [range(5), range(5, 10), (3, 5)])
def test_digit_subsets(root: Path, digits: Sequence[int]) -> None:
    count = len(digits)
    task = FewLabels("mnist", labels=2 * count, validation=3 * count, classes=tuple(digits), folder=str(root))()
    assert task.classes == tuple(map(str, digits))
    assert task.name == "-".join(["mnist", *task.classes])
    expected = torch.tensor(list(digits))[task.labeled.labels]
    assert torch.equal(task.labeled.inputs[:, 0, 0, 0].long(), expected)
    assert set(task.unlabeled[:, 0, 0, 0].tolist()) == set(digits)


def test_pools_out_of_distribution_and_out_of_balance(root: Path) -> None:
    asked = FewLabels(
        "mnist", labels=4, validation=6, classes=(3, 5), imbalance=5, out_of_distribution=11, folder=str(root)
    )
    counts = np.bincount(asked().unlabeled[:, 0, 0, 0], minlength=10)
    assert (counts[3], counts[5], counts.sum()) == (25, 5, 41)


def test_data_may_be_a_npz_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    np.savez(path, images=IMAGES, labels=LABELS, split=(np.arange(400) >= 320).astype(int))
    task = FewLabels(str(path), labels=4)()
    assert (task.name, index(task.labeled.inputs)) == ("mine", FIXED_0)
    assert len(task.held_out) == 80


def test_data_may_be_a_folder_of_images(tmp_path: Path) -> None:
    for label, name in enumerate(["ape", "bee", "cat"]):
        (tmp_path / name).mkdir()
        for i in range(5):
            Image.new("L", (6, 4), 50 * label + i).save(tmp_path / name / f"{i}.png")
    (tmp_path / "unlabeled").mkdir()
    for i in range(7):
        Image.new("L", (6, 4), 200 + i).save(tmp_path / "unlabeled" / f"{i}.png")
    task = FewLabels(str(tmp_path), labels=6, validation=3)()
    assert task.classes == ("ape", "bee", "cat")
    assert task.shape == (1, 4, 6)
    assert [len(p) for p in (task.labeled, task.unlabeled, task.held_out)] == [6, 3 + 7, 3]
    assert torch.equal(task.labeled.inputs[:, 0, 0, 0] // 50, task.labeled.labels)
    assert set(task.unlabeled[-7:, 0, 0, 0].tolist()) == set(range(200, 207))
    everything = FewLabels(str(tmp_path), labels=None)()
    assert (len(everything.labeled), len(everything.unlabeled)) == (12, 7)
    with pytest.raises(ValueError, match="labels must be at most 12, 4 of each of 3 classes, got 15"):
        FewLabels(str(tmp_path), labels=15)()


@needs_five
@pytest.mark.parametrize("name", FIVE_SUPERCLASSES)
def test_the_five_superclasses_load_as_tasks(name: str) -> None:
    task = FewLabels("cifar100", labels=100, validation=250, classes=name, folder=str(FIVE))()
    assert task.name == f"cifar100-{name}"
    assert task.validation is not None
    sizes = [len(part) for part in (task.labeled, task.unlabeled, task.validation, task.held_out)]
    assert (len(task.classes), sizes) == (5, [100, 2150, 250, 500])
    assert task.shape == (3, 32, 32)


@needs_five
def test_a_superclass_that_is_not_there_is_named() -> None:
    with pytest.raises(ValueError, match=r"cifar100 has no superclass 'trees'; there are: .*fish"):
        FewLabels("cifar100", labels=100, classes="trees", folder=str(FIVE))()


def test_a_pair_is_the_transfer_task_of_both() -> None:
    low = FewLabels("digits", labels=None, classes=(0, 1))
    high = FewLabels("digits", labels=20, validation=10, classes=(2, 3), seed=4)
    pair, joined = Pair(source=low, target=high)(), high().with_source(low())
    assert (pair.name, pair.classes, pair.source_classes) == ("digits-0-1-to-digits-2-3", ("2", "3"), ("0", "1"))
    for part in ("labeled", "validation", "test", "source"):
        assert torch.equal(examples(pair, part), examples(joined, part))
    assert torch.equal(pair.unlabeled, joined.unlabeled)
    assert Pair(low, high) == Pair(source=low, target=high)


def examples(task: Task, part: str) -> torch.Tensor:
    images: torch.Tensor = getattr(task, part).inputs
    return images


def test_a_pair_that_overlaps_is_rejected() -> None:
    low, high = (FewLabels("digits", labels=40, classes=classes) for classes in ((1, 2), (2, 3)))
    with pytest.raises(ValueError, match=r"overlap: \d+ of 40 source inputs are in both"):
        Pair(source=low, target=high)()


@pytest.fixture
def photos(tmp_path: Path) -> str:
    for number in range(24):
        place = tmp_path / "photos" / ("cat", "dog", "unlabeled")[number % 3]
        place.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (9, 6), (number, 0, 0)).save(place / f"{number:02}.png")
    return str(tmp_path / "photos")


def test_a_folder_is_read_as_the_settings_say(photos: str) -> None:
    task = FewLabels(photos, labels=None, test=0, size=5, color=False)()
    assert (task.shape, len(task.labeled), len(task.unlabeled), task.test) == ((1, 5, 5), 16, 8, None)
    task = FewLabels(photos, labels=4, test=6, size=(4, 7))()
    assert (task.shape, len(task.labeled), len(task.unlabeled)) == ((3, 4, 7), 4, 14)
    assert len(task.held_out) == 6


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"size": (4, 5, 6)}, r"size must be one side or \(height, width\), got \(4, 5, 6\)"),
        ({"size": 0}, "size must be a whole number of at least 1, got 0"),
        ({"color": "yes"}, "color must be True or False, got 'yes'"),
        ({"test": -1}, "test must be a whole number of at least 0, got -1"),
    ],
)
def test_settings_of_a_folder_are_checked(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FewLabels("photos", **settings)


def test_data_in_memory_are_as_they_are(data: DataSet) -> None:
    with pytest.raises(ValueError, match="size applies to files and folders, and 'toy' is in memory: leave it out"):
        FewLabels(data, labels=4, size=3)()


def test_a_task_knows_its_kind() -> None:
    assert FewLabels("digits", classes=(1, 7), labels=4)().kind == "digits"


@pytest.mark.parametrize(
    "settings",
    [
        {"labels": None, "test": 0},
        {"labels": 4},
        {"labels": None, "test": 6, "labeled_in_pool": True},
        {"labels": 0, "test": 0, "size": 3, "color": False},
        {"labels": 2, "test": 0, "classes": (1, 0), "validation": 4, "size": 4, "shrink": 2},
    ],
)
def test_the_outline_is_that_of_the_task(photos: str, settings: dict[str, Any]) -> None:
    np.savez(f"{photos}.npz", images=np.zeros((20, 6, 9), np.uint8), labels=np.arange(20) % 2)
    for place in (photos, f"{photos}.npz"):
        own = {k: v for k, v in settings.items() if place == photos or k not in ("size", "color", "shrink")}
        few = FewLabels(place, **own)
        task, found = few(), few.outline()
        assert (found.classes, found.shape) == (len(task.classes), task.shape)
        assert (found.labeled, found.pool) == (len(task.labeled), len(task.unlabeled))
        assert found.measured is (task.test is not None or task.validation is not None)
