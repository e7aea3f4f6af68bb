"""The experiment of fig:manifold_boundary: thousands of small networks spread in prediction space without labels."""

from functools import partial

from refprior.data import FewLabels, Standardize
from refprior.methods import InformationOnly
from refprior.networks import MLP
from refprior.training import Optimizer, Recipe

PAPER_STEPS = 50_000


def mnist_manifold(seed: int = 0, order: int = 2, paper_length: bool = False, shrink: int | None = None) -> Recipe:
    """Spread 3,000 particles in prediction space on 3 against 5 of MNIST, without labels.

    This is fig:manifold_boundary: K = 3000 MLPs of 32 hardtanh units, order 2. The paper trains 50,000 iterations of
    SGD and shows iterations 0, 5,000 and 50,000. The default of 300 iterations of Adam reaches more than 90 % of the
    largest information 2 log 2. See docs/geometry.md.

    Parameters
    ----------
    seed : int, default: 0
        Seed for the initial weights and the batches.
    order : int, default: 2
        Order of the reference prior.
    paper_length : bool, default: False
        Train the paper's 50,000 iterations with its SGD: a constant rate of 0.001 (times K, like all rates of SGD) and
        decay 1e-5. The paper also states that there was no decay: set ``optimizer.decay=0``.
    shrink : int, optional
        Factor by which images are reduced. Defaults to 1, or to 2 with ``paper_length``, which then takes hours instead
        of a day.

    Returns
    -------
    Recipe
        The recipe, ready for `rp.train`.

    Examples
    --------
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
