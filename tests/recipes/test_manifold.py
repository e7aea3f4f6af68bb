"""mnist_manifold in small, where MNIST is present."""

import pytest
import torch

from refprior.data import DataError, FewLabels, Task
from refprior.geometry import information_of_tuples, is_constant
from refprior.recipes import mnist_manifold, named
from refprior.training import Optimizer, train


def three_or_five(shrink: int = 1) -> Task:
    """The task of the recipe, where MNIST is present."""
    try:
        return FewLabels("mnist", labels=0, classes=(3, 5), shrink=shrink)()
    except (OSError, DataError) as error:
        pytest.skip(f"needs MNIST: {error}")


def test_particles_spread_and_none_is_constant() -> None:
    three_or_five()
    run = train(named("mnist_manifold", {"particles": "40", "steps": "60", "shrink": "2"}, seed=0).recipe)
    log_p = run.log_probabilities(run.task.held_out.inputs, ema=False)
    before = run.history[0].terms["information"] or 0.0
    assert information_of_tuples(log_p, run.particles.log_prior.detach(), 2).mean() > max(1.0, before)
    assert is_constant(log_p).double().mean() < 0.01


def test_the_mean_image_is_taken_away_and_blocks_are_averaged() -> None:
    task, small = three_or_five(), three_or_five(shrink=2)
    pool = mnist_manifold().inputs.fit(task.training_inputs)(task.unlabeled)
    assert pool.mean(0).abs().max() < 1e-3
    assert pool.std().item() == pytest.approx(1, abs=1e-3)
    assert small.shape == (1, 14, 14)
    block = task.held_out.inputs[3, 0, 10:12, 14:16].float().mean().round()
    assert small.held_out.inputs[3, 0, 5, 7] == block
    assert torch.equal(small.held_out.labels, task.held_out.labels)


def test_the_length_of_the_paper_is_an_option() -> None:
    recipe = named("mnist_manifold", {"paper_length": "true"}, seed=0).recipe
    assert (recipe.steps, recipe.particles) == (50_000, 3000)
    assert recipe.optimizer == Optimizer(learning_rate=0.001, decay=1e-5, schedule="constant", momentum=0.9)
    for shrink in ("0", "3", "-1"):
        with pytest.raises(ValueError, match=f"shrink must divide 28, got {shrink}"):
            named("mnist_manifold", {"shrink": shrink}, seed=0)
