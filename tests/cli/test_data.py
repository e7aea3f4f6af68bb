"""`refprior data`: what it prints and writes, and its errors."""

import hashlib
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from refprior.cli._data import _verify, app
from refprior.data.sources._catalog import MNIST, File
from tests.data.written import write_mnist


def run(*words: object) -> Any:
    return app([str(w) for w in words], result_action="return_value", exit_on_error=False)


def test_list_says_what_is_present(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / "t10k-labels-idx1-ubyte").write_bytes(bytes(10_008))
    run("list", "--data", tmp_path)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"data folder {tmp_path}"
    assert lines[1].split() == ["digits", "present", "(installed", "with", "refprior)"]
    assert lines[2].startswith("mnist          incomplete: no train-images-idx3-ubyte, ")
    assert lines[4].split() == ["cifar10", "absent"]


def test_show_describes_a_task_and_writes_a_sheet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "new" / "sheet.png"
    run("show", "digits", "--views", "--rows", 3, "--out", out)
    printed = capsys.readouterr().out
    assert "digits: images (1, 8, 8)" in printed
    assert "50 labeled, 1147 unlabeled, 600 test, 0 validation" in printed
    with Image.open(out) as picture:
        assert picture.size == (752, 222)


def test_show_describes_rows_and_draws_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = np.random.default_rng(0).normal(size=(20, 12))
    np.savez(tmp_path / "rows.npz", inputs=rows, labels=np.arange(20) % 2)
    run("show", tmp_path / "rows.npz", "--out", tmp_path / "sheet.png")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "rows: inputs (12,), classes 0, 1"
    assert lines[2].startswith(f"mean {rows[:, 0].mean():.2f} ")
    assert lines[2].endswith("… per feature")
    assert lines[3] == "inputs of (12,) are not images: nothing is drawn"
    assert not (tmp_path / "sheet.png").exists()


def test_show_reads_an_npz_file_and_reports_duplicates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    images = np.random.RandomState(0).randint(0, 256, (40, 8, 8)).astype(np.uint8)
    images[39] = images[0]
    path = tmp_path / "toy.npz"
    np.savez(path, images=images, labels=np.arange(40) % 2, split=(np.arange(40) > 29).astype(int))
    run("show", path, "--labels", 2, "--out", tmp_path / "sheet.png")
    assert "1 test image occurs in the unlabeled pool too (training = test index: 0 = 9)" in capsys.readouterr().out


@pytest.mark.parametrize("known", [False, True])
def test_only_files_compared_with_a_checksum_are_called_verified(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], known: bool
) -> None:
    write_mnist(tmp_path / "mnist")
    sums = {file.name: hashlib.md5(file.read_bytes()).hexdigest() for file in (tmp_path / "mnist").iterdir()}
    files = tuple(File(file.name, None, sums[file.name] if known else None) for file in MNIST.files)
    _verify(replace(MNIST, files=files), tmp_path)
    printed = capsys.readouterr().out
    verdict = "verified" if known else "sizes and counts only"
    assert f"300 training and 50 test images of 10 classes, {verdict}\n" in printed
    assert printed.count("(no checksum to compare with)") == (0 if known else 4)
    assert ("delete them and run refprior data get mnist" in printed) == (not known)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["get", "imagenet"], "no data set 'imagenet'; available are mnist, fashion-mnist, cifar10, cifar100"),
        (["get", "digits"], "digits is installed with refprior"),
        (["verify", "mnist", "--data", "nowhere"], "train-images-idx3-ubyte is missing"),
        (["show", "mnist-3-6"], "no data set 'mnist-3-6': give digits, mnist, "),
        (["show", "digits", "--classes", "fish"], "digits has no superclass 'fish'"),
        (["show", "digits", "--rows", "0"], "rows must be at least 1, got 0"),
        (["show", "digits", "--labels", "5000"], "labels must be at most"),
        (["show", "mnist", "--data", "nowhere"], "refprior data get mnist"),
    ],
)
def test_errors_are_one_line_that_says_what_to_do(words: list[str], message: str) -> None:
    with pytest.raises((ValueError, OSError)) as error:
        run(*words)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_importing_the_commands_does_not_import_torch() -> None:
    script = "import sys, refprior.cli._data; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_views_of_your_images_do_not_mirror(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("cat", "dog"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        Image.new("RGB", (8, 8)).save(tmp_path / "photos" / name / "0.png")
    run("show", tmp_path / "photos", "--views", "--out", tmp_path / "sheet.png")
    assert "views that never mirror" in capsys.readouterr().out
    assert (tmp_path / "sheet.png").exists()
