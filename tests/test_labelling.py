"""Asking for labels: on a run whose particles tell the classes apart, few answers name everything."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from refprior.data import Examples, read
from refprior.labelling import Questions, answer, classifier, classify, read_questions, suggest, write_questions
from refprior.methods import Supervised
from refprior.networks import MLP
from refprior.training import Recipe, Run, load, train
from tests.records import seal
from tests.training.recipes import digits


@pytest.fixture(scope="module")
def run() -> Run:
    """Particles that know three digits; nothing below uses the names of their outputs."""
    recipe = Recipe(
        task=digits(0, 1, 2, labels=30),
        network=partial(MLP, (1, 8, 8), 3),
        method=Supervised(),
        particles=4,
        steps=150,
        labelled_batch=30,
        ema=0.9,
    )
    return train(recipe)


@pytest.fixture(scope="module")
def truth(run: Run) -> list[int]:
    """The labels of the pool, found by comparing images: the task does not have them."""
    data = read("digits").train
    known = {image.numpy().tobytes(): int(label) for image, label in zip(data.images, data.labels, strict=True)}
    return [known[image.numpy().tobytes()] for image in run.task.unlabelled]


def accuracy(run: Run, questions: Questions, part: Examples) -> float:
    predicted = classify(run, classifier(run, questions), part.images)
    return (predicted == part.labels).double().mean().item()


@pytest.mark.parametrize("budget", [3, 9])
def test_a_label_for_each_typical_image_names_everything(run: Run, truth: list[int], budget: int) -> None:
    asked = suggest(run, budget)
    assert len(set(asked.open)) == budget
    answered = answer(asked, [truth[i] for i in asked.open])
    assert accuracy(run, answered, run.task.held_out) > 0.9


def test_three_questions_are_of_three_classes(run: Run, truth: list[int]) -> None:
    assert sorted(truth[i] for i in suggest(run, 3).open) == [0, 1, 2]


def test_fewer_labels_than_classes_ask_of_the_largest_clusters(run: Run) -> None:
    two, three = suggest(run, 2), suggest(run, 3)
    assert two.asked == three.asked[:2]


def test_a_second_round_keeps_the_answers_and_asks_elsewhere(run: Run, truth: list[int]) -> None:
    first = suggest(run, 3)
    first = answer(first, [truth[i] for i in first.open[:2]])  # the third stays without an answer
    second = suggest(run, 4, first)
    assert second.asked[:2] == first.asked[:2]
    assert second.answers == first.answers
    assert len(set(second.asked)) == 6
    home = run.consensus(6)
    clusters = home.clusters(run.log_probabilities(run.task.unlabelled))
    assert not set(clusters[list(second.open)].tolist()) & set(clusters[list(second.asked[:2])].tolist())


def test_questions_survive_the_folder(tmp_path: Path) -> None:
    assert read_questions(tmp_path) == Questions()
    questions = Questions((5, 7, 9), (1, 0))
    write_questions(tmp_path, questions)
    assert read_questions(tmp_path) == questions
    assert questions.open == (9,)
    (tmp_path / "questions.json").write_text("{")
    with pytest.raises(ValueError, match=r"questions\.json is not valid JSON"):
        read_questions(tmp_path)


def test_questions_of_a_run_with_other_images_are_refused(run: Run, tmp_path: Path) -> None:
    for name, recipe in {"one": run.recipe, "other": replace(run.recipe, task=digits(0, 1, 2, labels=9))}.items():
        train(replace(recipe, steps=1), tmp_path / name)
    write_questions(tmp_path / "one", Questions((5, 7), (1,)))
    assert read_questions(tmp_path / "one").open == (7,)
    (tmp_path / "other" / "questions.json").write_bytes((tmp_path / "one" / "questions.json").read_bytes())
    with pytest.raises(ValueError, match=r"questions\.json asks about other images than those of this run"):
        read_questions(tmp_path / "other")


def test_what_cannot_be_is_refused_with_numbers(run: Run) -> None:
    images = len(run.task.unlabelled)
    with pytest.raises(ValueError, match=f"can ask for 1 to {images} labels, got {images + 1}"):
        suggest(run, images + 1)
    with pytest.raises(ValueError, match="got 0"):
        suggest(run, 0)
    with pytest.raises(ValueError, match="3 labels for 2 open questions"):
        answer(Questions((1, 2), ()), [0, 1, 2])
    with pytest.raises(ValueError, match="no question has been answered"):
        classifier(run, Questions((1, 2), ()))


def test_questions_of_another_run_are_refused(run: Run) -> None:
    with pytest.raises(ValueError, match=r"100000 does not fit .* questions of another run"):
        classifier(run, Questions((100_000,), (0,)))
    with pytest.raises(ValueError, match=r"7 does not fit .* 3 classes"):
        classifier(run, Questions((1,), (7,)))
    with pytest.raises(ValueError, match=r"100000 does not fit .* questions of another run"):
        suggest(run, 2, Questions((100_000,), (0,)))


@pytest.mark.parametrize(
    "record",
    [
        {"asked": 3},
        {"asked": ["one"]},
        {"asked": [1.5]},
        {"answers": [None]},
        {"asked": [1], "answers": [0, 1]},
    ],
)
def test_questions_that_are_none_are_refused_in_one_line(tmp_path: Path, record: dict[str, Any]) -> None:
    seal(tmp_path / "questions.json", {"format": 1, **record})
    with pytest.raises(ValueError, match=r"\A[^\n]*questions\.json is damaged: [^\n]+\Z"):
        read_questions(tmp_path)


def test_a_run_that_was_loaded_asks_and_answers_as_the_trained_one(run: Run, truth: list[int], tmp_path: Path) -> None:
    trained = train(run.recipe, tmp_path / "run")
    loaded = load(tmp_path / "run")
    asked = suggest(loaded, 4)
    assert asked == suggest(trained, 4)
    answered = answer(asked, [truth[i] for i in asked.open])
    images = run.task.held_out.images
    predicted = classify(loaded, classifier(loaded, answered), images)
    assert torch.equal(predicted, classify(trained, classifier(trained, answered), images))
