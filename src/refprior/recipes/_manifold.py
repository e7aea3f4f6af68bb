"""The figure fig:manifold_boundary: thousands of small networks spread in the space of predictions, no labels used."""

from functools import partial

from refprior.data import FewLabels, Standardize
from refprior.methods import InformationOnly
from refprior.networks import MLP
from refprior.training import Optimizer, Recipe

PAPER_STEPS = 50_000


def mnist_manifold(seed: int = 0, order: int = 2, paper_length: bool = False, shrink: int | None = None) -> Recipe:
    """3 against 5 on MNIST, K = 3000 particles, MLP of 32 hardtanh units, order 2: fig:manifold_boundary.

    The paper has 50,000 iterations of SGD and shows iterations 0, 5,000 and 50,000. Ours has 300 of Adam, which
    reach more than 90 % of the largest information 2 log 2; paper_length: the paper's iterations, and its SGD with a
    constant rate of 0.001 (times K, as all rates of SGD) and decay 1e-5, or none with `optimizer.decay=0`: the paper
    says both. On images of 14×14 (shrink = 2), so that they take hours and not a day: docs/geometry.md.

    >>> import refprior as rp
    >>> rp.recipes.mnist_manifold().particles
    3000
    """
    side = (2 if paper_length else 1) if shrink is None else shrink
    if not 1 <= side <= 28 or 28 % side:
        raise ValueError(f"shrink must divide 28, got {side}")
    long = Optimizer(learning_rate=1e-3, decay=1e-5, schedule="constant")
    short = Optimizer(kind="adam", learning_rate=1e-3, decay=0, schedule="constant")
    steps = PAPER_STEPS if paper_length else 300
    return Recipe(
        task=FewLabels("mnist", labels=0, seed=seed, classes=(3, 5), shrink=side),
        network=partial(MLP, shape=(1, 28 // side, 28 // side), classes=2),
        method=InformationOnly(order=order),
        inputs=Standardize(center="pixel"),  # the mean image would act as a bias: most particles would be constants
        particles=3000,
        steps=steps,
        unlabeled_batch=64,
        optimizer=long if paper_length else short,
        ema=0.0,
        evaluate_every=steps,
        snapshots=20,
        seed=seed,
    )
