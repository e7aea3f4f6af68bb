"""npz files and torch data sets."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset, TensorDataset

from refprior.data.arrays import examples_from_dataset, load_arrays, read_npz
from refprior.data.error import DataError

IMAGES = np.random.RandomState(0).randint(0, 256, (12, 5, 4, 3)).astype(np.uint8)
LABELS = np.arange(12) % 3


def save(path: Path, **arrays: Any) -> Path:
    np.savez_compressed(path, **arrays)
    return path


@pytest.mark.parametrize("images", [IMAGES, IMAGES.transpose(0, 3, 1, 2)])
def test_channels_last_and_first_are_read_alike(tmp_path: Path, images: np.ndarray) -> None:
    data = read_npz(save(tmp_path / "toy.npz", images=images, labels=LABELS, split=(np.arange(12) > 8).astype(int)))
    assert torch.equal(data.train.images, torch.from_numpy(IMAGES[:9].transpose(0, 3, 1, 2).copy()))
    assert data.test.labels.tolist() == [0, 1, 2]
    assert data.name == "toy"


def test_grey_images_get_a_channel_and_a_test_part_is_drawn(tmp_path: Path) -> None:
    path = save(tmp_path / "toy.npz", images=IMAGES[..., 0], labels=LABELS, classes=["a", "b", "c"])
    data = read_npz(path, test=1)
    assert (data.classes, data.train.images.shape) == (("a", "b", "c"), (9, 1, 5, 4))
    with pytest.raises(DataError, match="no array `split`"):
        read_npz(path)


def test_bad_files_are_named(tmp_path: Path) -> None:
    path = save(tmp_path / "toy.npz", pictures=IMAGES)
    with pytest.raises(DataError, match=r"toy.npz: no arrays \['images', 'labels'\] among \['pictures'\]"):
        read_npz(path)
    whole = path.read_bytes()
    for content in (b"", b"nothing", whole[:-30], whole[:400] + b"\0\1\2" + whole[403:]):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"toy.npz: not a readable"):
            load_arrays(path)
    with pytest.raises(DataError, match=r"12 images but labels of shape \(11,\)"):
        read_npz(save(path, images=IMAGES, labels=LABELS[1:], split=LABELS))
    with pytest.raises(DataError, match="split must be integers, got float64"):
        read_npz(save(path, images=IMAGES, labels=LABELS, split=LABELS / 2))
    with pytest.raises(DataError, match="0 images but labels"):
        read_npz(save(path, images=IMAGES[:0], labels=LABELS[:0], split=LABELS[:0]))
    with pytest.raises(DataError, match=r"images of shape \(12, 5, 4, 2\)"):
        read_npz(save(path, images=IMAGES[..., :2], labels=LABELS, split=LABELS))


def test_pickled_objects_are_not_read(tmp_path: Path) -> None:
    path = save(tmp_path / "toy.npz", images=np.array([{"a": 1}], dtype=object), labels=LABELS)
    with pytest.raises(DataError, match="not a readable"):
        read_npz(path)


def test_nan_is_named_with_its_index(tmp_path: Path) -> None:
    images = IMAGES.astype(np.float32)
    images[4, 0, 0, 0] = np.nan
    with pytest.raises(ValueError, match="toy train image 4 is not finite"):
        read_npz(save(tmp_path / "toy.npz", images=images, labels=LABELS, split=(np.arange(12) > 8).astype(int)))


class Pictures(Dataset[tuple[Image.Image, int]]):
    def __len__(self) -> int:
        return len(IMAGES)

    def __getitem__(self, index: int) -> tuple[Image.Image, int]:
        return Image.fromarray(IMAGES[index]), int(LABELS[index])


def test_torch_data_sets_of_tensors_and_pictures() -> None:
    tensors = TensorDataset(torch.from_numpy(IMAGES.transpose(0, 3, 1, 2).copy()), torch.from_numpy(LABELS))
    first, second = examples_from_dataset(tensors), examples_from_dataset(Pictures())
    assert torch.equal(first.images, second.images)
    assert torch.equal(first.labels, second.labels)


def test_items_that_do_not_fit_are_named() -> None:
    class Odd(Dataset[Any]):
        def __init__(self, items: list[Any]) -> None:
            self.items = items

        def __len__(self) -> int:
            return len(self.items)

        def __getitem__(self, index: int) -> Any:
            return self.items[index]

    good, grey, broken = torch.zeros(3, 2, 2), torch.zeros(1, 2, 2), torch.full((3, 2, 2), torch.nan)
    with pytest.raises(DataError, match=r"item 1 is \(1, 2, 2\)"):
        examples_from_dataset(Odd([(good, 0), (grey, 1)]))
    with pytest.raises(DataError, match="item 1 is not finite"):
        examples_from_dataset(Odd([(good, 0), (broken, 1)]))
    with pytest.raises(DataError, match=r"item 0 is not \(image, label\) but a Tensor"):
        examples_from_dataset(Odd([good]))
    with pytest.raises(DataError, match="is empty"):
        examples_from_dataset(Odd([]))
