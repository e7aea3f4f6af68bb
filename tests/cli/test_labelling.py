"""`suggest` and `answer`, killed at random moments: the questions are the old or the new ones, never without their
picture or their table."""

import csv
import multiprocessing
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from refprior import labelling
from refprior.cli._labelling import answer, suggest
from refprior.recipes import named
from refprior.training import load, train


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("labelling") / "run"
    train(named("digits_ssl", {"steps": 3, "unlabelled_batch": 8}, seed=0).recipe, folder)
    return folder


def ask_again_and_again(folder: Path) -> None:
    """Other questions each time, on a picture of another size."""
    while True:
        for budget in (1, 7):
            suggest(folder, budget=budget)


def answer_again_and_again(folder: Path) -> None:
    while True:
        answer(folder, [str(len(labelling.read_questions(folder).answers) % 10)])


def kill_at_random(work: Callable[[Path], None], folder: Path, rng: random.Random) -> None:
    """A real process, killed within the second after its first question or answer."""
    process = multiprocessing.get_context("fork").Process(target=work, args=(folder,))
    before = (folder / "questions.json").stat().st_mtime_ns
    process.start()
    while (folder / "questions.json").stat().st_mtime_ns == before:
        assert process.is_alive()
        time.sleep(0.005)
    time.sleep(rng.random())
    process.kill()
    process.join()


def test_new_questions_have_their_picture(run: Path, capfd: pytest.CaptureFixture[str]) -> None:
    suggest(run, budget=2)
    for seed in range(6):
        kill_at_random(ask_again_and_again, run, random.Random(seed))
        asked = len(labelling.read_questions(run).open)
        assert asked in (1, 2, 7)
        picture = (run / "questions.png").read_bytes()
        assert picture.startswith(b"\x89PNG")
        assert picture.endswith(b"IEND\xaeB`\x82")
        newer = (run / "questions.png").stat().st_mtime_ns - (run / "questions.json").stat().st_mtime_ns
        large = int.from_bytes(picture[16:20]) > 600
        assert newer > 0 or large == (asked == 7)  # a picture older than its questions is theirs
    suggest(run, budget=2)
    assert not list(run.glob(".*.part"))  # what killed writers left is swept up


def test_new_answers_have_their_table(run: Path, capfd: pytest.CaptureFixture[str]) -> None:
    loaded = load(run)
    pool = len(loaded.task.unlabelled)
    suggest(run, budget=60)
    answer(run, ["3"])
    for seed in range(6):
        kill_at_random(answer_again_and_again, run, random.Random(seed))
        questions = labelling.read_questions(run)
        with (run / "answers.csv").open(newline="") as file:
            lines = list(csv.reader(file))
        assert [number for number, _ in lines] == ["image", *map(str, range(pool))]
        newer = (run / "answers.csv").stat().st_mtime_ns > (run / "questions.json").stat().st_mtime_ns
        found = labelling.classify(loaded, labelling.classifier(loaded, questions), loaded.task.unlabelled)
        assert newer or [name for _, name in lines[1:]] == [loaded.task.classes[y] for y in found.tolist()]
