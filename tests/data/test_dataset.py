"""Semi-supervised tasks from labelled data sets."""

import numpy as np
import pytest
import torch

from refprior.data._dataset import DataSet, data_set, few_labels, held_out, only, strangers
from refprior.data._digits import digits
from refprior.data._error import DataError

LABELS = np.arange(400) % 4
IMAGES = np.zeros((400, 1, 2, 2), dtype=np.uint8)
IMAGES[:, 0, 0, 0], IMAGES[:, 0, 0, 1] = np.arange(400) // 256, np.arange(400) % 256  # every image knows its index
IMAGES[:, 0, 1, 0] = LABELS
FIXED_0 = [17, 183, 200, 310]
FIXED_7 = [9, 26, 175, 252]
HELD_OUT = [73, 104, 117, 170, 219, 339, 344, 386]
DIGITS_LABELS = [0, 8, 3, 7, 1, 2, 5, 4, 6, 9]
DIGITS_SUMS = [5484, 4830, 4462, 4306, 6423, 5498, 4414, 5034, 4718, 4924]


def index(images: torch.Tensor) -> list[int]:
    return (images[:, 0, 0, 0].int() * 256 + images[:, 0, 0, 1]).tolist()


@pytest.fixture
def data() -> DataSet:
    return data_set("toy", "abcd", (IMAGES[:320], LABELS[:320]), (IMAGES[320:], LABELS[320:]))


def test_parts_are_disjoint_and_whole(data: DataSet) -> None:
    task = few_labels(data, labels=3, seed=5, validation=10)
    assert task.validation is not None
    parts = [index(p) for p in (task.labelled.images, task.validation.images, task.unlabelled, task.test.images)]
    assert [len(p) for p in parts] == [12, 40, 268, 80]
    assert sorted(i for p in parts for i in p) == list(range(400))
    assert np.bincount(task.labelled.labels).tolist() == [3] * 4
    assert np.bincount(task.validation.labels).tolist() == [10] * 4
    assert torch.equal(task.labelled.images[:, 0, 1, 0].long(), task.labelled.labels)


def test_indices_are_fixed_for_ever(data: DataSet) -> None:
    assert index(few_labels(data, 1, seed=0).labelled.images) == FIXED_0
    assert index(few_labels(data, 1, seed=7, validation=2).labelled.images) == FIXED_7
    task = digits(labels=1, seed=0)
    assert task.labelled.labels.tolist() == DIGITS_LABELS
    assert task.labelled.images.int().sum((1, 2, 3)).tolist() == DIGITS_SUMS


def test_labelled_images_may_stay_in_the_pool(data: DataSet) -> None:
    task = few_labels(data, 3, labelled_in_pool=True)
    assert len(task.unlabelled) == 320
    assert set(index(task.labelled.images)) <= set(index(task.unlabelled))


def test_all_images_can_be_labelled(data: DataSet) -> None:
    task = few_labels(data, None, validation=5)
    assert (len(task.labelled), len(task.unlabelled)) == (300, 0)


def test_an_imbalanced_pool_leaves_the_labels_balanced(data: DataSet) -> None:
    task = few_labels(data, 5, imbalance=15)
    assert np.bincount(task.labelled.labels).tolist() == [5] * 4
    assert np.bincount(task.unlabelled[:, 0, 1, 0]).tolist() == [75, 30, 12, 5]


def test_strangers_join_the_pool_and_nothing_else(data: DataSet) -> None:
    part = only(data, [3, 1])
    task = few_labels(part, 2, extra=strangers(data, [3, 1], 7, seed=0))
    assert len(task.unlabelled) == 160 - 4 + 7
    assert set(task.unlabelled[-7:, 0, 1, 0].tolist()) <= {0, 2}
    assert set(task.unlabelled[:-7, 0, 1, 0].tolist()) == {1, 3}


def test_only_renumbers_in_the_order_given(data: DataSet) -> None:
    part = only(data, [3, 1])
    assert part.classes == ("d", "b")
    assert part.train.images[:, 0, 1, 0].unique().tolist() == [1, 3]
    assert torch.equal(part.train.labels == 0, part.train.images[:, 0, 1, 0] == 3)


def test_a_held_out_part_is_the_same_for_everyone() -> None:
    made = held_out("toy", "abcd", (IMAGES, LABELS), test=2)
    assert index(made.test.images) == HELD_OUT
    assert len(made.train) == 392


def test_what_cannot_be_is_named_with_its_numbers(data: DataSet) -> None:
    with pytest.raises(ValueError, match="asked for 81 examples of class 0, which has 80"):
        few_labels(data, 81)
    with pytest.raises(ValueError, match="asked for 21 examples of class 0, which has 20"):
        few_labels(data, 21, validation=60)
    with pytest.raises(ValueError, match="labels a class must be at least 0, got -1"):
        few_labels(data, -1)
    with pytest.raises(ValueError, match=r"\[1, 4\] must be different numbers of 0 … 3"):
        only(data, [1, 4])
    with pytest.raises(ValueError, match="asked for 161 images of other classes, there are 160"):
        strangers(data, [0, 1], 161, seed=0)
    with pytest.raises(ValueError, match=r"extra images are \(1, 3, 2\)"):
        few_labels(data, 1, extra=torch.zeros(1, 1, 3, 2, dtype=torch.uint8))
    with pytest.raises(DataError, match=r"toy: class 4 \(e\) has no train images"):
        data_set("toy", "abcde", (IMAGES, LABELS), (IMAGES, LABELS))
    with pytest.raises(ValueError, match="toy train label 3 at index 3 is outside 0 … 2"):
        data_set("toy", "abc", (IMAGES, LABELS), (IMAGES, LABELS))
    with pytest.raises(ValueError, match="toy test label -1 at index 0"):
        data_set("toy", "abcd", (IMAGES, LABELS), (IMAGES, LABELS - 1))
