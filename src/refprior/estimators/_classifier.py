"""A classifier for few labels and many inputs without, in the manner of scikit-learn."""

# n inputs, K particles, C classes

import logging
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_consistent_length
from torch import Tensor

from refprior._checks import one_of
from refprior._progress import watching
from refprior._words import in_short
from refprior.data import Normalizer, Task, task_from_arrays
from refprior.estimators._inputs import (
    AsFitted,
    Inputs,
    as_trained,
    batch_size,
    checked,
    digests,
    network_maker,
    prepared,
    seed_of,
    suitable_views,
)
from refprior.estimators._labels import encoded, labels_of
from refprior.labeling import most_informative, most_typical
from refprior.methods import Method, ReferencePrior
from refprior.posterior import Uncertainty
from refprior.training import Optimizer, Predictor, Recipe, Run, train
from refprior.views import View

log = logging.getLogger("refprior")


class Usual(NamedTuple):
    """Settings that are not given."""

    method: Method
    particles: int
    steps: int
    labeled_batch: int
    unlabeled_batch: int
    learning_rate: float


# Of vectors, chosen on validation rows of four kinds of data, one setting for all of them: docs/embeddings.md.
METHOD = ReferencePrior(alpha=0.4, gamma=1.0, threshold=0.8, balance=1.0)
FEW_LABELS = 300  # up to which typical rows are suggested
VECTORS = Usual(METHOD, 32, 300, 64, 256, 0.03)
IMAGES = Usual(ReferencePrior(), 4, 1000, 32, 128, 0.01)


class ReferencePriorClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Semi-supervised classification with a reference prior of K particles.

    Rows of `y` that are −1 (or None or NaN, for labels that are names) have no label. All rows of `X`, labeled or not,
    are the unlabeled pool. Vectors (n, features) are projected to principal components and classified by K linear
    layers; images (n, channels, height, width) by K small convolutional networks. No test part is needed.

    Parameters
    ----------
    method : ReferencePrior, FixMatch, Supervised, or any other of refprior.methods
        None: ``ReferencePrior`` with the settings of docs/embeddings.md.
    network : function that makes a network that returns logits
        If it takes ``shape`` and ``classes``, it is given them. None: ``Linear`` or ``SmallCNN``.
    views : (weak, strong)
        Two views of refprior.views or functions of (inputs, generator). None: noise for vectors, small motions for
        images.
    inputs : PrincipalComponents, Standardize or Identity of refprior.data
        How inputs become those of the network. None: 128 principal components for vectors with one scale for all,
        ``Standardize`` for images. Columns of a table that have different units want a ``StandardScaler`` before.
    particles : int
        K, the number of networks. None: 32 for vectors, 4 for images.
    steps : int
        Updates of the weights. None: 300 for vectors, 1,000 for images.
    labeled_batch, unlabeled_batch : int
        Inputs per step, at most as many as there are. None: 64 and 256 for vectors, 32 and 128 for images.
    learning_rate : float
        Of Adam, with a cosine schedule. None: 0.03 for vectors, 0.01 for images.
    decay : float
        Weight decay.
    ema : float
        Decay of the moving average of the weights, which predicts.
    class_prior : None, "uniform", "labels" or one share per class in the order of ``classes_``
        How often classes are in the pool and where predictions are made. None: as in training, balanced in the
        objective. "labels": as often as in the labels. "uniform" undoes an imbalance of the labels.
    warm_start : bool
        Begin with the particles of the fit before, and with its inputs as they were fitted, where features and classes
        are the same: labels and rows that arrive later.
    device : str
        Of torch.
    verbose : int
        1 shows a progress bar.
    random_state : int, RandomState or None
        Decides everything that is drawn: the same number gives the same classifier.

    Attributes
    ----------
    classes_ : array (C,)
    predictor_ : refprior.Predictor
        What one deploys: ``predictor_.save("model")``.
    run_ : refprior.Run
        The training with its history.
    n_features_in_, feature_names_in_ :
        As in scikit-learn.

    There is no ``sample_weight``: a row of the pool is drawn at random, so that a weight of two would not be the same
    as the row twice.

    Examples
    --------
    >>> import numpy as np
    >>> import refprior as rp
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> few = np.where(np.random.RandomState(0).rand(len(y)) < 0.06, y, -1)  # 108 labels, 1,689 rows without
    >>> clf = rp.ReferencePriorClassifier(random_state=0).fit(X, few)
    >>> bool((clf.predict(X) == y).mean() > 0.9)
    True
    """

    def __init__(
        self,
        method: Method | None = None,
        *,
        network: Callable[..., Any] | None = None,
        views: tuple[View, View] | None = None,
        inputs: Inputs | None = None,
        particles: int | None = None,
        steps: int | None = None,
        labeled_batch: int | None = None,
        unlabeled_batch: int | None = None,
        learning_rate: float | None = None,
        decay: float = 0.0,
        ema: float = 0.99,
        class_prior: str | ArrayLike | None = None,
        warm_start: bool = False,
        device: str = "cpu",
        verbose: int = 0,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.method = method
        self.network = network
        self.views = views
        self.inputs = inputs
        self.particles = particles
        self.steps = steps
        self.labeled_batch = labeled_batch
        self.unlabeled_batch = unlabeled_batch
        self.learning_rate = learning_rate
        self.decay = decay
        self.ema = ema
        self.class_prior = class_prior
        self.warm_start = warm_start
        self.device = device
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Learn from all rows of X and the labels that y has: (n, *shape), (n,)."""
        plan = self._plan(X, y)
        with watching("classifier", plan.recipe.steps, shown=bool(self.verbose)) as watch:
            run = train(plan.recipe, device=self.device, watch=watch, start=plan.start)
        self.classes_ = plan.classes
        self.run_: Run = run
        self.predictor_: Predictor = plan.deployed(run)
        self._labeled: Tensor = run.normalizer(run.task.labeled.inputs).cpu()  # as networks see them
        self._known = plan.known
        return self

    def recipe(self, X: Any, y: ArrayLike) -> Recipe:
        """What `fit` trains, as a recipe of your own to change: `rp.train(clf.recipe(X, y), "runs/mine")`."""
        copy: Self = clone(self)
        return copy._plan(X, y).recipe

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each row: (n, *shape) -> (n,)."""
        chosen = self.predict_proba(X).argmax(1)
        return np.asarray(self.classes_[chosen])

    def predict_proba(self, X: Any) -> np.ndarray:
        """The posterior predictive, in the order of `classes_`: (n, *shape) -> (n, C)."""
        given = as_trained(self, X)
        return np.asarray(self._precise().predict_proba(given))

    def uncertainty(self, X: Any) -> Uncertainty:
        """Total = within particles + between particles, in nats per row: (n, *shape) -> (n,) each."""
        given = as_trained(self, X)
        return self._precise().uncertainty(given)

    def suggest(self, X: Any, budget: int = 10) -> np.ndarray:
        """The rows whose labels would tell most, as indices: (n, *shape) -> (budget,).

        Rows that have a label, and their equals, are left out.
        Of vectors with few labels, typical rows of groups that have no label yet, `labeling.most_typical`; of images,
        or with more than 300 labels, rows on which the particles disagree, `labeling.most_informative`.
        """
        given, predictor = as_trained(self, X), self.predictor_
        free = np.flatnonzero([row not in self._known for row in digests(given)])
        if not len(free):
            raise ValueError(f"all {given.shape[0]} rows of X have labels: there is nothing to ask for")
        given = given[free]
        if len(predictor.shape) == 1 and len(self._labeled) <= FEW_LABELS:
            chosen = most_typical(predictor.inputs(given), budget, self._labeled)
        else:
            chosen = most_informative(
                torch.as_tensor(predictor.log_probabilities(given)), budget, predictor.log_posterior
            )
        return np.asarray(free[chosen.cpu().numpy()])

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """The accuracy on the rows that have a label, so that searches over settings may hold out any rows."""
        predicted = self.predict(X)
        labels, known = labels_of(y, self.classes_)
        check_consistent_length(predicted, known, sample_weight)
        if not len(labels):
            raise ValueError(f"y has no label in {len(known)} rows: there is nothing to compare predictions with")
        weight = None if sample_weight is None else np.asarray(sample_weight)[known]
        return float(accuracy_score(labels, predicted[known], sample_weight=weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.non_deterministic = False
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: without the data of the training, which would make it as large as they are."""
        state = dict(super().__getstate__())
        if "run_" in state:
            state["run_"] = _without_data(state["run_"])
        return state

    def _plan(self, X: Any, y: ArrayLike) -> "_Plan":
        rows = checked(self, X, reset=True)
        classes, codes = encoded(y)
        check_consistent_length(rows, codes)
        _check_classes(classes, codes)
        seed, known = seed_of(self.random_state), codes >= 0
        names = tuple(str(name) for name in getattr(self, "feature_names_in_", ()))
        start = self._before(rows.shape[1:], names, classes) if self.warm_start and hasattr(self, "run_") else None
        fitted = None if start is None else self.predictor_.normalizer
        values, inputs, projection = prepared(rows, self.inputs, seed, fitted)
        task = task_from_arrays(
            labeled=(values[known], codes[known]),
            unlabeled=values,
            classes=[str(name) for name in classes],
            name="X",
            features=names if projection is None else (),
        )
        shares = shares_of(task)
        target = _target(self.class_prior, shares)
        recipe = self.recipe_of(task, inputs, seed)
        if start is not None:
            recipe = replace(recipe, start=start.recipe)
            recipe = replace(recipe, inputs=AsFitted(fitted)) if projection is None else recipe  # type: ignore[arg-type]
        return _Plan(
            recipe=recipe,
            start=start,
            known=frozenset(digests(rows[known])),
            classes=classes,
            log_ratio=None if target is None else torch.from_numpy(np.log(target / shares)).float(),
            projection=projection,
            shape=rows.shape[1:],
            features=names,
        )

    def recipe_of(self, task: Task, inputs: Inputs, seed: int) -> Recipe:
        """The recipe of a task with these settings. inputs: what networks see."""
        usual = VECTORS if len(task.shape) == 1 else IMAGES
        given = {name: getattr(self, name) for name in Usual._fields}
        chosen = usual._replace(**{name: value for name, value in given.items() if value is not None})
        target, method = _target(self.class_prior, shares_of(task)), chosen.method
        if target is not None and isinstance(method, ReferencePrior):
            method = replace(method, class_prior=tuple(target.tolist()))
        weak, strong = suitable_views(self.views, task, inputs)
        return Recipe(
            task=task,
            network=network_maker(self.network, inputs, task.shape, len(task.classes)),
            method=method,
            inputs=inputs,
            particles=chosen.particles,
            steps=chosen.steps,
            labeled_batch=batch_size("labeled_batch", chosen.labeled_batch, len(task.labeled)),
            unlabeled_batch=batch_size("unlabeled_batch", chosen.unlabeled_batch, len(task.unlabeled)),
            weak=weak,
            strong=strong,
            optimizer=Optimizer(kind="adam", learning_rate=chosen.learning_rate, decay=self.decay),
            ema=self.ema,
            evaluate_every=chosen.steps,
            seed=seed,
        )

    def _before(self, shape: tuple[int, ...], features: tuple[str, ...], classes: np.ndarray) -> Run | None:
        """The run to begin with, if it was of the same features and classes."""
        there = (self.predictor_.shape, self.predictor_.features, self.classes_.tolist())
        if there != (shape, features, classes.tolist()):
            log.warning("features or classes are not those of the fit before: warm_start begins with new particles")
            return None
        return _without_data(self.run_)

    def _precise(self) -> Predictor:
        """The predictor; of our own network for vectors in 64 bits, so that the rows beside a row do not matter."""
        found = self.predictor_
        if self.network is not None or len(found.shape) > 1 or found.dtype != torch.float32:
            return found
        numbers = {name: tensor.double() for name, tensor in found.normalizer.state_dict().items()}
        return replace(found, particles=deepcopy(found.particles).double(), normalizer=Normalizer(**numbers))


class _Plan(NamedTuple):
    """What `fit` will do, and what it must remember for the predictor."""

    recipe: Recipe
    start: Run | None  # the run that it begins with
    known: frozenset[bytes]  # which rows have labels
    classes: np.ndarray  # (C,)
    log_ratio: Tensor | None  # (C,) what the log-probabilities of the classes are corrected by
    projection: Normalizer | None  # of large sparse rows, before the recipe
    shape: tuple[int, ...]  # of a row of X
    features: tuple[str, ...]  # its names

    def deployed(self, run: Run) -> Predictor:
        """The predictor of a run, for rows of X."""
        found = replace(run.predictor(), log_prior_ratio=self.log_ratio)
        if self.projection is not None:
            found = replace(found, normalizer=self.projection, shape=self.shape)
        return replace(found, features=self.features)


def shares_of(task: Task) -> np.ndarray:
    """Of each class among the labels: (C,)."""
    counts = np.bincount(task.labeled.labels.cpu().numpy(), minlength=len(task.classes))
    return np.asarray(counts / counts.sum())


def _check_classes(classes: np.ndarray, codes: np.ndarray) -> None:
    if not len(classes):
        raise ValueError(
            f"y has no label in {len(codes)} rows: for groups without any label there is ReferencePriorClusterer"
        )
    if len(classes) == 1:
        name = classes.tolist()[0]
        raise ValueError(f"y has only one class, {name!r}: a classifier needs at least two classes")


def _target(class_prior: str | ArrayLike | None, shares: np.ndarray) -> np.ndarray | None:
    """The shares of classes that are asked for, if any are; `shares`: those of the labels: (C,) -> (C,)."""
    if class_prior is None:
        return None
    if isinstance(class_prior, str):
        named = {"labels": shares, "uniform": np.full(len(shares), 1 / len(shares))}
        one_of("class_prior", class_prior, named)
        return named[class_prior]
    try:
        target = np.asarray(class_prior, dtype=float)
    except (TypeError, ValueError):
        target = np.empty(0)
    if target.shape != shares.shape or not (target > 0).all() or not np.isfinite(target).all():
        raise ValueError(
            f"class_prior must be {len(shares)} shares above 0, one per class, got {in_short(class_prior)}"
        )
    return np.asarray(target / target.sum())


def _without_data(run: Run) -> Run:
    """A run that does not hold the data of its training, nor of those before it."""
    return replace(run, recipe=replace(run.recipe, task=_not_kept, start=None), find_task=_not_kept)


def _not_kept() -> Task:
    raise ValueError("the data of the training are not kept")
