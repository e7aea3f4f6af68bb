"""Tasks: what they keep, and messages that name what is wrong."""

import numpy as np
import pytest
import torch

from refprior.data._task import Task, task_from_arrays

RANDOM = np.random.RandomState(0)
IMAGES = RANDOM.randint(0, 256, (3000, 3, 5, 4)).astype(np.uint8)
LABELS = np.arange(3000) % 3


def task(**changes: object) -> Task:
    parts: dict[str, object] = {
        "labelled": (IMAGES[:6], LABELS[:6]),
        "unlabelled": IMAGES[6:2900],
        "test": (IMAGES[2900:] // 2, LABELS[2900:]),
    }
    return task_from_arrays(**(parts | changes))  # type: ignore[arg-type]


def test_training_looks_at_labelled_and_unlabelled_images_only() -> None:
    made = task()
    assert torch.equal(torch.cat(made.training_images), torch.from_numpy(IMAGES[:2900]))
    assert made.shape == (3, 5, 4)


def test_tensors_are_taken_as_arrays_are() -> None:
    made = task(labelled=(torch.from_numpy(IMAGES[:6]), torch.from_numpy(LABELS[:6])))
    assert torch.equal(made.labelled.images, task().labelled.images)


def test_a_task_keeps_its_own_images() -> None:
    mine = IMAGES[:6].copy()
    made = task(labelled=(mine, LABELS[:6]))
    mine[:] = 0
    assert torch.equal(made.labelled.images, torch.from_numpy(IMAGES[:6]))


@pytest.mark.parametrize("kind", [np.uint8, np.float32, np.float64])
def test_a_pool_may_be_empty(kind: type) -> None:
    images: np.ndarray = IMAGES.astype(kind)
    made = task(labelled=(images[:6], LABELS[:6]), unlabelled=images[:0], test=(images[6:9], LABELS[6:9]))
    assert made.unlabelled.shape == (0, 3, 5, 4)
    assert torch.equal(torch.cat(made.training_images), made.labelled.images)


BROKEN = IMAGES[6:20].astype(np.float32)
BROKEN[3, 0, 1, 1] = np.nan
BAD: dict[str, dict[str, object]] = {
    r"unlabelled image 3 is not finite \(1 such images\)": {"unlabelled": BROKEN},
    "test label 3 at index 1 is outside 0 … 2": {"test": (IMAGES[:2], np.array([0, 3]))},
    "test label -1 at index 0": {"test": (IMAGES[:2], np.array([-1, 0]))},
    r"missing \[1\] of 3": {"labelled": (IMAGES[:3], np.array([0, 2, 2]))},
    "as many labels as images are needed: 5 for 6": {"labelled": (IMAGES[:6], LABELS[:5])},
    r"unlabelled images are \(1, 5, 4\), labelled \(3, 5, 4\)": {"unlabelled": IMAGES[6:20, :1]},
    "labelled labels must be integers, got float64": {"labelled": (IMAGES[:6], LABELS[:6] / 2)},
    "labelled label 1099511627776 at index 2 needs 1099511627777 classes, of 3 examples": {
        "labelled": (IMAGES[:3], np.array([0, 1, 2**40]))
    },
    "test images must be uint8 or floats, got int64": {"test": (IMAGES[:6].astype(np.int64), LABELS[:6])},
}


@pytest.mark.parametrize("message", BAD)
def test_bad_arrays_are_named_with_their_numbers(message: str) -> None:
    with pytest.raises(ValueError, match=message):
        task(**BAD[message])


def test_what_is_measured_is_the_test_part_or_else_the_validation_part() -> None:
    kept = (IMAGES[:9], LABELS[:9])
    assert task(validation=kept).held_out.images[0, 0, 0, 0] == IMAGES[2900, 0, 0, 0] // 2
    assert torch.equal(task(test=None, validation=kept).held_out.images, torch.from_numpy(IMAGES[:9]))
    with pytest.raises(ValueError, match="task 'arrays' has neither a test nor a validation part"):
        _ = task(test=None).held_out
    moved = task(test=None).to(torch.device("cpu"))
    assert moved.test is None


def test_what_no_run_could_use_is_refused() -> None:
    with pytest.raises(ValueError, match="the test part of task 'arrays' is empty: leave it out"):
        task(test=(IMAGES[:0], LABELS[:0]))
    with pytest.raises(ValueError, match="neither labelled nor unlabelled"):
        task(labelled=(IMAGES[:0], LABELS[:0]), unlabelled=IMAGES[:0], classes=["a", "b", "c"])
    with pytest.raises(ValueError, match=r"labels must be a row of numbers, got \(6, 1\)"):
        task(labelled=(IMAGES[:6], LABELS[:6, None]))
