"""Answers move inputs from the pool to the labeled part, and a record of it reads back."""

from dataclasses import replace

import pytest
import torch

from refprior.data import Answered, FewLabels
from refprior.training import Recipe
from tests.training.recipes import perceptron

FEW = FewLabels("digits", labels=20)


def test_answers_move_inputs_and_lose_none() -> None:
    before, now = FEW(), Answered(FEW, (7, 3), (1, 0))()
    assert torch.equal(now.labeled.inputs, torch.cat([before.labeled.inputs, before.unlabeled[[7, 3]]]))
    assert now.labeled.labels[-2:].tolist() == [1, 0]
    kept = [i for i in range(len(before.unlabeled)) if i not in (3, 7)]
    assert torch.equal(now.unlabeled, before.unlabeled[kept])
    assert now.test is before.test or torch.equal(now.test.inputs, before.test.inputs)  # type: ignore[union-attr]


def test_names_go_with_their_inputs() -> None:
    named = replace(FEW(), names=tuple(f"{i}.png" for i in range(len(FEW().unlabeled))))
    assert Answered(named, (1,), (0,))().names[:3] == ("0.png", "2.png", "3.png")
    both = replace(named, labeled_names=tuple(f"known {i}" for i in range(20)))
    assert Answered(both, (1,), (0,))().labeled_names[-2:] == ("known 19", "1.png")
    assert Answered(named, (1,), (0,))().labeled_names == ()


def test_answers_to_answers_read_back() -> None:
    twice = Answered(Answered(FEW, (7, 3), (1, 0)), (0,), (5,))
    recipe = perceptron(task=twice)
    again = Recipe.from_json(recipe.to_json())
    assert again.task == twice
    assert again.read_task().fingerprint() == twice().fingerprint()


def test_checked_labels_are_corrected_and_read_back() -> None:
    before, checked = FEW(), Answered(FEW, (7,), (1,), checked=((4, 9), (0, 3)))
    now = checked()
    expected = before.labeled.labels.clone()
    expected[[4, 0]] = torch.tensor([9, 3])
    assert torch.equal(now.labeled.labels[:-1], expected)
    assert torch.equal(now.labeled.inputs[:-1], before.labeled.inputs)
    assert Recipe.from_json(perceptron(task=checked).to_json()).task == checked


@pytest.mark.parametrize(
    ("checked", "said"),
    [
        (((20, 0),), "label 20 is not among 20: these checks belong to another task"),
        (((0, 10),), r"checked label 10 at index 0 is outside 0 … 9"),
        (((0, 1), (0, 2)), "a label was checked twice"),
    ],
)
def test_checks_that_do_not_fit_are_rejected(checked: tuple[tuple[int, int], ...], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Answered(FEW, (), (), checked=checked)()


def test_answers_about_a_task_of_ones_own_are_written_down_as_such() -> None:
    recipe = perceptron(task=Answered(FEW(), (7,), (1,)))
    record = recipe.to_dict()["task"]
    assert (record["task"]["own"], record["asked"]) == ("refprior.data._task.Task", [7])
    with pytest.raises(ValueError, match="pass task="):
        Recipe.from_json(recipe.to_json())


@pytest.mark.parametrize(
    ("asked", "answers", "said"),
    [
        ((7, 3), (1,), "expected one answer for each input, got 1 answer for 2 different inputs"),
        ((7, 7), (1, 1), "expected one answer for each input, got 2 answers for 1 different input"),
        ((5000,), (1,), "input 5000 is not in the pool of 1177"),
        ((-1,), (1,), "input -1 is not in the pool of 1177"),
        ((0,), (10,), r"answered label 10 at index 0 is outside 0 … 9"),
    ],
)
def test_answers_that_do_not_fit_are_rejected(asked: tuple[int, ...], answers: tuple[int, ...], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Answered(FEW, asked, answers)()
