"""Folders of images."""

import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from refprior.data import Examples, FewLabels
from refprior.data._data_set import DataSet
from refprior.data._read import image_folder
from refprior.data.files._error import DataError
from refprior.data.files._pictures import read_images
from tests.fuzz._mutations import bounded_memory


def picture(level: int, mode: str = "RGB", size: tuple[int, int] = (6, 4)) -> Image.Image:
    return Image.new(mode, size, level if mode == "L" else (level, 0, 255 - level))


def held(data: DataSet) -> Examples:
    assert data.test is not None
    return data.test


def shape(data: DataSet) -> tuple[int, ...]:
    return tuple(data.train.inputs.shape[1:])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for label, name in enumerate(["ape", "bee", "cat"]):
        (tmp_path / name).mkdir()
        for i in range(5):
            picture(50 * label + i).save(tmp_path / name / f"{i}.png")
    (tmp_path / "unlabeled").mkdir()
    for i in range(7):
        picture(200 + i).save(tmp_path / "unlabeled" / f"{i}.png")
    return tmp_path


def test_a_folder_becomes_a_data_set(root: Path) -> None:
    data = image_folder(root, test=6)
    assert data.name == root.name
    assert data.classes == ("ape", "bee", "cat")
    assert data.train.inputs.shape[1:] == (3, 4, 6)
    assert [len(p) for p in (data.train, held(data))] == [9, 6]
    for part in (data.train, held(data)):
        assert torch.equal(part.inputs[:, 0, 0, 0] // 50, part.labels)
    assert data.unlabeled is not None
    assert data.unlabeled[:, 0, 0, 0].tolist() == list(range(200, 207))


def test_without_a_number_one_image_per_class_is_to_test(root: Path) -> None:
    data = image_folder(root)
    assert torch.bincount(held(data).labels).tolist() == [1, 1, 1]
    assert len(data.train) == 12


def test_without_their_folder_there_are_no_unlabeled_images(root: Path) -> None:
    for file in (root / "unlabeled").iterdir():
        file.unlink()
    assert image_folder(root).unlabeled is None
    (root / "unlabeled").rmdir()
    assert image_folder(root).unlabeled is None


def test_images_are_resized_to_one_size(root: Path) -> None:
    picture(9, size=(30, 31)).save(root / "ape" / "other.png")
    assert shape(image_folder(root)) == (3, 4, 6)
    assert shape(image_folder(root, size=(8, 10))) == (3, 8, 10)


def test_gray_folders_have_one_channel(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
        for i in range(3):
            picture(i, "L").save(tmp_path / name / f"{i}.bmp")
    assert shape(image_folder(tmp_path)) == (1, 4, 6)
    assert shape(image_folder(tmp_path, color=True)) == (3, 4, 6)


def test_a_gray_image_among_color_ones_is_named_unless_one_chooses(root: Path) -> None:
    picture(77, "L").save(root / "bee" / "gray.png")
    with pytest.raises(DataError, match=r"bee/gray.png is gray, .*ape/0.png color; choose color="):
        image_folder(root)
    assert shape(image_folder(root, color=True)) == (3, 4, 6)
    assert shape(image_folder(root, color=False)) == (1, 4, 6)


@pytest.mark.parametrize(("color", "channels"), [(None, 1), (False, 1), (True, 3)])
@pytest.mark.parametrize("kind", ["png", "tif"])
def test_sixteen_bits_are_scaled_to_eight(tmp_path: Path, kind: str, color: bool | None, channels: int) -> None:
    levels = np.array([[0, 128, 129, 257, 32_768, 63_000, 65_535]], dtype=np.uint16)
    Image.fromarray(levels).save(tmp_path / f"deep.{kind}")
    (read,) = read_images([tmp_path / f"deep.{kind}"], color=color)
    expected = np.round(levels / 257).astype(np.uint8)
    assert np.array_equal(read.numpy(), np.broadcast_to(expected, (channels, 1, 7)))


@pytest.mark.parametrize("kind", [np.int32, np.float32])
def test_pixels_without_a_scale_are_rejected(tmp_path: Path, kind: type) -> None:
    Image.fromarray(np.full((4, 6), 70_000, dtype=kind)).save(tmp_path / "deep.tif")
    with pytest.raises(DataError, match=r"deep.tif: not a readable image \(pixels of mode [IF] have no scale of gray"):
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
    with pytest.raises(ValueError, match=r"test must be a multiple of the 3 classes, for example \d+, got 5"):
        image_folder(root, test=5)


def test_no_files_is_an_error() -> None:
    with pytest.raises(DataError, match="no image files"):
        read_images([])


def divided(root: Path, *names: str) -> None:
    for part in names:
        for label, name in enumerate(["ape", "bee"]):
            (root / part / name).mkdir(parents=True)
            for i in range(4):
                picture(50 * label + i + 100 * (part == "test")).save(root / part / name / f"{i}.png")


def test_train_and_test_folders_are_the_parts(tmp_path: Path) -> None:
    divided(tmp_path, "train", "test")
    data = image_folder(tmp_path)
    assert data.classes == ("ape", "bee")
    assert sorted(data.train.inputs[:, 0, 0, 0].tolist()) == [0, 1, 2, 3, 50, 51, 52, 53]
    assert sorted(held(data).inputs[:, 0, 0, 0].tolist()) == [100, 101, 102, 103, 150, 151, 152, 153]
    assert torch.equal(held(data).inputs[:, 0, 0, 0] // 150, held(data).labels)
    with pytest.raises(ValueError, match="already has a test part, test/: leave test out, got test=2"):
        image_folder(tmp_path, test=2)
    (tmp_path / "test" / "bee").rename(tmp_path / "test" / "wasp")
    with pytest.raises(
        DataError, match=r"classes of the training part are \('ape', 'bee'\), those of the test part \('ape', 'wasp'\)"
    ):
        image_folder(tmp_path)


@pytest.mark.parametrize("parts", [("train", "val"), ("train", "test", "Validation"), ("Train",)])
def test_a_validation_part_is_read_and_a_test_part_is_optional(tmp_path: Path, parts: tuple[str, ...]) -> None:
    divided(tmp_path, *parts)
    data = image_folder(tmp_path)
    assert (len(data.train), data.classes) == (8, ("ape", "bee"))
    assert (data.test is not None) is ("test" in parts)
    assert (data.validation is not None) is (len(parts) > 1 and parts[-1] != "test")
    if data.validation is not None:
        task = FewLabels(data, labels=2)()
        assert task.validation is not None
        assert torch.equal(task.validation.labels, data.validation.labels)
        with pytest.raises(ValueError, match="already has a validation part: leave validation out, got 2"):
            FewLabels(data, labels=2, validation=2)()
    if "test" not in parts:
        assert len(held(image_folder(tmp_path, test=2))) == 2


def test_parts_that_are_ambiguous_are_named(tmp_path: Path) -> None:
    divided(tmp_path, "train", "val", "valid")
    with pytest.raises(DataError, match="has val/ and valid/ as validation part: keep one of them"):
        image_folder(tmp_path)
    (tmp_path / "valid").rename(tmp_path / "more")
    with pytest.raises(DataError, match="has train/, val/ and more/: move it"):
        image_folder(tmp_path)


def test_classes_may_be_called_train_and_test(tmp_path: Path) -> None:
    for name in ("train", "test"):
        (tmp_path / name).mkdir()
        for i in range(3):
            picture(i).save(tmp_path / name / f"{i}.png")
    assert image_folder(tmp_path).classes == ("test", "train")


def test_links_to_files_and_folders_are_followed(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    for i in range(5):
        picture(150 + i).save(elsewhere / f"{i}.png")
    (root / "dog").symlink_to(elsewhere)
    (root / "ape" / "linked.png").symlink_to(root / "unlabeled" / "0.png")
    data = image_folder(root)
    assert data.classes == ("ape", "bee", "cat", "dog")
    assert len(data.train) + len(held(data)) == 21


@pytest.mark.parametrize(
    ("link", "target", "message"),
    [
        ("ape/itself.png", "itself.png", "ape/itself.png is a broken link"),
        ("ape/gone.png", "gone", "ape/gone.png is a broken link"),
        ("ape/up", "..", "ape/up is a link to"),
        ("again", ".", "again is a link to"),
        ("bees", "bee", "bees is a link to .*bee"),
        ("zoo", "zoo", "zoo is a broken link"),
        ("unlabeled/up", "../..", "unlabeled/up is a link to"),
        ("ape/others", "../bee", "ape/others is a link to .*bee"),
    ],
)
def test_links_that_lead_back_or_nowhere_are_named(root: Path, link: str, target: str, message: str) -> None:
    (root / link).symlink_to(target)
    with pytest.raises(DataError, match=message):
        image_folder(root)


@pytest.mark.parametrize("side", [5000, 8000, 20_000])
def test_a_picture_that_unpacks_too_far_is_not_unpacked(root: Path, side: int) -> None:
    header = struct.pack(">IIBBBBB", side, side, 8, 6, 0, 0, 0)
    chunks = (b"IHDR" + header, b"IDAT" + zlib.compress(bytes(1000)), b"IEND")
    packed = (struct.pack(">I", len(c) - 4) + c + struct.pack(">I", zlib.crc32(c)) for c in chunks)
    (root / "ape" / "bomb.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(packed))
    with bounded_memory(50_000_000), pytest.raises(DataError, match=r"ape/bomb.png: not a readable image \(.*pixels"):
        image_folder(root)


def test_formats_that_run_programs_are_not_opened(root: Path) -> None:
    (root / "ape" / "page.eps").write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n")
    with pytest.raises(DataError, match=r"page.eps: not a readable image \(damaged, or none of PNG, JPEG"):
        read_images([root / "ape" / "page.eps"])
    (root / "ape" / "page.eps").rename(root / "ape" / "page.png")
    with pytest.raises(DataError, match=r"page.png: not a readable image \(damaged, or none of PNG, JPEG"):
        image_folder(root)


def test_more_images_than_memory_holds_are_rejected_before_they_are_read(root: Path) -> None:
    with bounded_memory(100_000_000), pytest.raises(ValueError, match=r"22 images like .*needs about .*smaller size="):
        image_folder(root, size=(2000, 2000))


def test_a_small_file_of_many_pixels_is_rejected_and_a_large_one_is_not(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    Image.new("L", (4400, 4400)).save(tmp_path / "a" / "0.png")  # 19 million black pixels in 19 kB
    with pytest.raises(DataError, match=r"0\.png: .*4400×4400 pixels from [\d,]+ bytes, more than 200 from each byte"):
        read_images([tmp_path / "a" / "0.png"], (8, 8), None)
    noise = np.random.RandomState(0).randint(0, 2, (2100, 2100)).astype(np.uint8) * 255  # as a scanned page
    Image.fromarray(noise).save(tmp_path / "a" / "1.png")
    assert read_images([tmp_path / "a" / "1.png"], (8, 8), None).shape == (1, 1, 8, 8)


def test_images_are_in_the_order_of_their_names_whatever_the_threads_do(tmp_path: Path) -> None:
    files = [tmp_path / f"{i:03}.png" for i in range(60)]
    for number, file in enumerate(files):
        picture(number, size=(6, 4) if number % 3 else (700, 500)).save(file)  # some take longer
    read = read_images(files, (4, 6))
    assert read[:, 0, 0, 0].tolist() == list(range(60))
    for number in (50, 20, 40):
        files[number].write_bytes(b"damaged")
    for _ in range(5):
        with pytest.raises(DataError, match=r"020.png: not a readable image"):
            read_images(files, (4, 6))


def photograph(height: int, width: int) -> np.ndarray:
    """A picture whose corners and edges can be told apart: red grows to the right, green downwards."""
    rows, columns = np.mgrid[:height, :width]
    return np.stack([255 * columns // width, 255 * rows // height, 0 * rows], -1).astype(np.uint8)


@pytest.mark.parametrize("size", [None, (40, 60), (64, 64)])
@pytest.mark.parametrize("kind", ["jpg", "png", "webp", "tif"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_photographs_are_held_upright(
    tmp_path: Path, kind: str, orientation: int, size: tuple[int, int] | None
) -> None:
    upright = Image.fromarray(photograph(800, 1400) if kind == "jpg" else photograph(80, 140))
    turned = {2: 0, 3: 3, 4: 1, 5: 5, 6: 2, 7: 6, 8: 4}  # what the camera did, undone by the orientation
    stored = upright if orientation == 1 else upright.transpose(Image.Transpose(turned[orientation]))
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored.save(tmp_path / f"photo.{kind}", exif=exif)
    (read,) = read_images([tmp_path / f"photo.{kind}"], size)
    height, width = size or (upright.height, upright.width)
    assert read.shape == (3, height, width)
    expected = np.array(upright.resize((width, height), Image.Resampling.BILINEAR)).transpose(2, 0, 1)
    assert np.abs(read.numpy().astype(int) - expected)[:2].mean() < 4


def test_an_unreadable_orientation_says_nothing_of_the_picture(tmp_path: Path) -> None:
    for number, exif in enumerate([b"Exif\0\0rubbish", b"Exif\0\0II*\0\xff\xff\xff\xff", b""]):
        picture(9).save(tmp_path / f"{number}.jpg", exif=exif)
    wrong = Image.Exif()
    wrong[0x0112] = 77
    picture(9).save(tmp_path / "3.jpg", exif=wrong)
    assert read_images([tmp_path / f"{n}.jpg" for n in range(4)]).shape == (4, 3, 4, 6)


MEASURE = """
import sys
from pathlib import Path
from refprior.data.files._pictures import read_images

def peak():  # of this process; what getrusage says begins with the size of the process that started it
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024

files = sorted(Path(sys.argv[1]).glob("[0-9].*"))
read_images([Path(sys.argv[1], "small.png")], (64, 64))
before = peak()
read_images(files, (64, 64))
print(peak() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of a process is read from /proc")
@pytest.mark.parametrize(("kind", "most"), [("jpg", 40), pytest.param("png", 300, marks=pytest.mark.thorough)])
def test_large_photographs_take_little_memory(tmp_path: Path, kind: str, most: int) -> None:
    """Eight of 12 megapixels are 288 MB as bytes; JPEG files are decoded small, others few at a time."""
    noise = Image.fromarray(np.random.RandomState(0).randint(0, 256, (30, 40, 3)).astype(np.uint8))
    noise.resize((4000, 3000), Image.Resampling.BICUBIC).save(tmp_path / f"0.{kind}", quality=90, compress_level=1)
    noise.save(tmp_path / "small.png")
    for number in range(1, 8):
        (tmp_path / f"{number}.{kind}").symlink_to(tmp_path / f"0.{kind}")
    command = [sys.executable, "-c", MEASURE, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert int(done.stdout) < most
