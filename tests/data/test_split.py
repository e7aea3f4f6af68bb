"""Splits: the same indices on every platform and in every version."""

import numpy as np
import pytest

from refprior.data._data_set import long_tail, per_class, with_label_noise, without

LABELS = np.arange(100) % 4
PER_CLASS_0 = [8, 20, 31, 38, 49, 57, 70, 87]
PER_CLASS_1 = [52, 56, 63, 66, 83, 89, 97, 98]
LONG_TAIL_0 = [0, 4, 5, 7, 8, 12, 16, 17, 20, 24, 25, 28]


def test_indices_are_fixed_for_ever() -> None:
    assert per_class(LABELS, 8, seed=0).tolist() == PER_CLASS_0
    assert per_class(LABELS, 8, seed=1).tolist() == PER_CLASS_1
    assert long_tail(LABELS, 8, seed=0)[:12].tolist() == LONG_TAIL_0


def test_every_class_gets_its_count() -> None:
    chosen = per_class(LABELS, 28, seed=3)
    assert np.bincount(LABELS[chosen]).tolist() == [7, 7, 7, 7]
    assert len(set(chosen.tolist())) == 28


def test_without_is_the_complement() -> None:
    assert without(6, np.array([1, 4]), np.array([4, 5])).tolist() == [0, 2, 3]


def test_a_long_tail_falls_geometrically() -> None:
    assert np.bincount(LABELS[long_tail(LABELS, 8, seed=0)]).tolist() == [25, 12, 6, 3]


def test_mistakes_are_as_many_as_asked_for_and_never_right() -> None:
    wrong = with_label_noise(LABELS, 0.2, classes=4, seed=0)
    assert (wrong != LABELS).sum() == 20
    assert wrong.min() >= 0
    assert wrong.max() < 4
    assert with_label_noise(LABELS, 0.2, classes=4, seed=0).tolist() == wrong.tolist()
    assert with_label_noise(LABELS, 0.2, classes=4, seed=1).tolist() != wrong.tolist()


def test_too_few_examples_are_named() -> None:
    with pytest.raises(ValueError, match="examples must be at most 100, 25 of each of 4 classes, got 104"):
        per_class(LABELS, 104, seed=0)
    uneven = np.concatenate([LABELS, [0, 0]])
    assert len(per_class(uneven, 100, seed=0)) == 100
    with pytest.raises(ValueError, match="labels must be at most 100, 25 of each of 4 classes, got 104"):
        per_class(uneven, 104, seed=0, what="labels")


def test_a_count_must_divide_into_classes() -> None:
    with pytest.raises(ValueError, match=r"labels must be a multiple of the 4 classes, for example \d+, got 6"):
        per_class(LABELS, 6, seed=0, what="labels")
    assert per_class(LABELS, 0, seed=0).tolist() == []


@pytest.mark.parametrize("ratio", [0.5, float("nan")])
def test_an_impossible_ratio_is_rejected(ratio: float) -> None:
    with pytest.raises(ValueError, match="ratio"):
        long_tail(LABELS, ratio, seed=0)
