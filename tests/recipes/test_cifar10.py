"""cifar10_ssl: each preset is the paper's text or the authors' code, setting by setting, or a row of its table."""

import pytest
import torch

from refprior.methods import ReferencePrior
from refprior.networks import WideResNet
from refprior.recipes import named
from refprior.report import PUBLISHED
from refprior.training import Optimizer, Recipe
from refprior.training.loop._draw import Stream
from refprior.views import FlipCrop, RandAugment


def preset(name: str, **settings: str) -> Recipe:
    return named("cifar10_ssl", {"preset": name, **settings}, seed=0).recipe


def test_the_paper_has_all_three_tricks_and_counts_tuples() -> None:
    recipe = preset("paper")
    assert recipe.method == ReferencePrior(jensen=True, stop_gradient=True, threshold=0.95)
    assert (recipe.unlabeled_unit, recipe.tuples, recipe.labeled_batch) == ("tuples", 448, 64)
    assert (recipe.particles, recipe.steps, recipe.ema) == (4, 200 * 1024, 0.999)
    assert recipe.optimizer == Optimizer(learning_rate=0.03, decay=5e-4, schedule="cosine", warmup=1024)


def test_the_authors_code_cuts_images_into_tuples_and_has_no_warm_up() -> None:
    recipe = preset("authors_code")
    assert recipe.method == ReferencePrior.authors_code()
    assert (recipe.unlabeled_unit, recipe.tuples, recipe.steps) == ("images", 224, 250 * 1024)
    assert recipe.optimizer == Optimizer(learning_rate=0.03, decay=5e-4, schedule="seven_sixteenths", warmup=0)


def test_where_the_text_is_silent_both_are_as_the_code() -> None:
    for name, slope in (("paper", 0.1), ("authors_code", 0.0)):
        recipe = preset(name)
        assert recipe.strong == RandAugment(FlipCrop(pad=4), cutout=16, hole="rectangle")
        network = recipe.network()
        assert isinstance(network, WideResNet)
        assert network.head.weight.abs().max() <= 128**-0.5  # torch's own; Xavier's rule draws normal numbers
        assert {block.slope for block in network.stages} == {slope}


def test_labeled_images_are_drawn_from_an_epoch_of_copies() -> None:
    recipe = preset("authors_code", labels="50")
    assert recipe.labeled_copies == 1311  # ⌈64 · 1024 / 50⌉
    drawn = Stream(50, torch.Generator().manual_seed(0), recipe.labeled_copies)
    different = [len(drawn.take(64).unique()) for _ in range(300)]
    assert 35.8 < sum(different) / 300 < 36.8


ROWS = {
    "mixup": "Mixup",
    "vat": "VAT",
    "mean_teacher": "Mean Teacher",
    "mixmatch": "MixMatch",
    "fixmatch": "FixMatch (RA)",
    "fixmatch_cta": "FixMatch (CTA)",
    "dash": "DASH (RA)",
    "dash_cta": "DASH (CTA)",
    "selfmatch": "SelfMatch",
    "flexmatch": "FlexMatch",
}


def test_every_other_row_of_the_table_is_a_preset() -> None:
    printed = [row.name for row in PUBLISHED["cifar10_ssl"] if row.table == "tab:cifar10_ssl"]
    assert set(ROWS.values()) | {"Deep Reference Prior"} == set(printed)


@pytest.mark.parametrize("name", ROWS)
def test_a_row_has_the_settings_that_its_method_was_published_with(name: str) -> None:
    recipe = preset(name, labels="1000")
    wanted = next(row.settings for row in PUBLISHED["cifar10_ssl"] if row.name == ROWS[name])
    assert type(recipe.method).__name__ == wanted["method"]
    assert type(recipe.strong).__name__ == wanted.get("strong", "RandAugment")
    assert (recipe.particles, recipe.steps, recipe.ema, recipe.labeled_batch) == (1, 2**20, 0.999, 64)
    assert recipe.task.labeled_in_pool  # type: ignore[union-attr]
    adam = name in ("mixup", "vat", "mean_teacher", "mixmatch")
    assert recipe.unlabeled_batch == (64 if adam else 448)
    assert recipe.optimizer.kind == ("adamw" if adam else "sgd")
    assert not recipe.optimizer.decay_biases
    assert (recipe.start is not None) == (name == "selfmatch")


def test_a_preset_that_does_not_exist_is_refused_in_words() -> None:
    with pytest.raises(ValueError, match=r"preset must be .*'fixmatch_cta'.*, got 'fixmatch_ra'"):
        preset("fixmatch_ra")
