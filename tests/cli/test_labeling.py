"""`suggest` and `answer`: answers join the labels. Killed at random moments, the questions are the old or the new ones,
never without their picture or their table."""

import csv
import multiprocessing
import random
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from refprior import labeling
from refprior.cli._labeling import answer, suggest
from refprior.data import read
from refprior.recipes import named
from refprior.training import load, load_predictor, train
from refprior.training.store._header import read_header
from tests import ambiguous
from tests.cli.running import refprior, start


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("labeling") / "run"
    train(named("digits_ssl", {"steps": 3, "unlabeled_batch": 8}, seed=0).recipe, folder)
    return folder


def ask_again_and_again(folder: Path) -> None:
    """Other questions each time, on a picture of another size."""
    while True:
        for budget in (1, 7):
            suggest(folder, budget=budget)


def answer_again_and_again(folder: Path) -> None:
    while True:
        answer(folder, [str(len(labeling.Questions.load(folder).answers) % 10)])


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
    labeling.Questions().save(run)
    suggest(run, budget=2)
    for seed in range(6):
        kill_at_random(ask_again_and_again, run, random.Random(seed))
        asked = len(labeling.Questions.load(run).open)
        assert asked in (1, 2, 7)
        picture = (run / "questions.png").read_bytes()
        assert picture.startswith(b"\x89PNG")
        assert picture.endswith(b"IEND\xaeB`\x82")
        newer = (run / "questions.png").stat().st_mtime_ns - (run / "questions.json").stat().st_mtime_ns
        large = int.from_bytes(picture[16:20]) > 600
        assert newer > 0 or large == (asked == 7)  # a picture older than its questions is theirs
    suggest(run, budget=2)
    assert not list(run.glob(".*.part"))  # what killed writers left is swept up


@pytest.mark.thorough
def test_new_answers_have_their_table(run: Path, capfd: pytest.CaptureFixture[str]) -> None:
    loaded = load(run)
    pool = len(loaded.task.unlabeled)
    labeling.Questions().save(run)
    suggest(run, budget=400)  # more than a fast machine answers
    answer(run, ["3"])
    for seed in range(6):
        kill_at_random(answer_again_and_again, run, random.Random(seed))
        questions = labeling.Questions.load(run)
        with (run / "answers.csv").open(newline="") as file:
            lines = list(csv.reader(file))
        assert [number for number, _ in lines] == ["input", *map(str, range(pool))]
        newer = (run / "answers.csv").stat().st_mtime_ns > (run / "questions.json").stat().st_mtime_ns
        found = labeling.classify_pool(loaded, labeling.classifier(loaded, questions), questions)
        assert newer or [name for _, name in lines[1:]] == [loaded.task.classes[y] for y in found.tolist()]


def test_answers_join_the_labels_and_training_goes_on(tmp_path: Path) -> None:
    recipe, origin = named("digits_ssl", {"steps": "300"}, seed=0)
    before = train(recipe, tmp_path / "run", origin=origin)
    suggest(tmp_path / "run", budget=3)
    data = read("digits").train
    names = {image.numpy().tobytes(): str(int(y)) for image, y in zip(data.inputs, data.labels, strict=True)}
    asked = labeling.Questions.load(tmp_path / "run").open
    labels = [names[before.task.unlabeled[i].numpy().tobytes()] for i in asked]
    kept = refprior("answer", "run", *labels, cwd=tmp_path)
    assert re.search(r"^3 answers and 50 labels before: ([\d.]+) % of the test images are right", kept.stdout), (
        kept.stderr
    )
    assert f"{100 * before.evaluate().accuracy:.1f} %" in kept.stdout  # what the run knew is not forgotten
    early = refprior("answer", "run", "--train", "run2", "--set", "steps=0", cwd=tmp_path)
    assert early.returncode == 2
    assert "steps must be" in early.stderr
    done = refprior("answer", "run", "--train", "run2", "--set", "steps=20", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^Trained with 53 labels: [\d.]+ % of the test images are right", done.stdout), done.stdout
    after = load(tmp_path / "run2")
    assert (len(after.task.labeled), after.recipe.steps) == (53, 20)
    assert after.evaluate().accuracy > before.evaluate().accuracy - 0.05  # twenty steps from new weights: about 0.2
    assert after.recipe.start is not None
    assert after.recipe.start.to_dict() == before.recipe.to_dict()
    header = read_header(tmp_path / "run2")
    assert header.origin is not None
    assert header.origin.changes == {"steps": "20", "answers": "<3 more, after run>"}
    assert header.origin.command is None
    with (tmp_path / "run2" / "answers.csv").open(newline="") as file:
        lines = list(csv.reader(file))
    assert len(lines) == 1 + len(before.task.unlabeled)
    assert [lines[1 + i][1] for i in asked] == labels
    again = refprior("suggest", "run2", "--budget", "2", cwd=tmp_path)
    assert again.returncode == 0, again.stderr


@pytest.fixture(scope="module")
def two_rules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rules")
    train(ambiguous.recipe(task=ambiguous.saved(folder / "cues.npz")), folder / "run")
    return folder


def test_answers_choose_the_rule_and_questions_end(two_rules: Path) -> None:
    labeling.Questions().save(two_rules / "run")
    before = float(100 * load(two_rules / "run").evaluate().accuracy)
    asked = refprior("suggest", "run", "--budget", "6", cwd=two_rules)
    assert "rules fit the labels, the likeliest with probability 0." in asked.stdout, asked.stderr
    found = load(two_rules / "run")
    labels = ambiguous.truth(found.task.unlabeled[list(labeling.Questions.load(two_rules / "run").open)], cue=1)
    done = refprior("answer", "run", *labels, "--model", "model", cwd=two_rules)
    assert done.returncode == 0, done.stderr
    right = re.search(r"^6 answers and 400 labels before: ([\d.]+) % of the test inputs are right", done.stdout)
    assert right, done.stdout
    assert before < 70
    assert float(right[1]) > 93
    assert "The particles are weighted by 6 new labels: one particle is right with probability 0." in done.stdout
    with (two_rules / "run" / "answers.csv").open(newline="") as file:
        written = [name for _, name in list(csv.reader(file))[1:]]
    truth = ambiguous.truth(found.task.unlabeled, cue=1)
    assert sum(a == b for a, b in zip(written, truth, strict=True)) > 0.93 * len(truth)
    model = load_predictor(two_rules / "model")
    assert model.evidence is not None
    assert model.evidence.count == 6
    table = refprior("evaluate", "run", cwd=two_rules).stdout
    assert re.search(rf"ema +answers +probabilities +{right[1]} ", table), table
    ended = refprior("suggest", "run", cwd=two_rules)
    assert ended.returncode == 0
    assert ended.stdout.startswith("One rule remains, with probability "), ended.stdout
    assert "no question about rules is left; --about inputs asks for labels to train on" in ended.stdout
    assert not labeling.Questions.load(two_rules / "run").open
    more = refprior("suggest", "run", "--about", "inputs", "--budget", "2", cwd=two_rules)
    assert len(labeling.Questions.load(two_rules / "run").open) == 2, more.stderr
    assert refprior("suggest", "run", "--about", "rules", cwd=two_rules).returncode == 2


def test_answers_that_no_rule_explains_are_said(two_rules: Path) -> None:
    labeling.Questions().save(two_rules / "run")
    found = load(two_rules / "run")
    pool = found.task.unlabeled
    one, other = (ambiguous.truth(pool, cue) for cue in (0, 1))
    asked = [i for i in range(len(pool)) if one[i] == other[i]][:4]  # where the rules agree
    labeling.Questions(tuple(asked)).save(two_rules / "run")
    wrong = ["yes" if one[i] == "no" else "no" for i in asked]
    done = refprior("answer", "run", *wrong, cwd=two_rules)
    assert done.returncode == 0
    assert "the 4 new labels are less likely if one particle is right (-" in done.stderr
    assert "the right rule is probably not among the particles; train with these labels" in done.stderr
    assert "weighted by" not in done.stdout


def test_mistakes_are_named(run: Path, tmp_path: Path) -> None:
    for arguments, said in (
        (["answer", str(run)], "give the labels of the suggested inputs"),
        (["answer", str(run), "3", "--set", "steps=3"], "--set needs --train FOLDER"),
        (["answer", str(run), "--model", str(run / "recipe.json")], "recipe.json is a file"),
        (["answer", str(run), "--train", str(run / "recipe.json")], "cannot be a folder"),
    ):
        done = refprior(*arguments, cwd=tmp_path)
        assert done.returncode == 2, arguments
        assert said in done.stderr
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.thorough
def test_training_that_was_stopped_says_how_it_goes_on(tmp_path: Path) -> None:
    train(named("digits_ssl", {"steps": 3, "unlabeled_batch": 8}, seed=0).recipe, tmp_path / "run")
    suggest(tmp_path / "run", budget=1)
    metrics = tmp_path / "run2" / "metrics.jsonl"
    with start("answer", "run", "3", "--train", "run2", "--set", "steps=100000", cwd=tmp_path) as process:
        while not metrics.exists() or not metrics.read_text():
            assert process.poll() is None
            time.sleep(0.05)
        process.terminate()
        _, said = process.communicate(timeout=60)
        assert process.returncode == 143
    assert "refprior answer run --train run2 --set steps=100000 resumes" in said
    assert len(labeling.Questions.load(tmp_path / "run").answers) == 1
