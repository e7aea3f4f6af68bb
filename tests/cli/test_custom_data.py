"""`refprior train` and `refprior sweep` with the user's own data: what is said, kept, and refused."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import refprior as rp
from refprior.cli import main
from refprior.training.store._header import read_header
from tests.cli.running import refprior

SHORT = ("--set", "steps=2", "evaluate_every=2", "particles=2")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    random = np.random.RandomState(0)
    for number in range(40):
        for root, names in (("photos", "abu"), ("drawings", "cdu")):
            folder = tmp_path / root / {"u": "Unlabeled"}.get(names[number % 3], names[number % 3])
            folder.mkdir(parents=True, exist_ok=True)
            Image.fromarray(random.randint(0, 256, (9, 9, 3)).astype(np.uint8)).save(folder / f"{number}.png")
    (tmp_path / "photos" / "a" / "notes.txt").touch()
    np.savez(tmp_path / "mine.npz", inputs=random.randn(40, 6), labels=np.arange(40) % 4 // 2)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_folder_is_surveyed_trained_on_resumed_and_evaluated(place: Path) -> None:
    words = ("train", "digits_ssl", "--data", "photos/", *SHORT, "task.test=4")
    done = refprior(*words, cwd=place)
    assert done.returncode == 0, done.stderr
    assert "train      a          14      1 not an image that is read (.txt)" in done.stderr
    assert "2 classes, inputs (3, 8, 8), 23 labeled, 13 in the pool" in done.stderr
    run = place / "runs" / "digits_ssl,photos,evaluate_every=2,particles=2,steps=2,task.test=4-0"
    assert f"Run folder: {run.relative_to(place)}" in done.stdout
    again = refprior(*words, cwd=place)
    assert "is complete: all 2 steps are done" in again.stderr
    scored = refprior("evaluate", str(run), cwd=Path("/"))
    assert "test part, 4 images" in scored.stdout
    header = read_header(run)
    assert header.recipe["task"]["data"] == str(place / "photos")
    assert header.origin is not None
    command = "refprior train digits_ssl --seed 0 --data photos/ --set steps=2 evaluate_every=2 particles=2 task.test=4"
    assert header.origin.command == command
    assert rp.load(run).data.classes == ("a", "b")


def test_a_pair_of_folders_without_a_test_part(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refprior_main("train", "label_free_transfer", "--data", "photos", "--source-data", "drawings", "--out", "run")
    said = capsys.readouterr().err
    assert "photos:" in said
    assert "drawings:" in said
    assert "no test part: --set task.target.test=N holds out N labeled inputs" in said
    assert rp.load(place / "run").data.source_classes == ("c", "d")


def test_a_sweep_over_ones_own_vectors(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refprior_main("sweep", "mnist_ssl", "--data", "mine.npz", "--out", "all", "--seeds", "0", more=("labels=4,8",))
    said = capsys.readouterr()
    assert "network MLP, weak view Noise" in said.err
    assert "--data=mine.npz" in said.out
    assert len(list((place / "all").glob("*/seed-0/recipe.json"))) == 2


def refprior_main(*words: str, more: tuple[str, ...] = ()) -> None:
    with pytest.raises(SystemExit) as end:
        main([*words, *SHORT, *more])
    assert not end.value.code


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "digits_ssl", "--data", "gone"], "no data set"),
        (["train", "digits_ssl", "--kind", "photos"], "--kind needs --data"),
        (["train", "digits_ssl", "--source-data", "photos"], "--source-data needs --data"),
        (["train", "digits_ssl", "--data", "photos", "--kind", "cats"], 'Choose from: "digits", "photos"'),
        (["train", "digits_ssl", "--data", "photos", "--source-data", "drawings"], "has no source to transfer from"),
        (["train", "digits_transfer", "--data", "photos"], "this recipe transfers: give a source"),
        (["sweep", "digits_transfer", "--data", "photos", "--out", "s"], "this recipe transfers: give a source"),
        (["train", "digits_ssl", "--data", "photos", "--set", "target_classes=0,7"], "must be different numbers of"),
    ],
)
def test_mistakes_end_in_one_line_and_exit_code_two(
    words: list[str], message: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 2
    error = capsys.readouterr().err.strip().splitlines()
    assert len(error) == 1
    assert message in error[0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "digits_ssl", "--data", "photos", "--set", "strong.cutout=9"], "a cutout of 9 pixels does not fit"),
        (["train", "digits_ssl", "--data", "photos", "--set", "labels=7"], "labels must be a multiple of the 2"),
    ],
)
def test_mistakes_that_the_data_reveal_end_so_too(
    words: list[str], message: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 2
    assert message in capsys.readouterr().err.strip().splitlines()[-1]


def test_show_says_what_is_in_a_folder(place: Path) -> None:
    done = refprior("data", "show", "photos", "--views", "--kind", "photos", "--size", "8", cwd=place)
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["part", "class", "images", "skipped"]
    assert lines[3].split() == ["unlabeled", "Unlabeled", "13"]
    assert lines[4] == "photos: images (3, 8, 8), classes a, b"
    assert (place / "sheet.png").is_file()
