"""A scikit-learn compatible clusterer: clusters on which many particles agree, without labels of the target."""

# n inputs, K particles, M clusters

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClusterMixin, clone
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from refprior._checks import whole_number
from refprior._progress import watching
from refprior._words import in_short
from refprior.data import Examples, Task
from refprior.estimators._preprocess import (
    Inputs,
    as_numbers,
    as_trained,
    batch_size,
    checked,
    encoded,
    network_maker,
    prepared,
    seed_of,
    suitable_views,
    too_large,
)
from refprior.labeling import Questions, suggest
from refprior.methods import ReferencePrior, UnsupervisedTransfer
from refprior.networks import MLP
from refprior.posterior import Consensus, stability
from refprior.training import Optimizer, Recipe, Run, train
from refprior.training.loop import CONSENSUS_INPUTS, evenly_spaced
from refprior.views import View

_BLOCK = 4096  # inputs at a time
STABLE = 0.75  # stability below which another run is worth its time
METHOD = ReferencePrior(alpha=1.0, gamma=1.0)


class ReferencePriorClusterer(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Consensus clustering of unlabeled inputs by the particles of a reference prior.

    Each particle divides the inputs in its own way. Two inputs belong to one cluster if most particles predict them
    similarly. A labeled source task, `fit(X, source=(X_source, y_source))`, teaches the particles which features
    matter: transfer without labels of the target.

    Parameters
    ----------
    n_clusters : int, default: 8
        Largest number of clusters.
    method : UnsupervisedTransfer, optional
        Defaults to ``UnsupervisedTransfer`` with α = γ = 1, the plain information; β = 0.5 with a source.
    network : callable, optional
        Function that returns a new network of logits, as in ``ReferencePriorClassifier``. Defaults to ``MLP`` for
        vectors and ``SmallCNN`` for images.
    views : tuple, optional
        (weak, strong) views, as in ``ReferencePriorClassifier``.
    inputs : PrincipalComponents, Standardize or Identity, optional
        Transformation of the inputs, as in ``ReferencePriorClassifier``.
    particles : int, default: 32
        K, the number of networks.
    steps : int, default: 500
        Optimizer steps.
    unlabeled_batch : int, default: 256
        Inputs per step, at most as many as there are.
    source_batch : int, default: 64
        Source inputs per step.
    learning_rate : float, default: 0.01
        Learning rate of Adam with a cosine schedule.
    ema : float, default: 0.99
        Decay of the exponential moving average of the weights, which is used for predictions.
    restarts : int, default: 2
        Largest number of further runs, with other seeds, while two halves of the particles agree on less than 75 % of
        the rows. The most stable run is kept.
    device : str, default: "cpu"
        The torch device.
    verbose : int, default: 0
        1 shows a progress bar.
    random_state : int, RandomState or None, default: None
        Seed for all random draws; the same seed gives the same clusters.

    Attributes
    ----------
    labels_ : array (n,)
        The cluster of each row of X.
    stability_ : float
        Share of the rows on which two halves of the particles agree, after matching. It needs no labels.
    stabilities_ : list of float
        That of each run; more than one if the first was not stable.
    run_ : refprior.Run
        The trained run with its history.
    classes_ : array
        The classes of the clusters, after `answer`.

    Examples
    --------
    >>> import refprior as rp
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> clusters = rp.ReferencePriorClusterer(10, random_state=0).fit(X)
    >>> ask = clusters.suggest(budget=10)  # rows of X: one for each cluster
    >>> named = clusters.answer(ask, y[ask])
    >>> bool((named.classify(X) == y).mean() > 0.5)
    True
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        method: UnsupervisedTransfer | None = None,
        network: Callable[..., Any] | None = None,
        views: tuple[View, View] | None = None,
        inputs: Inputs | None = None,
        particles: int = 32,
        steps: int = 500,
        unlabeled_batch: int = 256,
        source_batch: int = 64,
        learning_rate: float = 0.01,
        ema: float = 0.99,
        restarts: int = 2,
        device: str = "cpu",
        verbose: int = 0,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.method = method
        self.network = network
        self.views = views
        self.inputs = inputs
        self.particles = particles
        self.steps = steps
        self.unlabeled_batch = unlabeled_batch
        self.source_batch = source_batch
        self.learning_rate = learning_rate
        self.ema = ema
        self.restarts = restarts
        self.device = device
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: object, y: object = None, *, source: tuple[ArrayLike, ArrayLike] | None = None) -> Self:
        """Find the clusters of all rows of X.

        Parameters
        ----------
        X : array-like (n, features) or (n, channels, height, width)
            Inputs.
        y : object, default: None
            Ignored.
        source : tuple of array-like, optional
            (X_source, y_source): inputs and labels of a related task.

        Returns
        -------
        self
            The fitted estimator.
        """
        recipe = self._recipe(X, source)
        self.stabilities_: list[float] = []
        for attempt in range(whole_number("restarts", self.restarts, at_least=0) + 1):
            with watching("clusters", recipe.steps, shown=bool(self.verbose)) as watch:
                run = train(replace(recipe, seed=recipe.seed + attempt), device=self.device, watch=watch)
            found = self._stability(run)
            if not any(found <= other for other in self.stabilities_):
                self.run_: Run = run
                self.stability_ = found
            self.stabilities_.append(found)
            if not found < STABLE:
                break
        self._consensus: Consensus = self.run_.consensus(self.n_clusters)
        self.labels_ = self._clusters(self.run_.task.unlabeled)
        self._answers: dict[int, object] = {}  # classes by row
        self._questions = Questions()  # the same, with class indices
        self.__dict__.pop("classes_", None)
        return self

    def recipe(self, X: object, *, source: tuple[ArrayLike, ArrayLike] | None = None) -> Recipe:
        """Return the recipe that `fit` trains, to modify or to train with `rp.train`.

        Parameters
        ----------
        X : array-like (n, features) or (n, channels, height, width)
            Inputs.
        source : tuple of array-like, optional
            (X_source, y_source): inputs and labels of a related task.

        Returns
        -------
        Recipe
            The recipe, with the data in it.
        """
        copy: Self = clone(self)
        return copy._recipe(X, source)

    def predict(self, X: object) -> np.ndarray:
        """Predict the cluster of each row.

        Parameters
        ----------
        X : array-like (n, features) or (n, channels, height, width)
            Inputs.

        Returns
        -------
        ndarray (n,)
            Clusters.
        """
        return self._clusters(as_trained(self, X))

    def suggest(self, budget: int = 10) -> np.ndarray:
        """Suggest the rows of the X of `fit` whose classes would be most informative.

        Parameters
        ----------
        budget : int, default: 10
            Number of rows.

        Returns
        -------
        ndarray (budget,)
            Indices of rows.
        """
        check_is_fitted(self, "run_")
        return np.array(suggest(self.run_, budget, self._questions).open)

    def answer(self, rows: ArrayLike, labels: ArrayLike) -> Self:
        """Name the clusters by the classes of a few rows of the X of `fit`.

        Earlier answers count too; the last answer for a row replaces the others.

        Parameters
        ----------
        rows : array-like of int
            Indices of rows.
        labels : array-like
            Their classes.

        Returns
        -------
        self
            The estimator, with `classes_`.

        Raises
        ------
        ValueError
            If labels and rows do not match, or there are more classes than clusters.
        """
        check_is_fitted(self, "run_")
        asked, count = np.asarray(rows), len(self.labels_)
        if asked.ndim != 1 or asked.dtype.kind not in "iu" or not ((asked >= 0) & (asked < count)).all():
            raise ValueError(f"rows must be a list of indices of rows of X, 0 … {count - 1}, got {in_short(rows)}")
        names, codes = encoded(labels)
        if len(asked) != len(codes) or (codes < 0).any():
            raise ValueError(f"expected one label per row, got {(codes >= 0).sum()} labels for {len(asked)} rows")
        answers = {**self._answers, **dict(zip(asked.tolist(), names[codes].tolist(), strict=True))}
        classes, y = encoded(list(answers.values()))
        clusters = len(self.run_.data.classes)
        if len(classes) > clusters:
            raise ValueError(f"expected at most {clusters} classes, one per cluster, got {len(classes)}")
        log_p = self.run_.log_probabilities(self.run_.task.unlabeled[list(answers)])
        self._consensus = self._consensus.named(log_p, torch.from_numpy(y).to(log_p.device), len(classes))
        self._answers, self._questions, self.classes_ = answers, Questions(tuple(answers), tuple(y.tolist())), classes
        return self

    def classify(self, X: object) -> np.ndarray:
        """Predict the class of each row, after `answer`.

        Parameters
        ----------
        X : array-like (n, features) or (n, channels, height, width)
            Inputs.

        Returns
        -------
        ndarray (n,)
            Classes.
        """
        check_is_fitted(self, "run_")
        check_is_fitted(self, "classes_", msg="the clusters have no classes yet: label a few rows and call answer")
        of_cluster = torch.as_tensor(self._consensus.classes).cpu().numpy()
        return np.asarray(self.classes_[of_cluster[self.predict(X)]])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _recipe(self, X: object, source: tuple[ArrayLike, ArrayLike] | None) -> Recipe:
        rows = checked(self, X, reset=True)
        whole_number("n_clusters", self.n_clusters, at_least=1)
        if self.n_clusters > rows.shape[0]:
            raise ValueError(f"n_clusters={self.n_clusters} must be at most n_samples={rows.shape[0]}")
        if too_large(rows):
            raise ValueError(f"sparse X of {rows.shape} is too large: reduce it with TruncatedSVD first")
        seed = seed_of(self.random_state)
        values, inputs, _ = prepared(rows, self.inputs, seed)
        pool, given = torch.from_numpy(values), None if source is None else self._source(source, values)
        task = Task(
            name="X",
            classes=tuple(str(cluster) for cluster in range(self.n_clusters)),
            labeled=Examples(pool[:0], torch.zeros(0, dtype=torch.int64)),
            unlabeled=pool,
            source=None if given is None else given[0],
            source_classes=() if given is None else given[1],
        )
        sources = len(task.source_classes)
        outputs = self.n_clusters + sources * (sources != self.n_clusters)
        weak, strong = suitable_views(self.views, task, inputs)
        network = MLP if self.network is None and values.ndim == 2 else self.network
        return Recipe(
            task=task,
            network=network_maker(network, inputs, task.shape, outputs),
            method=self.method or UnsupervisedTransfer(METHOD, beta=1.0 if source is None else 0.5),
            inputs=inputs,
            particles=self.particles,
            steps=self.steps,
            unlabeled_batch=batch_size("unlabeled_batch", self.unlabeled_batch, len(values)),
            source_batch=batch_size("source_batch", self.source_batch, len(task.source or [0])),
            weak=weak,
            strong=strong,
            optimizer=Optimizer(kind="adam", learning_rate=self.learning_rate, decay=0.0),
            ema=self.ema,
            evaluate_every=self.steps,
            readout="consensus",
            seed=seed,
        )

    def _stability(self, run: Run) -> float:
        """Return the stability of a run, NaN for fewer than four particles."""
        if self.particles < 4:
            return float("nan")
        return stability(run.log_probabilities(evenly_spaced(run.task.unlabeled, CONSENSUS_INPUTS)), self.n_clusters)

    def _source(self, source: tuple[ArrayLike, ArrayLike], like: np.ndarray) -> tuple[Examples, tuple[str, ...]]:
        """Return the source as examples of the same kind as X, and its classes."""
        if not isinstance(source, tuple | list) or len(source) != 2:
            raise ValueError(f"source must be (X_source, y_source), got {in_short(source)}")
        rows, (classes, codes) = checked(self, source[0], reset=False), encoded(source[1])
        check_consistent_length(rows, codes)
        if (codes < 0).any():
            raise ValueError(f"every row of the source needs a label, {(codes < 0).sum()} have none")
        values = as_numbers(rows, tokens=like.dtype == np.int64)
        if values.dtype != like.dtype:
            raise ValueError(f"the source is {rows.dtype} and X is {like.dtype}: convert them to one dtype")
        return Examples(torch.from_numpy(values), torch.from_numpy(codes)), tuple(str(name) for name in classes)

    def _clusters(self, inputs: Any) -> np.ndarray:
        starts = range(0, inputs.shape[0], _BLOCK)
        blocks = (torch.as_tensor(self.run_.log_probabilities(inputs[start : start + _BLOCK])) for start in starts)
        return np.concatenate([self._consensus.clusters(log_p).cpu().numpy() for log_p in blocks])
