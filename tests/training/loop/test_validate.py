"""What cannot work is refused before the first step, and the part that is missing is named."""

import itertools
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from refprior.data import Pair, task_from_arrays
from refprior.methods import Loss, Needs, ReferencePrior, Step, Supervised
from refprior.networks import MLP
from refprior.training import train
from refprior.training.loop._validate import check_needs
from tests.training.recipes import DIGITS, Wants, digits, first_stage, pair, perceptron, transferring

IMAGES, LABELS = np.zeros((4, 1, 8, 8), np.uint8), np.array([0, 1, 0, 1])
NO_POOL = task_from_arrays((IMAGES, LABELS), IMAGES[:0], (IMAGES, LABELS), name="small")


@pytest.mark.parametrize(
    ("needs", "missing"),
    [
        (Needs(views=("weak",)), "Wants needs unlabeled inputs, task 'small' has none"),
        (Needs(source=True), "Wants needs inputs of a source task, task 'small' has none: see refprior.data.Pair"),
        (Needs(enumerates=40), "order 40 of 2 classes has 1.1e12 labelings"),
        (Needs(classes=3), "class_prior has 3 numbers, task 'small' has 2 classes: give one for each"),
    ],
)
def test_each_missing_part_is_named(needs: Needs, missing: str) -> None:
    check_needs(perceptron(task=NO_POOL, method=Wants(Needs())), NO_POOL)
    with pytest.raises(ValueError, match=missing):
        check_needs(perceptron(task=NO_POOL, method=Wants(needs)), NO_POOL)


def test_missing_labels_are_named_only_where_they_are_needed() -> None:
    task = replace(DIGITS, labels=0)()
    check_needs(perceptron(method=Wants(Needs(labels=False, views=("weak",)))), task)
    with pytest.raises(ValueError, match="Wants needs labeled inputs, task 'digits' has none"):
        check_needs(perceptron(method=Wants(Needs())), task)


def test_a_kind_of_view_that_does_not_exist_is_named() -> None:
    with pytest.raises(ValueError, match="a view must be 'clean', 'weak' or 'strong', got 'medium'"):
        Needs(views=("weak", "medium"))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="tuple_size must be a whole number of at least 1, got 0"):
        Needs(tuple_size=0)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda total: total, "Returns must return a Loss, got a Tensor: return rp.Loss.of"),
        (lambda total: None, "Returns must return a Loss, got a NoneType"),
        (lambda total: Loss(total.expand(3), {}), "Returns: total of the loss must be a single number"),
        (lambda total: Loss.of(total, parts=torch.zeros(4)), "Returns: parts of the loss must be a single number"),
    ],
)
def test_a_method_that_returns_something_else_is_told_so(returned: Any, message: str) -> None:
    class Returns:
        needs = Needs()

        def __call__(self, step: Step) -> Loss:
            return returned(Supervised()(step).total)  # type: ignore[no-any-return]

    with pytest.raises(ValueError, match=message):
        train(perceptron(method=Returns(), steps=1))


def test_a_view_that_was_not_declared_is_named() -> None:
    class Greedy:
        needs = Needs(views=("weak",))

        def __call__(self, step: Step) -> Loss:
            return Loss.of(step.predict(step.batch.views["strong"])[0].mean())

    with pytest.raises(ValueError, match="the method does not declare the view 'strong'; it has weak"):
        train(perceptron(method=Greedy(), steps=1))


def test_a_pool_smaller_than_a_batch_is_refused() -> None:
    with pytest.raises(ValueError, match="a step takes 1000 unlabeled inputs, task 'digits' has 847"):
        train(perceptron(unlabeled_batch=1000))


def test_a_method_that_needs_unlabeled_images_gets_none_to_train_on() -> None:
    with pytest.raises(ValueError, match="ReferencePrior needs unlabeled inputs"):
        train(perceptron(task=NO_POOL, network=partial(MLP, (1, 8, 8), 2)))


def test_too_high_an_order_and_a_consensus_of_nothing_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"order 20 of 3 classes has 3\.5e9 labelings"):
        train(transferring(method=ReferencePrior(order=20), unlabeled_batch=40), tmp_path / "run")
    with pytest.raises(ValueError, match=r"a consensus needs unlabeled inputs, .* has 0"):
        train(first_stage(task=digits(0, 1, 2, labels=None), readout="consensus"))
    assert not (tmp_path / "run" / "recipe.json").exists()


@pytest.mark.parametrize(
    ("view", "made"),
    [
        (lambda images, _: images[:, :, :6], r"\(2, 1, 6, 8\)"),
        (lambda images, _: images[:1], r"\(1, 1, 8, 8\)"),
        (lambda images, _: None, "NoneType"),
    ],
)
@pytest.mark.parametrize("name", ["weak", "strong"])
def test_a_view_that_does_not_keep_the_images_is_refused(name: str, view: object, made: str) -> None:
    with pytest.raises(ValueError, match=rf"the {name} view makes {made} of \(2, 1, 8, 8\)"):
        train(perceptron(**{name: view}))


def test_a_network_with_other_outputs_than_classes_is_refused() -> None:
    with pytest.raises(ValueError, match="network gives 7 outputs, task 'digits' has 10 classes"):
        train(perceptron(network=partial(MLP, (1, 8, 8), 7)))


def test_a_network_that_does_not_take_the_images_is_refused() -> None:
    with pytest.raises(ValueError, match=r"the network does not take inputs of \(1, 8, 8\): "):
        train(perceptron(network=partial(MLP, (1, 9, 9), 10)))
    with pytest.raises(ValueError, match=r"the network gives \(2, 8, 10\) for 2 inputs, not \(inputs, classes\)"):
        train(perceptron(network=lambda: torch.nn.Sequential(torch.nn.Flatten(1, 2), torch.nn.Linear(8, 10))))


def test_copies_of_one_network_are_refused_unless_there_is_one_particle() -> None:
    net, other = MLP((1, 8, 8), 10), MLP((1, 8, 8), 10)
    with pytest.raises(ValueError, match=r"2 of 2 particles begin with the same weights .*Pretrained .* particles=1"):
        train(perceptron(network=lambda: deepcopy(net), steps=1))
    nets = itertools.cycle([net, other])
    with pytest.raises(ValueError, match="2 of 3 particles begin with the same weights"):
        train(perceptron(network=lambda: deepcopy(next(nets)), steps=1, particles=3))
    train(perceptron(network=lambda: deepcopy(net), steps=1, particles=1))


def test_a_source_that_is_missing_or_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="Transfer needs inputs of a source task"):
        train(transferring(task=digits(3, 4, 5, labels=6)))
    with pytest.raises(ValueError, match=r"the network gives 4 outputs, .* 3 classes, its source 3: 6 outputs"):
        train(transferring(network=partial(MLP, (1, 8, 8), 4)))
    uneven = Pair(source=digits(0, 1, labels=40), target=digits(3, 4, 5, labels=6))
    with pytest.raises(ValueError, match=r"the network gives 3 outputs, .* its source 2: 5 outputs give each"):
        train(transferring(task=uneven))
    train(transferring(task=uneven, network=partial(MLP, (1, 8, 8), 5), steps=1))


def test_outputs_of_the_source_need_a_method_that_knows_them() -> None:
    with pytest.raises(ValueError, match=r"the network gives 6 outputs, .* has 3 classes"):
        train(transferring(method=ReferencePrior(), network=partial(MLP, (1, 8, 8), 6)))


def test_a_target_without_labels_is_refused_by_a_method_that_needs_them() -> None:
    with pytest.raises(ValueError, match=r"Transfer needs labeled inputs, task 'digits-0-1-2-to-.*' has none"):
        train(transferring(task=pair(labels=0)))


def test_a_step_whose_images_do_not_fit_is_refused_with_the_numbers() -> None:
    message = r"a step of 1,000,000,\d+ inputs needs about 256 GB of memory, and .* lower labeled_batch"
    with pytest.raises(ValueError, match=message):
        train(perceptron(labeled_batch=10**9))
