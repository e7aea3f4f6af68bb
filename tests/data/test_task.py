"""Tasks: what they keep, and messages that name what is wrong."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from refprior.data import Standardize, Task, fingerprints, task_from_arrays

RANDOM = np.random.RandomState(0)
IMAGES = RANDOM.randint(0, 256, (3000, 3, 5, 4)).astype(np.uint8)
LABELS = np.arange(3000) % 3


def task(**changes: object) -> Task:
    parts: dict[str, object] = {
        "labeled": (IMAGES[:6], LABELS[:6]),
        "unlabeled": IMAGES[6:2900],
        "test": (IMAGES[2900:] // 2, LABELS[2900:]),
    }
    return task_from_arrays(**(parts | changes))  # type: ignore[arg-type]


def test_training_looks_at_labeled_and_unlabeled_images_only() -> None:
    made = task()
    assert torch.equal(torch.cat(made.training_inputs), torch.from_numpy(IMAGES[:2900]))
    assert made.shape == (3, 5, 4)


def test_tensors_are_taken_as_arrays_are() -> None:
    made = task(labeled=(torch.from_numpy(IMAGES[:6]), torch.from_numpy(LABELS[:6])))
    assert torch.equal(made.labeled.inputs, task().labeled.inputs)


def test_a_task_keeps_its_own_images() -> None:
    mine = IMAGES[:6].copy()
    made = task(labeled=(mine, LABELS[:6]))
    mine[:] = 0
    assert torch.equal(made.labeled.inputs, torch.from_numpy(IMAGES[:6]))


@pytest.mark.parametrize("kind", [np.uint8, np.float32, np.float64])
def test_a_pool_may_be_empty(kind: type) -> None:
    images: np.ndarray = IMAGES.astype(kind)
    made = task(labeled=(images[:6], LABELS[:6]), unlabeled=images[:0], test=(images[6:9], LABELS[6:9]))
    assert made.unlabeled.shape == (0, 3, 5, 4)
    assert torch.equal(torch.cat(made.training_inputs), made.labeled.inputs)


BROKEN = IMAGES[6:20].astype(np.float32)
BROKEN[3, 0, 1, 1] = np.nan
BAD: dict[str, dict[str, object]] = {
    r"unlabeled input 3 is not finite \(1 such inputs\)": {"unlabeled": BROKEN},
    "test label 3 at index 1 is outside 0 … 2": {"test": (IMAGES[:2], np.array([0, 3]))},
    "test label -1 at index 0": {"test": (IMAGES[:2], np.array([-1, 0]))},
    r"missing \[1\] of 3": {"labeled": (IMAGES[:3], np.array([0, 2, 2]))},
    "expected one label per input, got 5 for 6": {"labeled": (IMAGES[:6], LABELS[:5])},
    r"unlabeled inputs are \(1, 5, 4\), labeled \(3, 5, 4\)": {"unlabeled": IMAGES[6:20, :1]},
    "labeled labels must be whole numbers or names, got float64": {"labeled": (IMAGES[:6], LABELS[:6] / 2)},
    "labeled label 1099511627776 at index 2 needs 1099511627777 classes, of 3 examples": {
        "labeled": (IMAGES[:3], np.array([0, 1, 2**40]))
    },
    "test inputs must be uint8 or floats, got int64": {"test": (IMAGES[:6].astype(np.int64), LABELS[:6])},
}


@pytest.mark.parametrize("message", BAD)
def test_bad_arrays_are_named_with_their_numbers(message: str) -> None:
    with pytest.raises(ValueError, match=message):
        task(**BAD[message])


VECTORS = RANDOM.randint(-9, 10, (3000, 7))


def vectors(kind: type) -> Task:
    values: np.ndarray = VECTORS.astype(kind)
    return task(labeled=(values[:6], LABELS[:6]), unlabeled=values[6:90], test=(values[90:], LABELS[90:]))


@pytest.mark.parametrize(
    ("kind", "kept"),
    [
        (np.float64, torch.float32),
        (np.float16, torch.float32),
        (np.bool_, torch.float32),
        (np.int16, torch.int64),
        (np.int64, torch.int64),
        (np.uint8, torch.uint8),
    ],
)
def test_vectors_may_be_any_numbers(kind: type, kept: torch.dtype) -> None:
    made = vectors(kind)
    assert made.shape == (7,)
    assert made.labeled.inputs.dtype == made.unlabeled.dtype == made.held_out.inputs.dtype == kept
    assert np.array_equal(made.unlabeled.numpy(), VECTORS[6:90].astype(kind).astype(np.float64))
    inputs = Standardize().fit(made.training_inputs)(made.unlabeled)
    assert inputs.dtype == torch.float32
    assert made.fingerprint() == vectors(kind).fingerprint()


NAMES = np.array(["dog", "cat", "owl"])


@pytest.mark.parametrize("named", [True, False])
def test_labels_may_be_names_and_those_that_are_none_belong_to_the_pool(named: bool) -> None:
    numbers = np.array([0, 1, 2, 0, -1, 1])
    labels = np.where(numbers < 0, None, NAMES[numbers]) if named else numbers
    test = NAMES[LABELS[90:99]] if named else LABELS[90:99]
    made = task(labeled=(VECTORS[:6], labels), unlabeled=VECTORS[6:9], test=(VECTORS[90:99], test))
    assert made.classes == (("cat", "dog", "owl") if named else ("0", "1", "2"))
    order = np.array([1, 0, 2]) if named else np.arange(3)
    assert made.labeled.labels.tolist() == order[[0, 1, 2, 0, 1]].tolist()
    assert made.held_out.labels.tolist() == order[LABELS[90:99]].tolist()
    assert np.array_equal(made.labeled.inputs, VECTORS[[0, 1, 2, 3, 5]])
    assert np.array_equal(made.unlabeled, VECTORS[[6, 7, 8, 4]])


def test_names_are_counted_as_the_classes_say_and_others_are_rejected() -> None:
    given = VECTORS[:3], NAMES
    made = task(labeled=given, unlabeled=VECTORS, test=None, classes=list(NAMES))
    assert made.labeled.labels.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="test label 'hen' is none of the classes cat, dog, owl"):
        task(labeled=given, unlabeled=VECTORS, test=(VECTORS[:1], np.array(["hen"])))


def test_sparse_rows_become_dense() -> None:
    rows = csr_matrix(VECTORS.astype(np.float64))
    made = task(labeled=(rows[:6], LABELS[:6]), unlabeled=rows[6:90], test=None)
    assert np.array_equal(made.unlabeled, VECTORS[6:90])


SEQUENCES = RANDOM.rand(6, 9, 4)


def test_sequences_of_floats_are_taken() -> None:
    made = task(labeled=(SEQUENCES, LABELS[:6]), unlabeled=SEQUENCES, test=None)
    assert made.shape == (9, 4)


SHAPES: dict[str, np.ndarray] = {
    r"\(6, 28, 28\), images are \(n, channels, height, width\): use x\[:, None\]": np.zeros((6, 28, 28)),
    r"\(6, 9, 4\), images are \(n, channels, height, width\): use x\[:, None\]": np.zeros((6, 9, 4), np.uint8),
    r"\(6, 32, 30, 3\), images are .* use np\.moveaxis\(x, -1, 1\)": np.zeros((6, 32, 30, 3), np.uint8),
    r"\(6, 28, 28, 1\), images are .* use np\.moveaxis\(x, -1, 1\)": np.zeros((6, 28, 28, 1)),
    r"\(6, 32, 30, 4\), images are .* use np\.moveaxis\(x, -1, 1\)": np.zeros((6, 32, 30, 4), np.uint8),
    r"\(6,\), expected \(n, features\)": np.zeros(6),
    r"\(6, 0\), expected \(n, features\)": np.zeros((6, 0)),
}


@pytest.mark.parametrize("message", SHAPES)
def test_shapes_that_are_not_of_inputs_are_rejected_with_a_remedy(message: str) -> None:
    inputs = SHAPES[message]
    with pytest.raises(ValueError, match=f"labeled inputs are {message}") as caught:
        task(labeled=(inputs, LABELS[:6]), unlabeled=inputs, test=None)
    assert "\n" not in str(caught.value)


def test_what_is_measured_is_the_test_part_or_else_the_validation_part() -> None:
    kept = (IMAGES[:9], LABELS[:9])
    assert task(validation=kept).held_out.inputs[0, 0, 0, 0] == IMAGES[2900, 0, 0, 0] // 2
    assert torch.equal(task(test=None, validation=kept).held_out.inputs, torch.from_numpy(IMAGES[:9]))
    with pytest.raises(ValueError, match="task 'arrays' has neither a test nor a validation part"):
        _ = task(test=None).held_out
    moved = task(test=None).to(torch.device("cpu"))
    assert moved.test is None


def test_what_no_run_could_use_is_rejected() -> None:
    with pytest.raises(ValueError, match="the test part of task 'arrays' is empty: leave it out"):
        task(test=(IMAGES[:0], LABELS[:0]))
    with pytest.raises(ValueError, match="neither labeled nor unlabeled"):
        task(labeled=(IMAGES[:0], LABELS[:0]), unlabeled=IMAGES[:0], classes=["a", "b", "c"])
    with pytest.raises(ValueError, match=r"labels must be a row of numbers, got \(6, 1\)"):
        task(labeled=(IMAGES[:6], LABELS[:6, None]))


def test_names_are_as_many_as_what_they_name() -> None:
    rows = {"labeled": (IMAGES[:6, 0, 0], LABELS[:6]), "unlabeled": IMAGES[6:9, 0, 0], "test": None}
    made = task(**rows, names=["a", "b", "c"], features=["w", "x", "y", "z"])
    assert (made.input_name(1), task().input_name(7), task(**rows).input_name(7)) == ("b", "image 7", "input 7")
    assert made.to(torch.device("cpu")).names == ("a", "b", "c")
    with pytest.raises(ValueError, match="2 names for 3 unlabeled inputs"):
        task(**rows, names=["a", "b"])
    with pytest.raises(ValueError, match=r"3 names of features for inputs of \(4,\)"):
        task(**rows, features=["a", "b", "c"])


def test_fingerprints_tell_inputs_apart_by_their_bytes() -> None:
    rows = torch.tensor([[0.0, 1.0], [-0.0, 1.0], [1.0, 0.0]])
    found = fingerprints(rows)
    assert found.dtype == torch.int64
    assert found[0] == found[1]
    assert found[0] != found[2]
    assert fingerprints(rows[2:]).tolist() == found[2:].tolist()
    assert fingerprints(rows.double())[0] != found[0]
    nothing = fingerprints(rows[:0])
    assert nothing.shape == (0,)
    assert nothing.stride() == (1,)  # a file takes no other
