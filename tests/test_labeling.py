"""Asking for labels: on a run whose particles tell the classes apart, few answers name everything; a run that has
labels already goes on from them."""

import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from refprior.data import Answered, Examples, read
from refprior.labeling import (
    Questions,
    classifier,
    classify,
    classify_pool,
    continuation,
    most_informative,
    most_typical,
    suggest,
)
from refprior.methods import ReferencePrior, Supervised, UnsupervisedTransfer
from refprior.networks import MLP
from refprior.posterior import uncertainty
from refprior.training import Optimizer, Recipe, Run, load, train
from tests.records import seal
from tests.training.recipes import digits, transferring

STILL = Optimizer(learning_rate=1e-12)  # one step changes nothing


@pytest.fixture(scope="module")
def labeled() -> Run:
    """Particles that know three digits."""
    recipe = Recipe(
        task=digits(0, 1, 2, labels=30),
        network=partial(MLP, (1, 8, 8), 3),
        method=Supervised(),
        particles=4,
        steps=150,
        labeled_batch=30,
        ema=0.9,
    )
    return train(recipe)


@pytest.fixture(scope="module")
def run(labeled: Run) -> Run:
    """The same particles, of which nobody knows what their outputs mean."""
    task = replace(labeled.task, labeled=labeled.task.labeled[torch.arange(0)])
    return replace(labeled, find_task=lambda: task)


@pytest.fixture(scope="module")
def truth(run: Run) -> list[int]:
    """The labels of the pool, found by comparing images: the task does not have them."""
    data = read("digits").train
    known = {image.numpy().tobytes(): int(label) for image, label in zip(data.inputs, data.labels, strict=True)}
    return [known[image.numpy().tobytes()] for image in run.task.unlabeled]


def accuracy(run: Run, questions: Questions, part: Examples) -> float:
    predicted = classify(run, classifier(run, questions), part.inputs)
    return (predicted == part.labels).double().mean().item()


@pytest.mark.parametrize("budget", [3, 9])
def test_a_label_for_each_typical_image_names_everything(run: Run, truth: list[int], budget: int) -> None:
    asked = suggest(run, budget)
    assert len(set(asked.open)) == budget
    answered = asked.answer([truth[i] for i in asked.open])
    assert accuracy(run, answered, run.task.held_out) > 0.9


def test_three_questions_are_of_three_classes(run: Run, truth: list[int]) -> None:
    assert sorted(truth[i] for i in suggest(run, 3).open) == [0, 1, 2]


def test_fewer_labels_than_classes_ask_of_the_largest_clusters(run: Run) -> None:
    two, three = suggest(run, 2), suggest(run, 3)
    assert two.asked == three.asked[:2]


def test_a_second_round_keeps_the_answers_and_asks_elsewhere(run: Run, truth: list[int]) -> None:
    first = suggest(run, 3)
    first = first.answer([truth[i] for i in first.open[:2]])  # the third stays without an answer
    second = suggest(run, 4, first)
    assert second.asked[:2] == first.asked[:2]
    assert second.answers == first.answers
    assert len(set(second.asked)) == 6
    home = run.consensus(6)
    clusters = home.clusters(run.log_probabilities(run.task.unlabeled))
    assert not set(clusters[list(second.open)].tolist()) & set(clusters[list(second.asked[:2])].tolist())


def test_questions_survive_the_folder(tmp_path: Path) -> None:
    assert Questions.load(tmp_path) == Questions()
    questions = Questions((5, 7, 9), (1, 0), checked=((3, 2), (1, 0)))
    questions.save(tmp_path)
    assert Questions.load(tmp_path) == questions
    assert questions.open == (9,)
    (tmp_path / "questions.json").write_text("{")
    with pytest.raises(ValueError, match=r"questions\.json is not valid JSON"):
        Questions.load(tmp_path)


def test_questions_of_a_run_with_other_images_are_rejected(run: Run, tmp_path: Path) -> None:
    for name, recipe in {"one": run.recipe, "other": replace(run.recipe, task=digits(0, 1, 2, labels=9))}.items():
        train(replace(recipe, steps=1), tmp_path / name)
    Questions((5, 7), (1,)).save(tmp_path / "one")
    assert Questions.load(tmp_path / "one").open == (7,)
    (tmp_path / "other" / "questions.json").write_bytes((tmp_path / "one" / "questions.json").read_bytes())
    with pytest.raises(ValueError, match=r"questions\.json belongs to a run with other inputs"):
        Questions.load(tmp_path / "other")


def test_what_cannot_be_is_rejected_with_numbers(run: Run) -> None:
    images = len(run.task.unlabeled)
    with pytest.raises(ValueError, match=f"can ask for 1 to {images} labels, got {images + 1}"):
        suggest(run, images + 1)
    with pytest.raises(ValueError, match="got 0"):
        suggest(run, 0)
    with pytest.raises(ValueError, match="expected 1 to 2 labels for the open questions, got 3"):
        Questions((1, 2), ()).answer([0, 1, 2])
    with pytest.raises(ValueError, match="no input has a label: answer a question first"):
        classifier(run, Questions((1, 2), ()))
    with pytest.raises(ValueError, match="no question has been answered and no label corrected yet"):
        continuation(run, Questions((1, 2), ()))


def test_questions_of_another_run_are_rejected(run: Run) -> None:
    with pytest.raises(ValueError, match=r"100000 does not fit .* questions of another run"):
        classifier(run, Questions((100_000,), (0,)))
    with pytest.raises(ValueError, match=r"7 does not fit .* 3 classes"):
        classifier(run, Questions((1,), (7,)))
    with pytest.raises(ValueError, match=r"100000 does not fit .* questions of another run"):
        suggest(run, 2, Questions((100_000,), (0,)))
    with pytest.raises(ValueError, match=r"0 does not fit .* 0 labels and 3 classes"):
        continuation(run, Questions(checked=((0, 0),)))


@pytest.mark.parametrize(
    "record",
    [
        {"asked": 3},
        {"asked": ["one"]},
        {"asked": [1.5]},
        {"answers": [None]},
        {"asked": [1], "answers": [0, 1]},
        {"asked": [1, 1]},
    ],
)
def test_questions_that_are_none_are_rejected_in_one_line(tmp_path: Path, record: dict[str, Any]) -> None:
    seal(tmp_path / "questions.json", {"format": 1, **record})
    with pytest.raises(ValueError, match=r"\A[^\n]*questions\.json is damaged: [^\n]+\Z"):
        Questions.load(tmp_path)


def test_a_run_that_was_loaded_asks_and_answers_as_the_trained_one(run: Run, truth: list[int], tmp_path: Path) -> None:
    trained = train(replace(run.recipe, readout="consensus"), tmp_path / "run")
    loaded = load(tmp_path / "run")
    asked = suggest(loaded, 4)
    assert asked == suggest(trained, 4)
    answered = asked.answer([truth[i] for i in asked.open])
    images = run.task.held_out.inputs
    predicted = classify(loaded, classifier(loaded, answered), images)
    assert torch.equal(predicted, classify(trained, classifier(trained, answered), images))


def test_clusters_with_a_labeled_input_come_last(labeled: Run) -> None:
    first = [int((labeled.task.labeled.labels == c).nonzero()[0]) for c in range(3)]
    task = replace(labeled.task, labeled=labeled.task.labeled[torch.tensor(first)])
    run = replace(labeled, recipe=replace(labeled.recipe, readout="consensus"), find_task=lambda: task)
    asked = suggest(run, 3).open
    found = run.consensus(6)  # as many as labels in all
    known, new = (found.clusters(run.log_probabilities(x)) for x in (task.labeled.inputs, task.unlabeled[list(asked)]))
    assert not set(known.tolist()) & set(new.tolist())


def test_a_run_with_labels_keeps_what_it_knows(labeled: Run, truth: list[int]) -> None:
    asked = suggest(labeled, 3)
    answered = asked.answer([truth[i] for i in asked.open])
    assert accuracy(labeled, answered, labeled.task.held_out) == pytest.approx(labeled.evaluate().accuracy)
    wrong = asked.answer([(truth[i] + 1) % 3 for i in asked.open])
    found = classify_pool(labeled, classifier(labeled, wrong), wrong)
    assert found[list(asked.open)].tolist() == list(wrong.answers)
    others = torch.ones(len(found), dtype=torch.bool).index_fill(0, torch.tensor(asked.open), False)
    before = classify(labeled, classifier(labeled), labeled.task.unlabeled)
    assert (found != before)[others].double().mean() < 0.02  # wrong answers weight the particles a little


def test_a_run_with_labels_asks_where_its_particles_disagree(labeled: Run) -> None:
    first = suggest(labeled, 20)
    between = labeled.uncertainty(labeled.task.unlabeled).between
    assert between[list(first.open)].mean() > 2 * between.mean()
    second = suggest(labeled, 20, Questions(first.asked, (0,) * 20))
    assert second.asked[:20] == first.asked
    assert not set(second.open) & set(first.asked)


def test_training_goes_on_from_the_weights_with_the_labels_joined(
    labeled: Run, truth: list[int], tmp_path: Path
) -> None:
    before = train(replace(labeled.recipe, steps=20), tmp_path / "first")
    asked = suggest(before, 4)
    answered = asked.answer([truth[i] for i in asked.open])
    recipe = continuation(before, answered, replace(before.recipe, steps=1, optimizer=STILL))
    after = train(recipe, tmp_path / "second", first_stage=before)
    assert not (tmp_path / "second" / "start").exists()
    for mine, theirs in zip(after.particles.parameters(), before.particles.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-6)
    assert len(after.task.labeled) == len(before.task.labeled) + 4
    assert len(after.task.unlabeled) == len(before.task.unlabeled) - 4
    assert after.task.labeled.labels[-4:].tolist() == list(answered.answers)
    assert torch.equal(after.task.labeled.inputs[-4:], before.task.unlabeled[list(asked.open)])
    again = load(tmp_path / "second")
    assert again.recipe.to_dict() == recipe.to_dict()
    assert isinstance(again.recipe.task, Answered)
    assert torch.equal(again.task.labeled.inputs, after.task.labeled.inputs)
    third = continuation(again, suggest(again, 2).answer([0, 1]), replace(before.recipe, steps=2))
    assert len(train(third, tmp_path / "third", first_stage=again).task.labeled) == len(before.task.labeled) + 6
    with pytest.raises(ValueError, match=r"first is of another recipe than recipe\.start"):
        train(third, tmp_path / "fourth", first_stage=load(tmp_path / "first"))


def test_a_batch_as_large_as_the_pool_follows_it(labeled: Run, truth: list[int]) -> None:
    pool = len(labeled.task.unlabeled)
    whole = train(replace(labeled.recipe, steps=1, method=ReferencePrior(), unlabeled_batch=pool))
    recipe = continuation(whole, Questions((0, 1, 2), tuple(truth[:3])))
    assert recipe.unlabeled_batch == pool - 3
    assert len(train(recipe, first_stage=whole).task.unlabeled) == pool - 3
    few = continuation(whole, Questions((0,), (truth[0],)), replace(whole.recipe, unlabeled_batch=8))
    assert few.unlabeled_batch == 8


def test_a_method_without_labels_does_not_go_on_with_them() -> None:
    recipe = transferring(method=UnsupervisedTransfer(ReferencePrior()), readout="consensus", steps=2)
    run = train(recipe)
    with pytest.raises(ValueError, match="UnsupervisedTransfer does not learn from labels: use a method"):
        continuation(run, Questions((0,), (1,)))
    assert continuation(run, Questions((0,), (1,)), transferring()).head == "new"  # no output has a name yet


def torn(*pairs: tuple[float, float]) -> torch.Tensor:
    """What two particles say: the probability of the first of two classes."""
    p = torch.tensor(pairs, dtype=torch.float64)
    return torch.stack([p, 1 - p], -1).transpose(0, 1).log()


def test_half_of_a_batch_is_where_particles_disagree_and_half_is_anywhere() -> None:
    log_p = torn(*[(0.999, 0.001)] * 1000, *[(0.9, 0.9)] * 9000)
    drawn = most_informative(log_p, 400)
    assert len(set(drawn.tolist())) == 400
    assert 0.48 < (drawn < 1000).double().mean() < 0.65  # a half, and a tenth of the other half
    assert drawn[:50].equal(most_informative(log_p, 50))
    assert not drawn.equal(most_informative(log_p, 400, seed=1))


def test_inputs_are_drawn_by_how_much_their_labels_tell() -> None:
    """Two kinds of disagreement: the shares are those of I + its mean."""
    log_p = torn(*[(0.99, 0.01)] * 5000, *[(0.7, 0.3)] * 5000)
    between = uncertainty(log_p, torch.full((2,), 0.5, dtype=torch.float64).log()).between
    weight = between + between.mean()
    drawn = most_informative(log_p, 300)
    assert (drawn < 5000).double().mean().item() == pytest.approx((weight[:5000].sum() / weight.sum()).item(), abs=0.07)


def test_inputs_with_a_label_are_not_drawn_and_do_not_count() -> None:
    log_p = torn(*[(0.999, 0.001)] * 50, *[(0.9, 0.9)] * 50)
    drawn = most_informative(log_p, 50, labeled=range(50))
    assert sorted(drawn.tolist()) == list(range(50, 100))


def test_a_single_particle_asks_by_entropy() -> None:
    log_p = torn(*[(0.5, 0.5)] * 100, *[(1.0, 1.0)] * 900)[:1]
    drawn = torch.stack([most_informative(log_p, 40, seed=seed) for seed in range(10)])
    assert 0.4 < (drawn < 100).double().mean() < 0.65


def test_what_cannot_be_chosen_is_rejected_with_numbers() -> None:
    log_p = torn((0.9, 0.1), (0.5, 0.5), (0.2, 0.4))
    with pytest.raises(ValueError, match="budget must be a whole number of at least 1, got 'a'"):
        most_informative(log_p, "a")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="can choose 1 to 2 inputs, got 3: 3 inputs, 1 labeled"):
        most_informative(log_p, 3, labeled=[1])
    with pytest.raises(ValueError, match="log_p contains NaN"):
        most_informative(log_p * torch.nan, 1)


def test_a_choice_among_many_inputs_is_quick() -> None:
    log_p = torch.randn(32, 30_000, 10, generator=torch.Generator().manual_seed(0)).mul(3).log_softmax(-1)
    started = time.process_time()
    assert len(set(most_informative(log_p, 10).tolist())) == 10
    assert time.process_time() - started < 2


def test_typical_inputs_are_of_the_largest_groups_without_a_label_first() -> None:
    torch.manual_seed(0)
    centers = 20 * torch.eye(6)
    sizes = [50, 40, 30, 20, 10, 5]
    inputs = torch.cat([center + torch.randn(size, 6) for center, size in zip(centers, sizes, strict=True)])
    group = torch.repeat_interleave(torch.arange(6), torch.tensor(sizes))
    chosen = most_typical(inputs, 4, labeled=centers[:1] + 0.1)
    assert group[chosen[0]] == 1
    assert 0 not in group[chosen[:3]].tolist()  # it has a label
    distances = (inputs - centers[group]).norm(dim=1)
    assert (distances[chosen[:3]] < distances.median()).all()


def test_typical_inputs_are_different_even_if_rows_are_not() -> None:
    same = torch.ones(8, 3)
    assert sorted(most_typical(same, 8, labeled=same[:1]).tolist()) == list(range(8))
    many = torch.randn(10_000, 2)
    assert len(set(most_typical(many, 50, labeled=many[:5]).tolist())) == 50
    with pytest.raises(ValueError, match="can choose 1 to 8 inputs, got 9"):
        most_typical(same, 9, labeled=same[:1])
