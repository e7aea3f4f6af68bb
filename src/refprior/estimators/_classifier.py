"""A classifier for few labels and many inputs without, in the manner of scikit-learn."""

# n inputs, K particles, C classes

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from refprior._checks import one_of
from refprior._progress import watching
from refprior.data import Normaliser, Task, task_from_arrays
from refprior.estimators._inputs import Inputs, checked, network_maker, prepared, seed_of, views_of
from refprior.estimators._labels import encoded, labelled
from refprior.labelling import most_informative
from refprior.methods import Method, ReferencePrior
from refprior.posterior import Uncertainty
from refprior.training import Optimiser, Predictor, Recipe, Run, train
from refprior.views import View

log = logging.getLogger("refprior")


class Usual(NamedTuple):
    """Settings that are not given."""

    method: Method
    particles: int
    steps: int
    labelled_batch: int
    unlabelled_batch: int
    learning_rate: float


# Of vectors, chosen on validation rows of four kinds of data, one setting for all of them: docs/embeddings.md.
METHOD = ReferencePrior(alpha=0.4, gamma=1.0, threshold=0.8, balance=1.0)
VECTORS = Usual(METHOD, 32, 300, 64, 256, 0.03)
IMAGES = Usual(ReferencePrior(), 4, 1000, 32, 128, 0.01)


class ReferencePriorClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Semi-supervised classification with a reference prior of K particles.

    Rows of `y` that are −1 (or None or NaN, for labels that are names) have no label. All rows of `X`, labelled or not,
    are the unlabelled pool. Vectors (n, features) are projected to principal components and classified by K linear
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
    inputs : PrincipalComponents, Standardise or Identity of refprior.data
        How inputs become those of the network. None: 128 principal components for vectors with one scale for all,
        ``Standardise`` for images. Columns of a table that have different units want a ``StandardScaler`` before.
    particles : int
        K, the number of networks. None: 32 for vectors, 4 for images.
    steps : int
        Updates of the weights. None: 300 for vectors, 1,000 for images.
    labelled_batch, unlabelled_batch : int
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
        Begin with the particles of the fit before, where features and classes are the same: labels that arrive later.
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
    >>> few = np.where(np.arange(len(y)) < 100, y, -1)  # 100 labels, 1,697 rows without
    >>> clf = rp.ReferencePriorClassifier(random_state=0).fit(X, few)
    >>> bool((clf.predict(X[100:]) == y[100:]).mean() > 0.9)
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
        labelled_batch: int | None = None,
        unlabelled_batch: int | None = None,
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
        self.labelled_batch = labelled_batch
        self.unlabelled_batch = unlabelled_batch
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
        recipe, projection = self._recipe(X, y)
        before = self._before(recipe) if self.warm_start else None
        recipe = recipe if before is None else replace(recipe, start=before.recipe)
        with watching("classifier", recipe.steps, shown=self.verbose > 0) as watch:
            self.run_: Run = train(recipe, device=self.device, watch=watch, start=before)
        self.predictor_: Predictor = self._deployed(self.run_, projection)
        return self

    def recipe(self, X: Any, y: ArrayLike) -> Recipe:
        """What `fit` trains, as a recipe of your own to change: `rp.train(clf.recipe(X, y), "runs/mine")`."""
        return self._recipe(X, y)[0]

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each row: (n, *shape) -> (n,)."""
        chosen = self.predict_proba(X).argmax(1)
        return np.asarray(self.classes_[chosen])

    def predict_proba(self, X: Any) -> np.ndarray:
        """The posterior predictive, in the order of `classes_`: (n, *shape) -> (n, C)."""
        given = self._given(X)
        return self.predictor_.predict_proba(given)

    def uncertainty(self, X: Any) -> Uncertainty:
        """Total = within particles + between particles, in nats per row: (n, *shape) -> (n,) each."""
        given = self._given(X)
        return self.predictor_.uncertainty(given)

    def suggest(self, X: Any, budget: int = 10) -> np.ndarray:
        """The rows whose labels would tell most, as indices: (n, *shape) -> (budget,)."""
        given = self._given(X)
        log_p = self.predictor_.log_probabilities(given)
        return np.asarray(most_informative(log_p, budget, self.predictor_.log_posterior))

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """The accuracy on the rows that have a label, so that searches over settings may hold out any rows."""
        values = np.asarray(y)
        known = labelled(values) | np.isin(values, self.classes_)
        weight = None if sample_weight is None else np.asarray(sample_weight)[known]
        return float(accuracy_score(values[known], self.predict(X)[known], sample_weight=weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.non_deterministic = False
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: without the data of the training, which would make it as large as they are."""
        state = dict(super().__getstate__())
        if "run_" in state:
            run: Run = state["run_"]
            state["run_"] = replace(run, recipe=replace(run.recipe, task=_not_kept, start=None), find_task=_not_kept)
        return state

    def _before(self, recipe: Recipe) -> Run | None:
        """The last fit as the first stage of a recipe, if it was of such inputs, classes and networks."""
        run: Run | None = getattr(self, "run_", None)
        if run is None or run.step < run.recipe.steps or not isinstance(recipe.task, Task):
            return None
        same = (run.data.shape, run.data.classes) == (recipe.task.shape, recipe.task.classes)
        if not same or run.recipe.particles != recipe.particles:
            log.warning("warm_start: inputs, classes or particles are others than before, so new networks are drawn")
            return None
        return replace(run, recipe=replace(run.recipe, start=None))

    def _recipe(self, X: Any, y: ArrayLike) -> tuple[Recipe, Normaliser | None]:
        """The recipe, and how large sparse rows were projected before it, if they were."""
        rows = checked(self, X, reset=True)
        classes, codes = encoded(y)
        check_consistent_length(rows, codes)
        _check_classes(classes, codes)
        self.classes_ = classes
        seed = seed_of(self.random_state)
        values, inputs, projection = prepared(rows, self.inputs, seed)
        known = codes >= 0
        names = getattr(self, "feature_names_in_", ()) if projection is None else ()
        task = task_from_arrays(
            labelled=(values[known], codes[known]),
            unlabelled=values,
            classes=[str(name) for name in classes],
            name="X",
            features=[str(name) for name in names],
        )
        return self.recipe_of(task, inputs, seed), projection

    def recipe_of(self, task: Task, inputs: Inputs, seed: int) -> Recipe:
        """The recipe of a task with these settings. inputs: what networks see."""
        usual = VECTORS if len(task.shape) == 1 else IMAGES
        chosen = {name: getattr(self, name) for name in ("particles", "steps", "labelled_batch", "unlabelled_batch")}
        numbers = {name: getattr(usual, name) if value is None else value for name, value in chosen.items()}
        rate = usual.learning_rate if self.learning_rate is None else self.learning_rate
        weak, strong = views_of(task.shape) if self.views is None else self.views
        return Recipe(
            task=task,
            network=network_maker(self.network, inputs, task.shape, len(task.classes)),
            method=self._method(usual.method, task),
            inputs=inputs,
            particles=numbers["particles"],
            steps=numbers["steps"],
            labelled_batch=min(numbers["labelled_batch"], len(task.labelled)),
            unlabelled_batch=min(numbers["unlabelled_batch"], len(task.unlabelled)),
            weak=weak,
            strong=strong,
            optimiser=Optimiser(kind="adam", learning_rate=rate, decay=self.decay),
            ema=self.ema,
            evaluate_every=numbers["steps"],
            seed=seed,
        )

    def _method(self, usual: Method, task: Task) -> Method:
        """The method; a reference prior with the shares of the classes as its target, if there are such."""
        method = usual if self.method is None else self.method
        target = self._target(shares_of(task))
        if target is None or not isinstance(method, ReferencePrior):
            return method
        return replace(method, class_prior=tuple(target.tolist()))

    def _target(self, shares: np.ndarray) -> np.ndarray | None:
        """The shares of the classes where predictions are made; None: nothing is said of them: (C,) -> (C,)."""
        if self.class_prior is None:
            return None
        if not isinstance(self.class_prior, str):
            return _checked_shares(np.asarray(self.class_prior, dtype=float), len(shares))
        one_of("class_prior", self.class_prior, ("labels", "uniform"))
        return shares if self.class_prior == "labels" else np.full(len(shares), 1 / len(shares))

    def _deployed(self, run: Run, projection: Normaliser | None) -> Predictor:
        """The predictor of a run, with the correction of the classes and the projection that came before it."""
        shares = shares_of(run.task)
        target = self._target(shares)
        found = run.predictor()
        if target is not None:
            found = replace(found, log_prior_ratio=torch.from_numpy(np.log(target / shares)).float())
        if projection is None:
            return found
        names = tuple(str(name) for name in getattr(self, "feature_names_in_", ()))
        return replace(found, normaliser=projection, shape=(self.n_features_in_,), features=names)

    def _given(self, X: Any) -> Any:
        check_is_fitted(self)
        return checked(self, X, reset=False)


def shares_of(task: Task) -> np.ndarray:
    """Of each class among the labels: (C,)."""
    counts = np.bincount(task.labelled.labels.cpu().numpy(), minlength=len(task.classes))
    return np.asarray(counts / counts.sum())


def _check_classes(classes: np.ndarray, codes: np.ndarray) -> None:
    if not len(classes):
        raise ValueError(
            f"y has no label in {len(codes)} rows: for groups without any label there is ReferencePriorClusterer"
        )
    if len(classes) == 1:
        raise ValueError(f"y has only one class, {classes[0]!r}: a classifier needs at least two classes")


def _checked_shares(target: np.ndarray, classes: int) -> np.ndarray:
    if target.shape != (classes,) or not (target > 0).all() or not np.isfinite(target).all():
        raise ValueError(f"class_prior must be {classes} shares above 0, one per class, got {target}")
    return np.asarray(target / target.sum())


def _not_kept() -> Task:
    raise ValueError("the data of the training are not kept in a pickle")
