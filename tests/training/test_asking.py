"""Asking for labels: on a run whose particles tell the classes apart, few answers name everything."""

from functools import partial
from pathlib import Path

import pytest
import torch

from refprior.data import Examples, digits
from refprior.data._digits import read_digits
from refprior.methods import Supervised
from refprior.networks import MLP
from refprior.training import Recipe, Run, train
from refprior.training._asking import Questions, answer, ask, classifier, classify, read, write
from refprior.training._loop import log_probabilities

CLASSES = (0, 1, 2)


@pytest.fixture(scope="module")
def run() -> Run:
    """Particles that know three digits; nothing below uses the names of their outputs."""
    task = partial(digits, labels=10, classes=CLASSES)
    recipe = Recipe(task, partial(MLP, (1, 8, 8), 3), Supervised(), particles=4, steps=150, labelled=30, ema=0.9)
    return train(recipe)


@pytest.fixture(scope="module")
def truth(run: Run) -> list[int]:
    """The labels of the pool, found by comparing images: the task does not have them."""
    data = read_digits().train
    known = {image.numpy().tobytes(): int(label) for image, label in zip(data.images, data.labels, strict=True)}
    return [known[image.numpy().tobytes()] for image in run.task.unlabelled]


def accuracy(run: Run, questions: Questions, part: Examples) -> float:
    predicted = classify(run, classifier(run, questions), part.images)
    return (predicted == part.labels).double().mean().item()


@pytest.mark.parametrize("budget", [3, 9])
def test_a_label_for_each_typical_image_names_everything(run: Run, truth: list[int], budget: int) -> None:
    asked = ask(run, budget)
    assert len(set(asked.open)) == budget
    answered = answer(asked, [truth[i] for i in asked.open])
    assert accuracy(run, answered, run.task.test) > 0.9


def test_three_questions_are_of_three_classes(run: Run, truth: list[int]) -> None:
    assert sorted(truth[i] for i in ask(run, 3).open) == [0, 1, 2]


def test_fewer_labels_than_classes_ask_of_the_largest_clusters(run: Run) -> None:
    two, three = ask(run, 2), ask(run, 3)
    assert two.asked == three.asked[:2]


def test_a_second_round_keeps_the_answers_and_asks_elsewhere(run: Run, truth: list[int]) -> None:
    first = ask(run, 3)
    first = answer(first, [truth[i] for i in first.open[:2]])  # the third stays without an answer
    second = ask(run, 4, first)
    assert second.asked[:2] == first.asked[:2]
    assert second.answers == first.answers
    assert len(set(second.asked)) == 6
    home = run.consensus(6)
    clusters = home.clusters(log_probabilities(run.ema, run.task, run.task.unlabelled))
    assert not set(clusters[list(second.open)].tolist()) & set(clusters[list(second.asked[:2])].tolist())


def test_questions_survive_the_folder(tmp_path: Path) -> None:
    assert read(tmp_path) == Questions()
    questions = Questions((5, 7, 9), (1, 0))
    write(tmp_path, questions)
    assert read(tmp_path) == questions
    assert questions.open == (9,)
    (tmp_path / "questions.json").write_text("{")
    with pytest.raises(ValueError, match=r"questions\.json is damaged"):
        read(tmp_path)


def test_what_cannot_be_is_refused_with_numbers(run: Run) -> None:
    images = len(run.task.unlabelled)
    with pytest.raises(ValueError, match=f"can ask for 1 to {images} labels, got {images + 1}"):
        ask(run, images + 1)
    with pytest.raises(ValueError, match="got 0"):
        ask(run, 0)
    with pytest.raises(ValueError, match="3 labels for 2 open questions"):
        answer(Questions((1, 2), ()), [0, 1, 2])
    with pytest.raises(ValueError, match="no question has been answered"):
        classifier(run, Questions((1, 2), ()))


def test_consensus_of_the_run_is_scored_where_the_recipe_says_so() -> None:
    task = partial(digits, labels=10, classes=CLASSES)
    recipe = Recipe(
        task,
        partial(MLP, (1, 8, 8), 3),
        Supervised(),
        particles=4,
        steps=150,
        labelled=30,
        ema=0.9,
        evaluate_every=150,
        readout="consensus",
    )
    found = train(recipe).result["consensus"]
    assert found["test"] > 0.9
    assert found["validation"] > 0.9
    assert found["stability"] > 0.9
    assert torch.isfinite(torch.tensor(list(found.values()))).all()


def test_questions_of_another_run_are_refused(run: Run) -> None:
    with pytest.raises(ValueError, match=r"100000 does not fit .* questions of another run"):
        classifier(run, Questions((100_000,), (0,)))
    with pytest.raises(ValueError, match=r"7 does not fit .* 3 classes"):
        classifier(run, Questions((1,), (7,)))
