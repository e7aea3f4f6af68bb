"""What identifies data: equal for equal data, another one for any change, and words that say what changed."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from refprior.data import Examples, Task, task_from_arrays
from refprior.training.store import check_same_data

RANDOM = np.random.RandomState(0)
IMAGES = RANDOM.randint(0, 256, (60, 1, 4, 4)).astype(np.uint8)
LABELS = np.arange(60) % 3


def task() -> Task:
    return task_from_arrays(
        (IMAGES[:9], LABELS[:9]),
        IMAGES[9:40],
        (IMAGES[40:50], LABELS[40:50]),
        validation=(IMAGES[50:], LABELS[50:]),
    )


def one_pixel(images: torch.Tensor) -> torch.Tensor:
    changed = images.clone()
    changed[-1, 0, 3, 3] ^= 1
    return changed


def changed(part: Examples | None, *, images: bool = False, labels: bool = False, order: bool = False) -> Examples:
    assert part is not None
    made = Examples(one_pixel(part.inputs), part.labels) if images else part
    if labels:
        made = Examples(made.inputs, torch.cat([made.labels[:-1], (made.labels[-1:] + 1) % 3]))
    return made[torch.arange(len(made)).flip(0)] if order else made


def test_equal_data_have_equal_fingerprints() -> None:
    first, second = task().fingerprint(), task().fingerprint()
    assert first == second
    assert first.differences(second) == []
    assert (first.classes, first.shape, first.dtype) == (("0", "1", "2"), (1, 4, 4), "uint8")
    assert {name: part.count for name, part in first.parts.items()} == {
        "labeled": 9, "unlabeled": 31, "test": 10, "validation": 10
    }  # fmt: skip


def test_how_a_tensor_lies_in_memory_does_not_matter() -> None:
    made = task()
    last = made.unlabeled.contiguous(memory_format=torch.channels_last)
    turned = made.unlabeled.transpose(2, 3).contiguous().transpose(2, 3)
    for other in (last, turned):
        assert replace(made, unlabeled=other).fingerprint() == made.fingerprint()


@pytest.mark.parametrize("part", ["labeled", "test", "validation"])
@pytest.mark.parametrize("change", ["images", "labels", "order"])
def test_one_pixel_one_label_and_the_order_are_seen(part: str, change: str) -> None:
    made = task()
    others: dict[str, Any] = {part: changed(getattr(made, part), **{change: True})}
    other = replace(made, **others)
    count = len(getattr(made, part))
    assert made.fingerprint().differences(other.fingerprint()) == [f"{part}: {count} inputs of other content"]
    assert made.fingerprint().parts[part] != other.fingerprint().parts[part]


def test_one_pixel_and_the_order_of_the_pool_are_seen() -> None:
    made = task()
    for pool in (one_pixel(made.unlabeled), made.unlabeled.flip(0)):
        other = replace(made, unlabeled=pool)
        assert made.fingerprint().differences(other.fingerprint()) == ["unlabeled: 31 inputs of other content"]


def test_parts_that_are_gone_added_or_of_another_length_are_seen() -> None:
    made = task()
    known = made.fingerprint()
    assert known.differences(replace(made, validation=None).fingerprint()) == ["validation: 10 → 0 inputs"]
    assert replace(made, validation=None).fingerprint().differences(known) == ["validation: 0 → 10 inputs"]
    assert known.differences(replace(made, unlabeled=made.unlabeled[:-1]).fingerprint()) == [
        "unlabeled: 31 → 30 inputs"
    ]
    source = replace(made, source=made.labeled, source_classes=("a", "b", "c"))
    assert known.differences(source.fingerprint()) == [
        "source_classes: () → ('a', 'b', 'c')",
        "source: 0 → 9 inputs",
    ]


def test_other_classes_and_types_are_named() -> None:
    made = task()
    renamed = replace(made, classes=("a", "b", "c"))
    assert made.fingerprint().differences(renamed.fingerprint()) == ["classes: ('0', '1', '2') → ('a', 'b', 'c')"]
    floats = task_from_arrays((IMAGES[:9] / 255, LABELS[:9]), IMAGES[9:40] / 255, (IMAGES[40:50] / 255, LABELS[40:50]))
    changes = made.fingerprint().differences(floats.fingerprint())
    assert changes[0] == "dtype: uint8 → float32"
    assert changes[-1] == "validation: 10 → 0 inputs"


def test_a_task_without_labels_has_a_fingerprint() -> None:
    made = task()
    none = replace(made, labeled=made.labeled[torch.arange(0)])
    assert none.fingerprint().parts["labeled"].count == 0
    assert made.fingerprint().differences(none.fingerprint()) == ["labeled: 9 → 0 inputs"]


def test_other_data_are_refused_in_words() -> None:
    made = task()
    known = made.fingerprint()
    check_same_data(known, made, "the run in runs/x", "Take a new folder.")
    other = replace(made, labeled=changed(made.labeled, images=True), validation=None)
    message = (
        r"the run in runs/x was trained on other data: labeled: 9 inputs of other content; "
        r"validation: 10 → 0 inputs \(there → now\)\. Take a new folder\."
    )
    with pytest.raises(ValueError, match=message):
        check_same_data(known, other, "the run in runs/x", "Take a new folder.")
