"""Labeled data sets, and parts of them."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from refprior.data import FewLabels
from refprior.data._data_set import DataSet, data_set, held_out, inputs_of_other_classes, subset
from refprior.data.files._error import DataError

LABELS = np.arange(400) % 4
IMAGES = np.zeros((400, 1, 2, 2), dtype=np.uint8)
IMAGES[:, 0, 0, 0], IMAGES[:, 0, 0, 1] = np.arange(400) // 256, np.arange(400) % 256  # every image knows its index
IMAGES[:, 0, 1, 0] = LABELS
HELD_OUT = [73, 104, 117, 170, 219, 339, 344, 386]


def index(images: torch.Tensor) -> list[int]:
    return (images[:, 0, 0, 0].int() * 256 + images[:, 0, 0, 1]).tolist()


@pytest.fixture
def data() -> DataSet:
    return data_set("toy", "abcd", (IMAGES[:320], LABELS[:320]), (IMAGES[320:], LABELS[320:]))


def test_a_subset_renumbers_in_the_order_given(data: DataSet) -> None:
    part = subset(replace(data, test_groups=tuple(map(str, LABELS[320:]))), [3, 1])
    assert part.classes == ("d", "b")
    assert set(part.test_groups) == {"1", "3"}
    assert part.train.inputs[:, 0, 1, 0].unique().tolist() == [1, 3]
    assert torch.equal(part.train.labels == 0, part.train.inputs[:, 0, 1, 0] == 3)
    assert part.test is not None
    assert torch.equal(part.test.labels == 0, part.test.inputs[:, 0, 1, 0] == 3)


def test_a_subset_is_named_by_its_classes(data: DataSet) -> None:
    assert subset(data, [3, 1]).name == "toy-d-b"
    assert subset(data, [3, 1], "odd").name == "odd"


def test_foreign_images_are_of_the_other_classes(data: DataSet) -> None:
    others = inputs_of_other_classes(data, [3, 1], 7, seed=0)
    assert len(others) == 7
    assert set(others[:, 0, 1, 0].tolist()) <= {0, 2}
    assert index(others) == sorted(index(others))
    assert torch.equal(others, inputs_of_other_classes(data, [3, 1], 7, seed=0))
    assert not torch.equal(others, inputs_of_other_classes(data, [3, 1], 7, seed=1))


def test_a_held_out_part_is_the_same_for_everyone() -> None:
    made = held_out("toy", "abcd", (IMAGES, LABELS), test=8)
    assert made.test is not None
    assert index(made.test.inputs) == HELD_OUT
    assert len(made.train) == 392


def test_what_cannot_be_is_named_with_its_numbers(data: DataSet) -> None:
    with pytest.raises(DataError, match="toy: expected one group per test input, got 1 for 80"):
        replace(data, test_groups=("a",))
    with pytest.raises(ValueError, match=r"\[1, 4\] must be different numbers of 0 … 3"):
        subset(data, [1, 4])
    with pytest.raises(ValueError, match=r"\[1, 1\] must be different numbers of 0 … 3"):
        subset(data, [1, 1])
    with pytest.raises(
        ValueError, match="out_of_distribution must be at most 160, the inputs of the other classes, got 161"
    ):
        inputs_of_other_classes(data, [0, 1], 161, seed=0)
    with pytest.raises(ValueError, match=r"test must be a multiple of the 4 classes, for example \d+, got 6"):
        held_out("toy", "abcd", (IMAGES, LABELS), test=6)
    with pytest.raises(DataError, match=r"toy: class 4 \(e\) has no train inputs"):
        data_set("toy", "abcde", (IMAGES, LABELS), (IMAGES, LABELS))
    with pytest.raises(ValueError, match="toy train label 3 at index 3 is outside 0 … 2"):
        data_set("toy", "abc", (IMAGES, LABELS), (IMAGES, LABELS))
    with pytest.raises(ValueError, match="toy test label -1 at index 0"):
        data_set("toy", "abcd", (IMAGES, LABELS), (IMAGES, LABELS - 1))


def test_names_stay_with_their_images_through_every_division() -> None:
    """Every name is the index that its image knows: in the pool of a task they still are the same."""
    made = held_out("toy", "abcd", (IMAGES, LABELS), 8)
    everything = replace(made, names=tuple(map(str, index(made.train.inputs))))
    assert everything.test is not None
    more = replace(everything, unlabeled=everything.test.inputs, names=(*everything.names, *"abcdefgh"))
    for few in (FewLabels(more, labels=8, validation=4), FewLabels(more, labels=4, classes=(3, 1), imbalance=3)):
        task = few()
        assert [int(name) for name in task.names[:-8]] == index(task.unlabeled[:-8])
        assert task.names[-8:] == tuple("abcdefgh")
    assert FewLabels(more, labels=4, classes=(3, 1), out_of_distribution=5)().names == ()
    with pytest.raises(DataError, match="toy: 2 names for 392 inputs"):
        replace(everything, names=("a", "b"))
