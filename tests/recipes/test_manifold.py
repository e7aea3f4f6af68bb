"""mnist_manifold in small, where MNIST is present."""

import pytest
import torch

from refprior.data import DataError
from refprior.geometry import information_of_tuples, is_constant
from refprior.recipes import named
from refprior.recipes._manifold import three_or_five
from refprior.training import train
from refprior.training._loop import log_probabilities


def require_mnist() -> None:
    try:
        three_or_five()
    except (OSError, DataError) as error:
        pytest.skip(f"needs MNIST: {error}")


def test_particles_spread_and_none_is_constant() -> None:
    require_mnist()
    run = train(named("mnist_manifold", {"particles": "40", "steps": "60", "shrink": "2"}, seed=0).recipe)
    log_p = log_probabilities(run.particles, run.task, run.task.test.images)
    before = run.history[0]["information"]
    assert information_of_tuples(log_p, run.particles.log_prior, 2).mean() > max(1.0, before)
    assert is_constant(log_p).double().mean() < 0.01


def test_the_mean_image_is_taken_away_and_blocks_are_averaged() -> None:
    require_mnist()
    task, small = three_or_five(), three_or_five(shrink=2)
    pool = task.normalise(task.unlabelled)
    assert pool.mean(0).abs().max() < 1e-3
    assert pool.std().item() == pytest.approx(1, abs=1e-3)
    assert small.shape == (1, 14, 14)
    block = task.test.images[3, 0, 10:12, 14:16].float().mean().round()
    assert small.test.images[3, 0, 5, 7] == block
    assert torch.equal(small.test.labels, task.test.labels)


def test_the_length_of_the_paper_is_an_option() -> None:
    recipe = named("mnist_manifold", {"paper_length": "true"}, seed=0).recipe
    assert (recipe.steps, recipe.optimiser.kind, recipe.particles) == (50_000, "sgd", 3000)
    for shrink in ("0", "3", "-1"):
        with pytest.raises(ValueError, match=f"shrink must divide 28, got {shrink}"):
            named("mnist_manifold", {"shrink": shrink}, seed=0)
