"""npz files and torch data sets."""

import io
import time
import tracemalloc
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from refprior.data import DataSet, FewLabels, examples_from_dataset, task_from_arrays
from refprior.data._read import read_npz
from refprior.data.files._error import DataError
from refprior.data.files._npz import load_arrays
from tests.data.written import outcome
from tests.fuzz._mutations import bounded_memory

IMAGES = np.random.RandomState(0).randint(0, 256, (12, 5, 4, 3)).astype(np.uint8)
LABELS = np.arange(12) % 3


def save(path: Path, **arrays: Any) -> Path:
    np.savez_compressed(path, **arrays)
    return path


@pytest.mark.parametrize("images", [IMAGES, IMAGES.transpose(0, 3, 1, 2)])
def test_channels_last_and_first_are_read_alike(tmp_path: Path, images: np.ndarray) -> None:
    data = read_npz(save(tmp_path / "toy.npz", images=images, labels=LABELS, split=(np.arange(12) > 8).astype(int)))
    assert torch.equal(data.train.inputs, torch.from_numpy(IMAGES[:9].transpose(0, 3, 1, 2).copy()))
    assert data.test is not None
    assert data.test.labels.tolist() == [0, 1, 2]
    assert data.name == "toy"


def test_groups_are_those_of_the_test_part(tmp_path: Path) -> None:
    split = (np.arange(12) > 8).astype(int)
    path = save(tmp_path / "toy.npz", images=IMAGES, labels=LABELS, split=split, groups=np.arange(12))
    assert read_npz(path).test_groups == ("9", "10", "11")
    drawn = read_npz(save(path, images=IMAGES, labels=np.r_[-1, LABELS[1:]], groups=np.arange(12)), test=3)
    assert drawn.test is not None
    pixels = torch.from_numpy(IMAGES.transpose(0, 3, 1, 2).copy())
    assert torch.equal(drawn.test.inputs, pixels[[int(name) for name in drawn.test_groups]])
    named = read_npz(save(path, images=IMAGES, labels=LABELS, split=split, groups=np.where(split, "north", "south")))
    assert named.test_groups == ("north",) * 3
    with pytest.raises(DataError, match="groups must be integers or names, got float64"):
        read_npz(save(path, images=IMAGES, labels=LABELS, split=split, groups=np.arange(12.0)))
    with pytest.raises(DataError, match="groups must be one value for each input"):
        read_npz(save(path, images=IMAGES, labels=LABELS, split=split, groups=np.arange(11)))
    known, rest, held = (pixels[:9], LABELS[:9]), pixels[:0], (pixels[9:], LABELS[9:])
    task = task_from_arrays(known, rest, held, test_groups=["a", 7, "a"])
    assert task.test_groups == ("a", "7", "a")
    with pytest.raises(ValueError, match="expected one group per test input, got 2 for 3"):
        task_from_arrays(known, rest, held, test_groups=["a", "b"])


def test_gray_images_get_a_channel_and_a_test_part_is_drawn(tmp_path: Path) -> None:
    path = save(tmp_path / "toy.npz", images=IMAGES[..., 0], labels=LABELS, classes=["a", "b", "c"])
    data = read_npz(path, test=3)
    assert (data.classes, data.train.inputs.shape) == (("a", "b", "c"), (9, 1, 5, 4))
    assert (read_npz(path).test, len(read_npz(path).train)) == (None, 12)


def test_bad_files_are_named(tmp_path: Path) -> None:
    path = save(tmp_path / "toy.npz", pictures=IMAGES)
    with pytest.raises(DataError, match=r"toy.npz: no arrays \['labels'\] among \['pictures'\]"):
        read_npz(path)
    with pytest.raises(DataError, match=r"toy.npz: needs an array `images` or `inputs`, one of them"):
        read_npz(save(path, labels=LABELS))
    with pytest.raises(DataError, match=r"toy.npz: needs an array `images` or `inputs`, one of them"):
        read_npz(save(path, images=IMAGES, inputs=IMAGES, labels=LABELS))
    save(path, pictures=IMAGES)
    whole = path.read_bytes()
    for content in (b"", b"nothing", whole[:-30], whole[:400] + b"\0\1\2" + whole[403:]):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"toy.npz: not a readable"):
            load_arrays(path, ("pictures",))
    with pytest.raises(DataError, match=r"labels must be one value for each input, shape \(12,\), got \(11,\)"):
        read_npz(save(path, images=IMAGES, labels=LABELS[1:], split=LABELS))
    with pytest.raises(DataError, match="split must be integers, got float64"):
        read_npz(save(path, images=IMAGES, labels=LABELS, split=LABELS / 2))
    with pytest.raises(DataError, match=r"images of shape \(0, 5, 4, 3\) are empty"):
        read_npz(save(path, images=IMAGES[:0], labels=LABELS[:0], split=LABELS[:0]))
    with pytest.raises(DataError, match=r"images of shape \(12, 5, 4, 2\)"):
        read_npz(save(path, images=IMAGES[..., :2], labels=LABELS, split=LABELS))


def test_a_label_far_too_large_is_named_and_allocates_nothing(tmp_path: Path) -> None:
    labels = LABELS.copy()
    labels[7] = 2**40
    path = save(tmp_path / "toy.npz", images=IMAGES, labels=labels, split=(np.arange(12) > 8).astype(int))
    with pytest.raises(
        ValueError, match=r"toy.npz: the label 1099511627776 at index 7 needs 1099511627777 classes, of 12"
    ):
        read_npz(path)


@pytest.mark.parametrize("odd", [2, -1])
def test_a_row_of_no_part_is_named(tmp_path: Path, odd: int) -> None:
    split = (np.arange(12) > 5).astype(int)
    split[4] = odd
    with pytest.raises(DataError, match=rf"toy.npz: split {odd} at index 4, expected 0 \(train\) or 1 \(test\)"):
        read_npz(save(tmp_path / "toy.npz", images=IMAGES, labels=LABELS, split=split))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"gone.npz: not a readable .npz file, there is no such file"):
        read_npz(tmp_path / "gone.npz")


def test_a_foreign_compression_is_not_readable(tmp_path: Path) -> None:
    path = save(tmp_path / "toy.npz", images=IMAGES, labels=LABELS)
    content = path.read_bytes()
    for header, place in ((b"PK\3\4", 8), (b"PK\1\2", 10)):  # a method of compression that zipfile does not have
        at = content.index(header) + place
        content = content[:at] + b"\x61\0" + content[at + 2 :]
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"toy.npz, images.npy: packed by method 97, not numpy's"):
        read_npz(path)


@given(data=st.data())
def test_mutated_files_raise_nothing_but_errors_in_words(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The headers of arrays inside a zip file that is sound, or the bytes of the zip file."""
    path = tmp_path_factory.getbasetemp() / "mutated.npz"
    arrays: dict[str, np.ndarray] = {"images": IMAGES, "labels": LABELS, "split": LABELS // 2}
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            archive.writestr(f"{name}.npy", mutated(data, npy(array), 80))
    if data.draw(st.booleans()):
        path.write_bytes(mutated(data, path.read_bytes(), path.stat().st_size))
    outcome(lambda: load_arrays(path, ("images", "labels"), ("split",)))


def npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def mutated(data: st.DataObject, content: bytes, end: int) -> bytes:
    """Up to two of the first `end` bytes are others, often ones that mean something in a header."""
    changed = bytearray(content)
    for _ in range(data.draw(st.integers(0, 2))):
        new = st.one_of(st.sampled_from(b"'(){}[]:,L0O"), st.integers(0, 255))
        changed[data.draw(st.integers(0, end - 1))] = data.draw(new)
    return bytes(changed)


def test_pickled_objects_are_not_read(tmp_path: Path) -> None:
    path = save(tmp_path / "toy.npz", images=np.array([{"a": 1}], dtype=object), labels=LABELS)
    with pytest.raises(DataError, match=r"toy.npz, images: not an array of numbers or text"):
        read_npz(path)


def test_nan_is_named_with_its_index(tmp_path: Path) -> None:
    images = IMAGES.astype(np.float32)
    images[4, 0, 0, 0] = np.nan
    with pytest.raises(ValueError, match="toy train input 4 is not finite"):
        read_npz(save(tmp_path / "toy.npz", images=images, labels=LABELS, split=(np.arange(12) > 8).astype(int)))


def test_labels_of_minus_one_and_an_array_of_their_own_are_the_pool(tmp_path: Path) -> None:
    labels = np.where(np.arange(12) < 6, LABELS, -1)
    path = save(tmp_path / "toy.npz", images=IMAGES, labels=labels, unlabeled=IMAGES[:2])
    data = read_npz(path)
    assert data.train.labels.tolist() == [0, 1, 2, 0, 1, 2]
    assert data.classes == ("0", "1", "2")
    assert data.unlabeled is not None
    assert torch.equal(data.unlabeled, torch.from_numpy(IMAGES[[*range(6, 12), 0, 1]].transpose(0, 3, 1, 2).copy()))
    task = FewLabels(str(path), labels=None)()
    assert (len(task.labeled), len(task.unlabeled), task.test) == (6, 8, None)


def test_vectors_are_read_by_either_name(tmp_path: Path) -> None:
    rows = np.arange(60.0).reshape(12, 5)
    for name in ("images", "inputs"):
        data = read_npz(save(tmp_path / "toy.npz", labels=LABELS, **{name: rows}), test=3)
        assert (data.train.inputs.shape, data.train.inputs.dtype, data.kind) == ((9, 5), torch.float32, "vectors")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"labels": np.full(12, -2)}, "label -2 at index 0 is outside"),
        ({"labels": np.full(12, -1)}, "none of 12 inputs has a label: each class needs one"),
        ({"labels": np.where(np.arange(12) < 11, LABELS, -1), "split": np.arange(12) // 6}, "input 11 is to test and"),
        ({"unlabeled": IMAGES[:2, 1:]}, r"unlabeled inputs are \(3, 4, 4\) uint8, the others \(3, 5, 4\) uint8"),
        ({"unlabeled": IMAGES[:2] / 2}, r"unlabeled inputs are \(3, 5, 4\) float64, the others \(3, 5, 4\) uint8"),
    ],
)
def test_wrong_labels_and_pools_are_named(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        read_npz(save(tmp_path / "toy.npz", **{"images": IMAGES, "labels": LABELS, **arrays}))
    assert "toy.npz" in str(error.value)


class Pictures(Dataset[tuple[Image.Image, int]]):
    def __len__(self) -> int:
        return len(IMAGES)

    def __getitem__(self, index: int) -> tuple[Image.Image, int]:
        return Image.fromarray(IMAGES[index]), int(LABELS[index])


def test_torch_data_sets_of_tensors_and_pictures() -> None:
    tensors = TensorDataset(torch.from_numpy(IMAGES.transpose(0, 3, 1, 2).copy()), torch.from_numpy(LABELS))
    first, second = examples_from_dataset(tensors), examples_from_dataset(Pictures())
    assert torch.equal(first.inputs, second.inputs)
    assert torch.equal(first.labels, second.labels)


class Endless(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        yield torch.zeros(3, 2, 2), 0


class Items(Dataset[Any]):
    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Any:
        return self.items[index]


@pytest.mark.parametrize("label", [int, np.int64, torch.tensor])
@pytest.mark.parametrize(
    "item",
    [
        lambda image: image,
        lambda image: image.transpose(2, 0, 1),
        Image.fromarray,
        lambda image: torch.from_numpy(image.transpose(2, 0, 1).copy()),
    ],
)
def test_images_of_a_torch_data_set_are_read_alike(item: Any, label: Any) -> None:
    found = examples_from_dataset(Items([(item(image), label(n)) for image, n in zip(IMAGES, LABELS, strict=True)]))
    assert torch.equal(found.inputs, torch.from_numpy(IMAGES.transpose(0, 3, 1, 2).copy()))
    assert (found.labels.dtype, found.labels.tolist()) == (torch.int64, LABELS.tolist())


def test_vectors_gray_images_and_palettes_of_a_torch_data_set() -> None:
    assert examples_from_dataset(Items([(np.ones(4), 0), (np.zeros(4), 1)])).inputs.tolist() == [[1.0] * 4, [0.0] * 4]
    gray = IMAGES[0, :, :, 0]
    for image in (gray, Image.fromarray(gray)):
        assert examples_from_dataset(Items([(image, 0)])).inputs.tolist() == [[gray.tolist()]]
    palette = Image.fromarray(np.full((2, 2, 3), 200, np.uint8)).convert("P", palette=Image.Palette.ADAPTIVE)
    assert examples_from_dataset(Items([(palette, 0)])).inputs.unique().tolist() == [200]


def test_a_torch_data_set_is_any_part_of_a_task() -> None:
    labeled, rest = Items([(image, n) for image, n in zip(IMAGES, LABELS, strict=True)]), Items(list(IMAGES))
    task = task_from_arrays(labeled, rest, test=labeled, validation=examples_from_dataset(labeled))
    arrays = IMAGES.transpose(0, 3, 1, 2)
    same = task_from_arrays((arrays, LABELS), arrays, (arrays, LABELS), validation=(arrays, LABELS))
    assert task.fingerprint() == same.fingerprint()
    assert torch.equal(task_from_arrays(labeled, labeled).unlabeled, task.unlabeled)
    known = DataSet("mine", ("a", "b", "c"), examples_from_dataset(labeled))
    assert len(FewLabels(known, labels=6)().unlabeled) == 6


def test_items_that_do_not_fit_are_named() -> None:
    good, gray, broken = torch.zeros(3, 2, 2), torch.zeros(1, 2, 2), torch.full((3, 2, 2), torch.nan)
    with pytest.raises(DataError, match=r"item 1 is \(1, 2, 2\)"):
        examples_from_dataset(Items([(good, 0), (gray, 1)]))
    with pytest.raises(DataError, match="item 1 is not finite"):
        examples_from_dataset(Items([(good, 0), (broken, 1)]))
    with pytest.raises(DataError, match=r"item 0 is not \(input, label\) but a Tensor"):
        examples_from_dataset(Items([good]))
    with pytest.raises(DataError, match="is empty"):
        examples_from_dataset(Items([]))
    with pytest.raises(DataError, match=r"item 1 has label 0\.5, expected a whole number"):
        examples_from_dataset(Items([(good, 0), (good, 0.5)]))
    with pytest.raises(DataError, match="item 0 is a str, expected a tensor, an array or a Pillow image"):
        examples_from_dataset(Items([("cat.png", 0)]))
    with pytest.raises(DataError, match=r"Endless has no len\(\): give a map-style data set"):
        examples_from_dataset(Endless())


def test_whole_numbers_name_classes(tmp_path: Path) -> None:
    arrays = {"images": IMAGES, "labels": LABELS, "split": (np.arange(12) > 8).astype(int)}
    assert read_npz(save(tmp_path / "toy.npz", **arrays, classes=np.array([3, 5, 8]))).classes == ("3", "5", "8")
    for names in (np.array([0.5, 1, 2]), np.array([["a"], ["b"], ["c"]]), np.array([b"a", b"b", b"c"])):
        with pytest.raises(
            DataError, match=r"toy\.npz.*(row of text or whole numbers|not an array of numbers or text)"
        ):
            read_npz(save(tmp_path / "toy.npz", **arrays, classes=names))
    with pytest.raises(DataError, match=r"toy.npz: .*name of a class is 'b\\n', expected printable text"):
        read_npz(save(tmp_path / "toy.npz", **arrays, classes=np.array(["a", "b\n", "c"])))


def test_arrays_that_nobody_asked_for_are_not_read(tmp_path: Path) -> None:
    path = save(tmp_path / "toy.npz", images=IMAGES, labels=LABELS, split=(np.arange(12) > 8).astype(int))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("notes.npy", b"no array at all")
    assert len(read_npz(path).train) == 9


def test_an_array_that_unpacks_too_far_is_not_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "toy.npz"
    np.savez_compressed(path, images=np.zeros((1_600_000, 8, 8), np.uint8), labels=LABELS)
    tracemalloc.start()
    with pytest.raises(
        DataError, match=r"toy.npz, images.npy: [\d,]+ bytes unpack to 102,400,128, more than 200 times"
    ):
        read_npz(path)
    assert tracemalloc.get_traced_memory()[1] < 4_000_000
    tracemalloc.stop()


def test_arrays_beyond_memory_are_refused_before_they_are_read(tmp_path: Path) -> None:
    path = save(tmp_path / "toy.npz", images=np.zeros((500_000, 10, 10), np.uint8), labels=LABELS)
    with (
        bounded_memory(100_000_000),
        pytest.raises(ValueError, match=r"toy.npz: reading .* bytes of arrays needs about"),
    ):
        read_npz(path)


def test_numbers_beyond_floats_are_named(tmp_path: Path) -> None:
    images = IMAGES.astype(np.float64)
    images[4, 0, 0, 0] = 1e300
    with pytest.raises(ValueError, match="toy train input 4 is not finite"):
        read_npz(save(tmp_path / "toy.npz", images=images, labels=LABELS, split=(np.arange(12) > 8).astype(int)))


def test_a_header_of_many_digits_takes_no_time(tmp_path: Path) -> None:
    path = tmp_path / "toy.npz"
    header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (" + b"9" * 5000 + b"), }"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("images.npy", "labels.npy"):
            archive.writestr(name, b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    begin = time.perf_counter()
    with pytest.raises(DataError, match=r"toy.npz, labels: not an array of numbers or text"):
        read_npz(path)
    assert time.perf_counter() - begin < 1
