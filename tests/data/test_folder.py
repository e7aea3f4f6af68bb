"""Folders of images."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from refprior.data._data_set import DataSet
from refprior.data._error import DataError
from refprior.data._folder import image_folder, read_images


def picture(level: int, mode: str = "RGB", size: tuple[int, int] = (6, 4)) -> Image.Image:
    return Image.new(mode, size, level if mode == "L" else (level, 0, 255 - level))


def shape(data: DataSet) -> tuple[int, ...]:
    return tuple(data.train.images.shape[1:])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for label, name in enumerate(["ape", "bee", "cat"]):
        (tmp_path / name).mkdir()
        for i in range(5):
            picture(50 * label + i).save(tmp_path / name / f"{i}.png")
    (tmp_path / "unlabelled").mkdir()
    for i in range(7):
        picture(200 + i).save(tmp_path / "unlabelled" / f"{i}.png")
    return tmp_path


def test_a_folder_becomes_a_data_set(root: Path) -> None:
    data = image_folder(root, test=6)
    assert data.name == root.name
    assert data.classes == ("ape", "bee", "cat")
    assert data.train.images.shape[1:] == (3, 4, 6)
    assert [len(p) for p in (data.train, data.test)] == [9, 6]
    for part in (data.train, data.test):
        assert torch.equal(part.images[:, 0, 0, 0] // 50, part.labels)
    assert data.unlabelled is not None
    assert data.unlabelled[:, 0, 0, 0].tolist() == list(range(200, 207))


def test_without_a_number_one_image_per_class_is_to_test(root: Path) -> None:
    data = image_folder(root)
    assert torch.bincount(data.test.labels).tolist() == [1, 1, 1]
    assert len(data.train) == 12


def test_without_their_folder_there_are_no_unlabelled_images(root: Path) -> None:
    for file in (root / "unlabelled").iterdir():
        file.unlink()
    assert image_folder(root).unlabelled is None
    (root / "unlabelled").rmdir()
    assert image_folder(root).unlabelled is None


def test_images_are_resized_to_one_size(root: Path) -> None:
    picture(9, size=(30, 31)).save(root / "ape" / "other.png")
    assert shape(image_folder(root)) == (3, 4, 6)
    assert shape(image_folder(root, size=(8, 10))) == (3, 8, 10)


def test_grey_folders_have_one_channel(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
        for i in range(3):
            picture(i, "L").save(tmp_path / name / f"{i}.bmp")
    assert shape(image_folder(tmp_path)) == (1, 4, 6)
    assert shape(image_folder(tmp_path, colour=True)) == (3, 4, 6)


def test_a_grey_image_among_colour_ones_is_named_unless_one_chooses(root: Path) -> None:
    picture(77, "L").save(root / "bee" / "grey.png")
    with pytest.raises(DataError, match=r"bee/grey.png is grey, .*ape/0.png colour; choose colour="):
        image_folder(root)
    assert shape(image_folder(root, colour=True)) == (3, 4, 6)
    assert shape(image_folder(root, colour=False)) == (1, 4, 6)


@pytest.mark.parametrize(("colour", "channels"), [(None, 1), (False, 1), (True, 3)])
@pytest.mark.parametrize("kind", ["png", "tif"])
def test_sixteen_bits_are_scaled_to_eight(tmp_path: Path, kind: str, colour: bool | None, channels: int) -> None:
    levels = np.array([[0, 128, 129, 257, 32_768, 63_000, 65_535]], dtype=np.uint16)
    Image.fromarray(levels).save(tmp_path / f"deep.{kind}")
    (read,) = read_images([tmp_path / f"deep.{kind}"], colour=colour)
    expected = np.round(levels / 257).astype(np.uint8)
    assert np.array_equal(read.numpy(), np.broadcast_to(expected, (channels, 1, 7)))


@pytest.mark.parametrize("kind", [np.int32, np.float32])
def test_pixels_without_a_scale_are_refused(tmp_path: Path, kind: type) -> None:
    Image.fromarray(np.full((4, 6), 70_000, dtype=kind)).save(tmp_path / "deep.tif")
    with pytest.raises(DataError, match=r"deep.tif: not a readable image \(pixels of mode [IF] have no scale of grey"):
        read_images([tmp_path / "deep.tif"])


@pytest.mark.parametrize("keep", [0, 20, 60])
def test_a_corrupt_image_is_named(root: Path, keep: int) -> None:
    noise = Image.fromarray(np.random.RandomState(0).randint(0, 256, (4, 6, 3)).astype(np.uint8))
    noise.save(root / "cat" / "bad.png")
    (root / "cat" / "bad.png").write_bytes((root / "cat" / "bad.png").read_bytes()[:keep])
    with pytest.raises(DataError, match=r"cat/bad.png: not a readable image"):
        image_folder(root)


def test_empty_classes_and_folders_are_named(root: Path, tmp_path: Path) -> None:
    (root / "dog").mkdir()
    with pytest.raises(DataError, match=r"class folder .*dog is empty"):
        image_folder(root)
    with pytest.raises(DataError, match="is not a folder"):
        image_folder(root / "none")
    with pytest.raises(DataError, match="has no folders of classes"):
        image_folder(root / "ape")


def test_too_few_images_to_test_with_are_told(root: Path) -> None:
    with pytest.raises(ValueError, match="test must be at most 15, 5 of each of 3 classes, got 18"):
        image_folder(root, test=18)
    with pytest.raises(ValueError, match="test must be a multiple of the 3 classes, equally many of each, got 5"):
        image_folder(root, test=5)


def test_no_files_is_an_error() -> None:
    with pytest.raises(DataError, match="no image files"):
        read_images([])
