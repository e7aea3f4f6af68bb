"""Reading pictures in threads: no more memory than the budget, errors in the order of the files."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from refprior.data.files._error import DataError
from refprior.data.files._pictures import _in_order, _Room, decoded, look, read_images


def test_threads_share_the_room_and_a_large_one_has_it_alone() -> None:
    room, inside, sums, lock = _Room(100), [0], list[tuple[int, int]](), threading.Lock()

    def work(size: int) -> None:
        with room.of(size):
            with lock:
                inside[0] += size
                sums.append((inside[0], size))
            time.sleep(0.002)
            with lock:
                inside[0] -= size

    sizes = [30, 60, 50, 150, 10, 90, 40, 200] * 4
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, sizes))
    assert len(sums) == len(sizes)
    assert all(together <= 100 or together == size for together, size in sums)
    assert any(together > size for together, size in sums)  # some were in at the same time


def test_the_first_of_several_errors_is_raised() -> None:
    def work(number: int) -> None:
        if number in (7, 9):
            time.sleep(0.02 if number == 7 else 0)
            raise ValueError(f"number {number}")

    for _ in range(5):
        with pytest.raises(ValueError, match="number 7"):
            _in_order(work, 40)


def test_a_look_knows_what_a_picture_will_be(tmp_path: Path) -> None:
    for mode, gray in (("1", True), ("L", True), ("LA", True), ("I;16", True), ("P", False), ("RGBA", False)):
        Image.new(mode, (5, 3)).save(tmp_path / "picture.png")
        assert look(tmp_path / "picture.png", None) == (3, 5, gray)
        assert look(tmp_path / "picture.png", color=True) == (3, 5, False)


@pytest.mark.parametrize("size", [(32, 32), (10, 300)])
def test_a_large_photograph_is_nearly_what_it_would_be_if_decoded_whole(tmp_path: Path, size: tuple[int, int]) -> None:
    smooth = Image.fromarray(np.random.RandomState(0).randint(0, 256, (15, 20, 3)).astype(np.uint8))
    smooth.resize((1600, 1200), Image.Resampling.BICUBIC).save(tmp_path / "photo.jpg", quality=95)
    whole = decoded((tmp_path / "photo.jpg").read_bytes(), None)
    expected = np.array(whole.resize(size[::-1], Image.Resampling.BILINEAR)).transpose(2, 0, 1)
    (read,) = read_images([tmp_path / "photo.jpg"], size)
    assert np.abs(read.numpy().astype(int) - expected).mean() < 3


def test_a_file_larger_than_any_picture_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "large.png").open("wb") as file:
        file.truncate(200_000_001)
    with pytest.raises(DataError, match=r"large.png: not a readable image \(200,000,001 bytes, at most 200,000,000"):
        look(tmp_path / "large.png", None)
