"""A strong view that learns: the loop tells it how well its probes are recognised, and a resume keeps what it knows."""

from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from refprior.data import Task, task_from_arrays
from refprior.methods import FixMatch, Supervised
from refprior.networks import MLP
from refprior.training import Recipe, train
from refprior.training._loop import State, begin, draw, optimise
from refprior.views import CTAugment, FlipCrop, Learning, RandAugment, Shift, unchanged
from refprior.views._ctaugment import full_bank
from tests.training.test_survival import assert_same_run, final_weights, interrupted_at

CPU = torch.device("cpu")


def colours() -> Task:
    """Reddish and bluish noise of 8×8."""
    random = np.random.RandomState(0)
    labels = np.arange(60) % 2
    images = random.randint(0, 160, (60, 3, 8, 8))
    images[np.arange(60), 2 * labels] += 90
    images = images.astype(np.uint8)
    return task_from_arrays((images[:8], labels[:8]), images[8:40], (images[40:], labels[40:]))


RECIPE = Recipe(
    task=colours,
    network=partial(MLP, (3, 8, 8), 2),
    method=FixMatch(),
    particles=2,
    steps=9,
    labelled=6,
    unlabelled=8,
    weak=FlipCrop(pad=1),
    strong=CTAugment(weak=FlipCrop(pad=1), cutout=4),
    ema=0.9,
    evaluate_every=1,
)


def trained(recipe: Recipe) -> State:
    state = begin(recipe, recipe.task(), CPU)
    list(optimise(recipe, recipe.task(), state))
    return state


def test_views_that_learn_are_told_from_those_that_do_not() -> None:
    assert isinstance(CTAugment(), Learning)
    assert not any(isinstance(view, Learning) for view in (unchanged, Shift(), RandAugment()))


def test_the_bank_moves_in_a_run_and_the_recipe_keeps_its_own() -> None:
    state = trained(RECIPE)
    assert isinstance(state.strong, CTAugment)
    assert int((state.strong.rates != full_bank()).sum()) > 20
    assert isinstance(RECIPE.strong, CTAugment)
    assert torch.equal(RECIPE.strong.rates, full_bank())


def test_rates_move_towards_the_probability_of_the_true_class() -> None:
    """A network that gives the classes the probabilities 0.3 and 0.7 whatever it sees."""

    class Constant(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.logits = nn.Parameter(torch.tensor([0.3, 0.7]).log())

        def forward(self, x: Tensor) -> Tensor:
            return self.logits.expand(len(x), 2)

    strong = CTAugment(weak=FlipCrop(pad=1), cutout=4, decay=0.0)  # a rate is the last probability
    recipe = replace(RECIPE, network=Constant, strong=strong)
    state = begin(recipe, colours(), CPU)
    draw(recipe, colours(), state)
    assert isinstance(state.strong, CTAugment)
    moved = state.strong.rates[state.strong.rates != full_bank()]
    assert {round(rate, 6) for rate in moved.tolist()} == {0.3, 0.7}


@dataclass
class Diary:
    """A view that changes nothing and writes down what it is asked and told."""

    asked: list[Tensor] = field(default_factory=list)
    told: list[tuple[str, Tensor]] = field(default_factory=list)
    draws: list[Tensor] = field(default_factory=list)

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        return images

    def probe(self, images: Tensor, generator: torch.Generator) -> tuple[Tensor, str]:
        self.asked.append(images)
        self.draws.append(generator.get_state())
        return 255 - images, f"policy {len(self.asked)}"

    def update(self, policy: str, proximity: Tensor) -> None:
        self.told.append((policy, proximity))


def normalised() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(192, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2))


def test_the_moving_average_predicts_the_probes_in_evaluation_mode() -> None:
    recipe = replace(RECIPE, network=normalised, weak=unchanged, strong=Diary())
    state = begin(recipe, colours(), CPU)
    for _ in zip(range(3), optimise(recipe, colours(), state), strict=False):
        pass
    diary = state.strong
    assert isinstance(diary, Diary)
    before = state.drawing.get_state()
    batch = draw(recipe, colours(), state)
    assert diary.asked[-1].dtype == torch.uint8
    torch.testing.assert_close(colours().normalise(diary.asked[-1]), batch.x)
    assert torch.equal(diary.draws[-1], before)  # the views' generator
    probed = colours().normalise(255 - diary.asked[-1])
    alone = [state.teacher.particle(k).eval()(probed).softmax(-1) for k in range(2)]
    expected = torch.stack(alone).mean(0)[torch.arange(6), batch.y]
    policy, proximity = diary.told[-1]
    assert policy == "policy 4"
    torch.testing.assert_close(proximity, expected)
    assert not proximity.requires_grad


def test_without_unlabelled_images_nothing_is_probed() -> None:
    diary = trained(replace(RECIPE, method=Supervised(), strong=Diary())).strong
    assert isinstance(diary, Diary)
    assert not diary.asked


def test_an_interrupted_run_equals_the_uninterrupted_one(tmp_path: Path) -> None:
    train(RECIPE, tmp_path / "whole")
    interrupted_at(RECIPE, tmp_path / "parts", [2, 5, 8])
    assert_same_run(tmp_path / "whole", tmp_path / "parts")
    rates = final_weights(tmp_path / "parts")["strong.rates"]
    assert torch.equal(rates, trained(RECIPE).strong.state_dict()["rates"])  # type: ignore[attr-defined]
    assert not torch.equal(rates, full_bank())
