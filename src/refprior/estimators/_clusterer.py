"""Clusters that many particles agree on, without any label or with those of a source, in the manner of scikit-learn."""

# n inputs, K particles, M clusters

from collections.abc import Callable
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
from refprior.estimators._inputs import (
    Inputs,
    as_numbers,
    as_trained,
    batch_size,
    checked,
    network_maker,
    prepared,
    seed_of,
    suitable_views,
    too_large,
)
from refprior.estimators._labels import encoded
from refprior.labeling import Questions, suggest
from refprior.methods import ReferencePrior, UnsupervisedTransfer
from refprior.networks import MLP
from refprior.posterior import Consensus, stability
from refprior.training import Optimizer, Recipe, Run, train
from refprior.training.loop import CONSENSUS_IMAGES, evenly_spaced
from refprior.views import View

_BLOCK = 4096  # inputs at a time
METHOD = ReferencePrior(alpha=1.0, gamma=1.0)


class ReferencePriorClusterer(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Clusters of inputs without labels: particles that are confident and disagree, and what they agree on.

    Each particle divides the inputs in its own way. Two inputs belong together if most particles give them like
    predictions. A source task with labels, `fit(X, source=(X_source, y_source))`, teaches the particles what to look
    at: transfer without any target label.

    Parameters
    ----------
    n_clusters : int
        How many clusters to find; fewer may come out.
    network, views, inputs, particles, steps, unlabeled_batch, learning_rate, ema, device, verbose, random_state :
        As in ``ReferencePriorClassifier``. network None: an ``MLP`` for vectors.
    method : UnsupervisedTransfer
        None: ``UnsupervisedTransfer`` with α = γ = 1, the plain information.
    source_batch : int
        Inputs of the source per step.

    Attributes
    ----------
    labels_ : array (n,)
        The cluster of each row of X.
    stability_ : float
        Share of the rows on which two halves of the particles agree, after matching: no label is needed to know it.
    run_ : refprior.Run
        The training with its history.
    classes_ : array
        After `answer`: the names that clusters have.

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
        self.device = device
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: Any, y: object = None, *, source: tuple[ArrayLike, ArrayLike] | None = None) -> Self:
        """Find the clusters of all rows of X; y is not looked at. source: inputs and labels of a related task."""
        recipe = self._recipe(X, source)
        with watching("clusters", recipe.steps, shown=bool(self.verbose)) as watch:
            self.run_: Run = train(recipe, device=self.device, watch=watch)
        self._consensus: Consensus = self.run_.consensus(self.n_clusters)
        self.labels_ = self._clusters(self.run_.task.unlabeled)
        self.stability_ = _stability(self.run_, self.n_clusters)
        self._answers: dict[int, Any] = {}  # the class of each row that has one
        self._questions = Questions()  # the same, with the numbers of the classes
        self.__dict__.pop("classes_", None)
        return self

    def recipe(self, X: Any, *, source: tuple[ArrayLike, ArrayLike] | None = None) -> Recipe:
        """What `fit` trains, as a recipe of your own to change."""
        copy: Self = clone(self)
        return copy._recipe(X, source)

    def predict(self, X: Any) -> np.ndarray:
        """The cluster of each row: (n, *shape) -> (n,)."""
        return self._clusters(as_trained(self, X))

    def suggest(self, budget: int = 10) -> np.ndarray:
        """Rows of the X of `fit` whose classes would tell most, as indices: (budget,)."""
        check_is_fitted(self, "run_")
        return np.array(suggest(self.run_, budget, self._questions).open)

    def answer(self, rows: ArrayLike, labels: ArrayLike) -> Self:
        """Name the clusters by the classes of a few rows of the X of `fit`.

        Answers of before count too; a row that is answered again has its last answer.
        """
        check_is_fitted(self, "run_")
        asked, (names, codes) = _row_numbers(rows, len(self.labels_)), encoded(labels)
        if len(asked) != len(codes) or (codes < 0).any():
            raise ValueError(f"{(codes >= 0).sum()} labels for {len(asked)} rows: every row needs one")
        answers = {**self._answers, **dict(zip(asked, names[codes].tolist(), strict=True))}
        classes, y = encoded(list(answers.values()))
        clusters = len(self.run_.data.classes)
        if len(classes) > clusters:
            raise ValueError(f"{len(classes)} classes among the labels, {clusters} clusters")
        log_p = self.run_.log_probabilities(self.run_.task.unlabeled[list(answers)])
        self._consensus = self._consensus.named(log_p, torch.from_numpy(y).to(log_p.device), len(classes))
        self._answers, self._questions, self.classes_ = answers, Questions(tuple(answers), tuple(y.tolist())), classes
        return self

    def classify(self, X: Any) -> np.ndarray:
        """The class of each row, after `answer`: (n, *shape) -> (n,)."""
        check_is_fitted(self, "run_")
        check_is_fitted(self, "classes_", msg="the clusters have no names yet: label a few rows and call answer")
        of_cluster = torch.as_tensor(self._consensus.classes).cpu().numpy()
        return np.asarray(self.classes_[of_cluster[self.predict(X)]])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _recipe(self, X: Any, source: tuple[ArrayLike, ArrayLike] | None) -> Recipe:
        rows = checked(self, X, reset=True)
        whole_number("n_clusters", self.n_clusters, at_least=1)
        if self.n_clusters > rows.shape[0]:
            raise ValueError(f"n_clusters={self.n_clusters} must be at most n_samples={rows.shape[0]}")
        if too_large(rows):
            raise ValueError(f"sparse X of {rows.shape} is too large: give it to TruncatedSVD first")
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

    def _source(self, source: tuple[ArrayLike, ArrayLike], like: np.ndarray) -> tuple[Examples, tuple[str, ...]]:
        """The source task as examples of the same kind as X, and its classes."""
        if not isinstance(source, tuple | list) or len(source) != 2:
            raise ValueError(f"source must be (X_source, y_source), got {in_short(source)}")
        rows, (classes, codes) = checked(self, source[0], reset=False), encoded(source[1])
        check_consistent_length(rows, codes)
        if (codes < 0).any():
            raise ValueError(f"every row of the source needs a label, {(codes < 0).sum()} have none")
        values = as_numbers(rows, tokens=like.dtype == np.int64)
        if values.dtype != like.dtype:
            raise ValueError(f"inputs of the source are {rows.dtype}, X is {like.dtype}: convert them in the same way")
        return Examples(torch.from_numpy(values), torch.from_numpy(codes)), tuple(str(name) for name in classes)

    def _clusters(self, inputs: Any) -> np.ndarray:
        starts = range(0, inputs.shape[0], _BLOCK)
        blocks = (torch.as_tensor(self.run_.log_probabilities(inputs[start : start + _BLOCK])) for start in starts)
        return np.concatenate([self._consensus.clusters(log_p).cpu().numpy() for log_p in blocks])


def _stability(run: Run, clusters: int) -> float:
    log_p = run.log_probabilities(evenly_spaced(run.task.unlabeled, CONSENSUS_IMAGES))
    return stability(log_p, clusters) if len(log_p) >= 4 else float("nan")


def _row_numbers(rows: ArrayLike, count: int) -> list[int]:
    found = np.asarray(rows)
    if found.ndim != 1 or found.dtype.kind not in "iu" or not ((found >= 0) & (found < count)).all():
        raise ValueError(f"rows must be a list of whole numbers of 0 … {count - 1}, rows of X, got {in_short(rows)}")
    return [int(row) for row in found]
