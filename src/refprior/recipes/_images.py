"""Semi-supervised recipes on image data sets, small enough for a CPU."""

from dataclasses import replace
from functools import partial
from typing import Literal

from refprior._checks import one_of
from refprior.data import FewLabels, PatchComponents
from refprior.methods import Contrastive, Method, ReferencePrior
from refprior.networks import MLP, SmallCNN, WideResNet
from refprior.training import Optimizer, Recipe
from refprior.views import default_views

Pretraining = Literal["none", "contrastive"]


def pretrained(recipe: Recipe, method: Method | None = None, steps: int | None = None) -> Recipe:
    """Put a pretraining stage without labels before a recipe.

    The first stage uses the same data, and its output layer is dropped.

    Parameters
    ----------
    recipe : Recipe
        The second stage.
    method : Method, optional
        Method of the first stage. Defaults to `Contrastive()`, which is SelfMatch if the second stage is `FixMatch`.
    steps : int, optional
        Steps of the first stage. Defaults to those of the second.

    Returns
    -------
    Recipe
        A recipe with two stages.

    Examples
    --------
    >>> import refprior as rp
    >>> recipe = rp.recipes.pretrained(rp.recipes.digits_ssl(labels=50))
    >>> recipe.start.method, recipe.head
    (Contrastive(temperature=0.5, projection=64), 'new')
    """
    first = replace(
        recipe,
        method=Contrastive() if method is None else method,
        steps=recipe.steps if steps is None else steps,
    )
    return replace(recipe, start=first, head="new")


def after(pretraining: Pretraining, recipe: Recipe) -> Recipe:
    """Return the recipe, with contrastive pretraining before it if requested."""
    one_of("pretraining", pretraining, ("none", "contrastive"))
    return recipe if pretraining == "none" else pretrained(recipe)


def digits_ssl(labels: int = 50, seed: int = 0, pretraining: Pretraining = "none") -> Recipe:
    """Semi-supervised learning on 8×8 digits with few labels.

    K = 4 particles, order 2. The paper does not use this data set. Measured on the test part with seeds 0, 1, 2 and 600
    steps: EMA ensemble 96.4 ± 0.5 % (supervised 85.6 ± 1.3, with strong views 91.6 ± 1.9, FixMatch 95.7 ± 1.1):
    docs/experiments.md.

    Parameters
    ----------
    labels : int, default: 50
        Number of labels, equally many per class.
    seed : int, default: 0
        Seed for the choice of labels, the initial weights, the batches and the views.
    pretraining : {"none", "contrastive"}, default: "none"
        Whether a contrastive stage without labels comes first.

    Returns
    -------
    Recipe
        The recipe, ready for `rp.train`.

    Examples
    --------
    >>> import refprior as rp
    >>> rp.recipes.digits_ssl(labels=100).task.labels
    100
    """
    weak, strong = default_views("digits", (1, 8, 8))
    recipe = Recipe(
        task=FewLabels("digits", labels=labels, seed=seed, validation=300),
        network=partial(SmallCNN, shape=(1, 8, 8), classes=10),
        method=ReferencePrior.paper(),
        steps=600,
        labeled_batch=32,
        unlabeled_batch=128,
        weak=weak,
        strong=strong,
        optimizer=Optimizer(learning_rate=0.06),
        ema=0.99,
        evaluate_every=50,
        seed=seed,
    )
    return after(pretraining, recipe)


def mnist_ssl(labels: int = 50, seed: int = 0, pretraining: Pretraining = "none") -> Recipe:
    """Semi-supervised learning on MNIST with a small CNN.

    K = 4 particles, order 2. The paper has no semi-supervised result on MNIST. Measured on the test part with 50, 100
    and 250 labels, 1,000 steps and seeds 0, 1, 2: EMA ensemble 96.9 ± 0.4, 97.5 ± 0.4 and 97.8 ± 0.2 % (FixMatch
    96.7 ± 0.4, 97.2 ± 0.4, 97.6 ± 0.2; supervised 88.6 ± 1.8, 92.8 ± 1.3, 95.9 ± 0.7), one to two minutes per run:
    docs/experiments.md.

    Parameters
    ----------
    labels : int, default: 50
        Number of labels, equally many per class.
    seed : int, default: 0
        Seed for the choice of labels, the initial weights, the batches and the views.
    pretraining : {"none", "contrastive"}, default: "none"
        Whether a contrastive stage without labels comes first.

    Returns
    -------
    Recipe
        The recipe, ready for `rp.train`.

    Examples
    --------
    >>> import refprior as rp
    >>> rp.recipes.mnist_ssl(labels=50).steps
    1000
    """
    weak, strong = default_views("digits", (1, 28, 28))
    recipe = Recipe(
        task=FewLabels("mnist", labels=labels, seed=seed, validation=1000),
        network=partial(SmallCNN, shape=(1, 28, 28), classes=10, width=8),
        method=ReferencePrior.paper(),
        steps=1000,
        labeled_batch=32,
        unlabeled_batch=128,
        weak=weak,
        strong=strong,
        optimizer=Optimizer(learning_rate=0.03),
        ema=0.99,
        evaluate_every=250,
        seed=seed,
    )
    return after(pretraining, recipe)


def fashion_ssl(labels: int = 50, seed: int = 0, pretraining: Pretraining = "none") -> Recipe:
    """Semi-supervised learning on Fashion-MNIST with a small CNN.

    K = 4 particles, order 2. The paper does not use this data set. Measured on the test part with 50 and 250 labels,
    1,000 steps and seeds 0, 1, 2: EMA ensemble 69.4 ± 3.1 and 78.0 ± 1.5 % (FixMatch 69.4 ± 4.3 and 77.8 ± 0.8,
    supervised 65.8 ± 2.1 and 76.0 ± 0.3): docs/experiments.md.

    Parameters
    ----------
    labels : int, default: 50
        Number of labels, equally many per class.
    seed : int, default: 0
        Seed for the choice of labels, the initial weights, the batches and the views.
    pretraining : {"none", "contrastive"}, default: "none"
        Whether a contrastive stage without labels comes first.

    Returns
    -------
    Recipe
        The recipe, ready for `rp.train`.

    Examples
    --------
    >>> import refprior as rp
    >>> rp.recipes.fashion_ssl(labels=50).weak
    FlipCrop(pad=2, flip=True)
    """
    weak, strong = default_views("objects", (1, 28, 28))
    recipe = replace(
        mnist_ssl(labels, seed),
        task=FewLabels("fashion-mnist", labels=labels, seed=seed, validation=1000),
        weak=weak,
        strong=strong,
    )
    return after(pretraining, recipe)


def cifar10_ssl_small(labels: int = 250, seed: int = 0, pretraining: Pretraining = "none") -> Recipe:
    """Semi-supervised learning on CIFAR-10 with a small CNN, for 2 CPU cores.

    K = 4 particles, order 2. The paper (WRN-28-2, 200 epochs): 92.13 ± 0.39 % with 250 labels, tab:cifar10_ssl.
    Measured on the test part with 250 labels, 1,500 steps and seeds 0, 1, 2: EMA ensemble 36.6 ± 0.7 % (FixMatch
    37.5 ± 0.4, supervised 35.6 ± 0.8), eight minutes of processor time per run: docs/experiments.md.

    Parameters
    ----------
    labels : int, default: 250
        Number of labels, equally many per class.
    seed : int, default: 0
        Seed for the choice of labels, the initial weights, the batches and the views.
    pretraining : {"none", "contrastive"}, default: "none"
        Whether a contrastive stage without labels comes first.

    Returns
    -------
    Recipe
        The recipe, ready for `rp.train`.

    Examples
    --------
    >>> import refprior as rp
    >>> rp.recipes.cifar10_ssl_small().method.threshold
    0.95
    """
    weak, strong = default_views("photos", (3, 32, 32))
    recipe = Recipe(
        task=FewLabels("cifar10", labels=labels, seed=seed, validation=1000),
        network=partial(SmallCNN, shape=(3, 32, 32), classes=10, width=32, hidden=128),
        method=ReferencePrior(threshold=0.95),
        steps=1500,
        labeled_batch=32,
        unlabeled_batch=128,
        weak=weak,
        strong=strong,
        optimizer=Optimizer(learning_rate=0.03),
        ema=0.995,
        evaluate_every=500,
        seed=seed,
    )
    return after(pretraining, recipe)


def cifar10_ssl_medium(labels: int = 250, seed: int = 0, pretraining: Pretraining = "none") -> Recipe:
    """Semi-supervised learning on CIFAR-10 at 16×16 with a short Wide ResNet, in half an hour of one core.

    WRN-10-2, K = 2 particles, order 2, tab:cifar10_ssl between `cifar10_ssl_small` and `cifar10_ssl`. Batch norm
    statistics move ten times faster than in the paper because there are fewer steps. The paper (WRN-28-2, 200 epochs):
    92.13 ± 0.39 % with 250 labels. We have not completed its table: docs/results.md.

    Parameters
    ----------
    labels : int, default: 250
        Number of labels, equally many per class.
    seed : int, default: 0
        Seed for the choice of labels, the initial weights, the batches and the views.
    pretraining : {"none", "contrastive"}, default: "none"
        Whether a contrastive stage without labels comes first.

    Returns
    -------
    Recipe
        The recipe, ready for `rp.train`.

    Examples
    --------
    >>> import refprior as rp
    >>> rp.recipes.cifar10_ssl_medium().network.keywords["depth"]
    10
    """
    weak, strong = default_views("photos", (3, 16, 16))
    recipe = Recipe(
        task=FewLabels("cifar10", labels=labels, seed=seed, validation=1000, shrink=2),
        network=partial(WideResNet, shape=(3, 16, 16), classes=10, depth=10, momentum=0.01),
        method=ReferencePrior(threshold=0.95),
        particles=2,
        steps=3000,
        labeled_batch=32,
        unlabeled_batch=128,
        weak=weak,
        strong=strong,
        optimizer=Optimizer(learning_rate=0.03),
        precision="auto",
        evaluate_every=500,
        seed=seed,
    )
    return after(pretraining, recipe)


def cifar10_ssl_patches(labels: int = 250, seed: int = 0) -> Recipe:
    """Semi-supervised learning on CIFAR-10 from patch features, for 2 CPU cores.

    K = 4 particles, order 2. Before the first step, `PatchComponents` computes 128 components of every image without
    using labels. The particles are small networks on them; views change the images. Measured on the test part with 250
    labels, 400 steps and seeds 0, 1, 2: EMA ensemble 52.7 ± 1.0 % (FixMatch 51.8 ± 0.8, supervised 52.0 ± 1.0), three
    minutes of processor time and 1.7 GiB per run: docs/experiments.md.

    Parameters
    ----------
    labels : int, default: 250
        Number of labels, equally many per class.
    seed : int, default: 0
        Seed for the choice of labels, the initial weights, the batches and the views.

    Returns
    -------
    Recipe
        The recipe, ready for `rp.train`.

    Examples
    --------
    >>> import refprior as rp
    >>> rp.recipes.cifar10_ssl_patches().inputs.count
    128
    """
    weak, strong = default_views("photos", (3, 32, 32))
    return Recipe(
        task=FewLabels("cifar10", labels=labels, seed=seed, validation=1000),
        network=partial(MLP, shape=(128,), classes=10, hidden=64),
        method=ReferencePrior(threshold=0.6, balance=3.0),
        inputs=PatchComponents(128, view=strong),
        steps=400,
        labeled_batch=32,
        unlabeled_batch=128,
        weak=weak,
        strong=strong,
        optimizer=Optimizer(learning_rate=0.01, decay=0.01),
        ema=0.99,
        evaluate_every=400,
        seed=seed,
    )
