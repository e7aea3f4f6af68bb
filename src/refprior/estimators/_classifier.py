"""A scikit-learn compatible classifier for few labels and many unlabeled inputs."""

# n inputs, K particles, C classes

import logging
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any, Literal, NamedTuple, Self, get_args

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_consistent_length
from torch import Tensor

from refprior._checks import number, one_of
from refprior._progress import watching
from refprior._words import in_short
from refprior.data import Columns, FewLabels, Identity, Normalizer, Standardize, Task, task_from_arrays
from refprior.data.sources import is_folder
from refprior.estimators._choice import ENCODED, METHOD, Candidate, Trial, candidates, choose
from refprior.estimators._preprocess import (
    COMPONENTS,
    AsFitted,
    Inputs,
    as_trained,
    batch_size,
    checked,
    encoded,
    labels_of,
    network_maker,
    prepared,
    row_fingerprints,
    seed_of,
    spaces,
    suitable_views,
)
from refprior.estimators._report import FitReport, fit_report
from refprior.labeling import About, about_rules, most_informative, most_typical
from refprior.methods import AdaptiveReferencePrior, Method, ReferencePrior
from refprior.posterior import (
    NOISE,
    Evidence,
    LabelQuality,
    OutOfFold,
    Rules,
    Uncertainty,
    conformal_sets,
    find_rules,
)
from refprior.training import Optimizer, Predictor, Recipe, Run, train
from refprior.training.loop import log_probabilities
from refprior.views import View

log = logging.getLogger("refprior")


class Defaults(NamedTuple):
    """Default settings for one kind of inputs."""

    method: Method
    particles: int
    steps: int
    labeled_batch: int
    unlabeled_batch: int
    learning_rate: float


FEW_LABELS = 300  # largest number for which typical rows are suggested
RULE_ROWS = 4000  # rows by which rules are found
_SIDE = 32  # pixels to which larger images of a folder are resized by default
VECTORS = Defaults(METHOD, 32, 300, 64, 256, 0.03)
IMAGES = Defaults(ReferencePrior(), 4, 1000, 32, 128, 0.01)


class ReferencePriorClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Semi-supervised classification with a reference prior of K particles.

    Rows whose `y` is −1 (or None or NaN, if labels are names) are unlabeled. All rows of `X`, labeled or not, form the
    unlabeled pool. Vectors (n, features) are projected to principal components and classified by K linear layers;
    images (n, channels, height, width) by K small convolutional networks. No test part is needed.

    Parameters
    ----------
    method : method of refprior.methods, optional
        For example ``ReferencePrior``, ``FixMatch`` or ``Supervised``. Defaults to ``ReferencePrior`` with the settings
        of docs/embeddings.md, and with `folds` to ``AdaptiveReferencePrior``.
    network : callable, optional
        Function that returns a new network of logits. It is called with ``shape`` and ``classes`` if it accepts them.
        Defaults to ``Linear`` for vectors and ``SmallCNN`` for images.
    views : tuple, optional
        (weak, strong): two views of refprior.views, or functions of (inputs, generator). Defaults to noise for vectors
        and small motions for images.
    inputs : {"components", "neighbors", "columns", "bins", "leaves", "labels"} or transform, optional
        Inputs of the networks. "components" are 128 principal components on a common scale, "neighbors" their means
        over nearest neighbors, "columns" half whitened components with less noise, "bins" and "leaves" those with
        quantile bins or leaves of random trees beside them, and "labels" is "components" with less noise and without
        unlabeled rows. A transform of refprior.data is used with the noise of "components".

        By default, all of them are tried for a quarter of the steps, and the one that predicts held-out labels best is
        chosen (`inputs_`). A custom method, network or view, large sparse rows, ``warm_start``, and classes with one
        label leave it at "components"; images have ``Standardize``. Put a ``StandardScaler`` before the estimator if
        columns have different units.
    particles : int, optional
        K, the number of networks. Defaults to 32 for vectors and 4 for images.
    steps : int, optional
        Optimizer steps. Defaults to 300 for vectors and 1,000 for images.
    labeled_batch, unlabeled_batch : int, optional
        Inputs per step, at most as many as there are. Defaults to 64 and 256 for vectors, 32 and 128 for images.
    learning_rate : float, optional
        Learning rate of Adam with a cosine schedule. Defaults to 0.03 for vectors and 0.01 for images.
    decay : float, default: 0
        Weight decay.
    ema : float, default: 0.99
        Decay of the exponential moving average of the weights, which is used for predictions.
    class_prior : "uniform", "labels" or array-like, optional
        Class shares in the pool and where predictions are made. "labels" uses the shares of the labels, "uniform" equal
        shares, which corrects imbalanced labels; an array has one share per class in the order of ``classes_``. By
        default the objective is balanced and predictions are not corrected.
    folds : {"off", "auto"} or int, default: "off"
        Divide the labels into folds, each of which some particles leave out: `label_quality_` then finds wrong labels,
        and `out_of_fold_` is of these particles. ``"auto"`` makes as many folds as particles. A particle that leaves
        out a label and is rewarded for disagreement tends to contradict the others there: use ``alpha=0``.
    doubt_labels : bool, default: False
        With `folds`, weight each label in training by the probability that it is right.
    calibrate : bool, default: True
        With `folds`, divide the log-probabilities by a temperature that the labels out of fold suggest.
    warm_start : bool, default: False
        Continue from the previous fit if features and classes match. Use it when labels or rows arrive later. With
        folds, every fit starts with new particles, because labels may move to other folds.
    device : str, default: "cpu"
        The torch device.
    verbose : int, default: 0
        1 shows a progress bar.
    random_state : int, RandomState or None, default: None
        Seed for all random draws; the same seed gives the same classifier.

    Attributes
    ----------
    classes_ : array (C,)
        The classes in order.
    predictor_ : refprior.Predictor
        The deployable model: ``predictor_.save("model")``.
    run_ : refprior.Run
        The trained run with its history.
    out_of_fold_ : OutOfFold
        Predictions of the labeled rows by particles that have not learned their labels, and their scores. Without
        `folds`, they are those of a short run with eight folds and without disagreement; there are none if a class has
        one label.
    label_quality_ : LabelQuality
        The probability that each label is right, and the class that the particles suggest; ``index`` holds rows of X.
        With folds.
    inputs_ : str
        Name of the inputs that were chosen; "given" for a transform, and for images.
    report_ : FitReport
        Scores of the fit and of baselines on the same labels, and shares of the classes: ``print(clf.report_)``.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : array of str
        Names of the features, if X has them.
    preparation_ : Columns or None
        The fitted preparation of a data frame whose columns are not all complete numbers.

    Notes
    -----
    There is no ``sample_weight``: rows of the pool are drawn at random, so a weight of two would not equal two copies
    of a row.

    Examples
    --------
    >>> import numpy as np
    >>> import refprior as rp
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> few = np.where(np.random.RandomState(0).rand(len(y)) < 0.06, y, -1)  # 108 labels, 1,689 unlabeled rows
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
        inputs: Inputs | str | None = None,
        particles: int | None = None,
        steps: int | None = None,
        labeled_batch: int | None = None,
        unlabeled_batch: int | None = None,
        learning_rate: float | None = None,
        decay: float = 0.0,
        ema: float = 0.99,
        class_prior: str | ArrayLike | None = None,
        folds: Literal["off", "auto"] | int = "off",
        doubt_labels: bool = False,
        calibrate: bool = True,
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
        self.folds = folds
        self.doubt_labels = doubt_labels
        self.calibrate = calibrate
        self.warm_start = warm_start
        self.device = device
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: object, y: ArrayLike) -> Self:
        """Fit the classifier to all rows of X and the labels in y.

        Parameters
        ----------
        X : array-like (n, features) or (n, channels, height, width)
            Inputs. A data frame of pandas or polars may have categories, dates, texts and missing cells.
        y : array-like (n,)
            Labels; −1, None or NaN for unlabeled rows.

        Returns
        -------
        self
            The fitted estimator.
        """
        plan = self._plan(X, y)
        with watching("classifier", plan.recipe.steps, shown=bool(self.verbose)) as watch:
            run = train(plan.recipe, device=self.device, watch=watch, first_stage=plan.start)
        self.classes_ = plan.classes
        self.inputs_, trial = plan.name, plan.trials.get(plan.name)
        self.run_: Run = run
        self.predictor_: Predictor = plan.deployed(run)
        self._labeled: Tensor = run.normalizer(run.task.labeled.inputs).cpu()  # as the networks see them
        self._seen = set(plan.labeled.tolist())  # fingerprints of the rows that have had a label
        for name in ("out_of_fold_", "label_quality_", "_cross"):
            self.__dict__.pop(name, None)  # of an earlier fit
        if trial is not None:
            self.out_of_fold_: OutOfFold = trial.out_of_fold
            self._cross = replace(plan.deployed(run, trial.normalizer), particles=trial.particles), trial
        if run.result.evaluation is not None and run.result.evaluation.out_of_fold is not None:
            self.out_of_fold_ = run.out_of_fold()
            given = self.classes_[self.out_of_fold_.labels]
            suggested = self.classes_[self.out_of_fold_.log_probabilities.argmax(-1)]
            quality = replace(run.label_quality(), given=given, suggested=suggested, index=plan.rows)
            self.label_quality_: LabelQuality = quality
        self.report_: FitReport = fit_report(run, self.predictor_, plan.name, plan.trials)
        self.report_.warn()
        if self.verbose:
            print(self.report_)
        return self

    def given(self, X: object, y: ArrayLike, *, noise: float = NOISE) -> Self:
        """Weight the particles by labels of rows that had none in `fit`, without training.

        Use it where the labels of `fit` admit several rules: a few new labels choose among the particles. Like
        ``partial_fit`` it changes the estimator, and labels of several calls add up; `fit` starts anew. See
        `Predictor.given`.

        Parameters
        ----------
        X : array-like (n, features) or (n, channels, height, width)
            Inputs.
        y : array-like (n,)
            Their labels; rows whose label is −1, None or NaN are left out.
        noise : float, default: 0.05
            Probability that a label is drawn uniformly from all classes.

        Returns
        -------
        self
            The estimator; ``predictor_.evidence`` is the evidence of the labels.

        Raises
        ------
        ValueError
            If a label is no class, if a row was labeled in `fit`, or if a row is given with two labels.
        """
        rows = as_trained(self, X)
        names, known = self._names(y)
        check_consistent_length(rows, known)
        self.predictor_ = self.predictor_.given(rows, names, noise=noise)
        self._seen |= set(row_fingerprints(rows[known]).tolist())
        return self

    def recipe(self, X: object, y: ArrayLike) -> Recipe:
        """Return the recipe that `fit` trains, to modify or to train with `rp.train(clf.recipe(X, y), "runs/mine")`.

        Parameters
        ----------
        X : array-like (n, features) or (n, channels, height, width)
            Inputs.
        y : array-like (n,)
            Labels; −1, None or NaN for unlabeled rows.

        Returns
        -------
        Recipe
            The recipe, with the data in it.
        """
        copy: Self = clone(self)
        return copy._plan(X, y).recipe

    def predict(self, X: object) -> np.ndarray:
        """Predict the most probable class of each row.

        Parameters
        ----------
        X : array-like (n, features) or (n, channels, height, width)
            Inputs.

        Returns
        -------
        ndarray (n,)
            Predicted classes.
        """
        chosen = self.predict_proba(X).argmax(1)
        return np.asarray(self.classes_[chosen])

    def predict_proba(self, X: object) -> np.ndarray:
        """Predict class probabilities, the posterior predictive distribution.

        Parameters
        ----------
        X : array-like (n, features) or (n, channels, height, width)
            Inputs.

        Returns
        -------
        ndarray (n, C)
            Probabilities in the order of `classes_`.
        """
        given = as_trained(self, X)
        return np.asarray(self._precise().predict_proba(given))

    def predict_set(self, X: object, coverage: float = 0.9) -> np.ndarray:
        """Predict a set of classes for each row that contains the true class with a given probability.

        The sets are those of CV+ (Romano, Sesia and Candès, 2020) with the score 1 - p(y | x): a class is in the set
        unless too many labels had a smaller score under the particles that left them out. A row whose set has not
        exactly one class is a row to abstain on.

        Parameters
        ----------
        X : array-like (n, features) or (n, channels, height, width)
            Inputs.
        coverage : float, default: 0.9
            Wanted probability that a set contains the true class.

        Returns
        -------
        ndarray (n, C) of bool
            Which classes are in the set, in the order of `classes_`.

        Raises
        ------
        ValueError
            If there are no out-of-fold scores.

        Notes
        -----
        The sets are of the short run with eight folds that the scores are of, not of `predict`.

        If labeled rows and new rows are exchangeable, and each label were unknown to everything that its held-out
        particles learn from, the coverage would be at least 2 · coverage - 1 - min(2 (1 - 1/F) / (n/F + 1),
        (1 - F/n) / (F + 1)) for n labels and F folds; it is close to `coverage` as a rule. The second condition holds
        approximately: a particle never learns from the labels that it leaves out, but from the predictions of the
        others for unlabeled rows. The coverage is an average over rows and draws of the labels, not one per class or
        per row. With fewer than coverage / (1 - coverage) labels, every class is in every set. Labels drawn in equal
        number per class are not exchangeable with rows of other shares.
        """
        number("coverage", coverage, above=0, below=1)
        given = as_trained(self, X)
        if not hasattr(self, "_cross"):
            raise ValueError("predict_set needs out-of-fold scores: two labels per class, two particles, no warm_start")
        found, trial = self._cross
        log_p = torch.as_tensor(found.log_probabilities(given)).double().cpu()
        own = torch.from_numpy(trial.out_of_fold.log_probabilities).double()
        label = own.gather(1, torch.from_numpy(trial.out_of_fold.labels).unsqueeze(1)).squeeze(1)
        equal = torch.zeros(len(log_p), dtype=torch.float64)  # of the particles
        sets = conformal_sets(log_p, label, trial.held_out.cpu(), equal, coverage)
        return np.asarray(sets)

    def uncertainty(self, X: object) -> Uncertainty:
        """Decompose the predictive uncertainty of each row.

        Parameters
        ----------
        X : array-like (n, features) or (n, channels, height, width)
            Inputs.

        Returns
        -------
        Uncertainty
            `total` = `within` (aleatoric) + `between` particles (epistemic), in nats, (n,) each.
        """
        given = as_trained(self, X)
        return self._precise().uncertainty(given)

    def rules(self, X: object, *, test: tuple[object, ArrayLike, Sequence[object] | np.ndarray] | None = None) -> Rules:
        """Group the particles into rules, by the labels that they give to the rows.

        Several rules mean that the labels may not determine the task.

        Parameters
        ----------
        X : array-like (n, features) or (n, channels, height, width)
            Inputs.
        test : (X, y, groups), optional
            Test rows, their labels, and the group of each, such as a background: `Rules.accuracies` and
            `Rules.worst_groups` compare the rules in each group.

        Returns
        -------
        Rules
            Groups of particles and the rows that separate them, the heaviest group first.
        """
        given, found = as_trained(self, X), self.predictor_
        return self._rules(torch.as_tensor(found.log_probabilities(given)), found.log_posterior, test)

    def suggest(self, X: object, budget: int = 10, *, about: About = "auto") -> np.ndarray:
        """Suggest the rows whose labels would be most informative.

        Labeled rows, rows of `given` and their duplicates are left out. If the labels of `fit` admit several rules, the
        rows are those whose labels together have the most information about which rule is right: pass their labels to
        `given`. Once a rule has a probability of 0.99, no row is suggested and a warning is logged.

        Otherwise the labels are for the next `fit`. For vectors with at most 300 labels, typical rows of groups without
        a label are suggested, `labeling.most_typical`; for images or more labels, rows on which the particles disagree,
        `labeling.most_informative`.

        Parameters
        ----------
        X : array-like (n, features) or (n, channels, height, width)
            Inputs.
        budget : int, default: 10
            Number of rows.
        about : {"auto", "rule", "inputs"}, default: "auto"
            What the labels decide: which rule is right, or rows for the next `fit`. "auto" asks about the rule if the
            labels of `fit` admit several, on at most 4,000 rows.

        Returns
        -------
        ndarray (budget,)
            Indices of rows; none if one rule remains.

        Raises
        ------
        ValueError
            If all rows are labeled.
        """
        one_of("about", about, get_args(About))
        given, predictor = as_trained(self, X), self.predictor_
        first: dict[int, int] = {}  # equal rows count once
        for row, mark in enumerate(row_fingerprints(given).tolist()):
            if mark not in self._seen:
                first.setdefault(mark, row)
        free = np.fromiter(first.values(), np.int64)
        if not len(free):
            raise ValueError(f"all {given.shape[0]} rows of X are labeled: suggest needs unlabeled rows")
        if about != "inputs":
            some = free[:: -(-len(free) // RULE_ROWS)]
            log_p = torch.as_tensor(predictor.log_probabilities(given[some]))
            evidence = predictor.evidence or Evidence(predictor.log_posterior.cpu())
            rules = self._rules(log_p, evidence.log_prior)
            if about == "rule" or rules.ambiguous:
                decisive, message = about_rules(log_p, rules, evidence, budget)
                if not decisive:
                    log.warning("%s; about='inputs' suggests rows for the next fit", message)
                return np.asarray(some[decisive], np.int64)
        given = given[free]
        if len(predictor.shape) == 1 and len(self._labeled) <= FEW_LABELS:
            chosen = most_typical(predictor.inputs(given), budget, self._labeled)
        else:
            chosen = most_informative(
                torch.as_tensor(predictor.log_probabilities(given)), budget, predictor.log_posterior
            )
        return np.asarray(free[chosen.cpu().numpy()])

    def _rules(
        self,
        log_p: Tensor,
        log_weights: Tensor,
        test: tuple[object, ArrayLike, Sequence[object] | np.ndarray] | None = None,
    ) -> Rules:
        """Group the particles by their labels of some rows, (K, n, C), which are compared with the rows of `fit`."""
        found, rows, held = self.predictor_, self._labeled[:RULE_ROWS], None
        known = log_probabilities(found.particles, Identity().fit([rows]), rows.to(found.device), len(found.classes))
        if test is not None:
            codes = torch.tensor(found.class_indices(self._names(test[1])[0]))
            held = torch.as_tensor(found.log_probabilities(as_trained(self, test[0]))), codes, test[2]
        return find_rules(log_p, log_weights, classes=found.classes, labeled=known, test=held)

    def _names(self, y: ArrayLike) -> tuple[list[str | None], np.ndarray]:
        """Return the class names of labels as the predictor has them, None where there is none, and where: (n,)."""
        labels, known = labels_of(y, self.classes_)
        index = dict(zip(self.classes_.tolist(), self.predictor_.classes, strict=True))
        names = np.full(len(known), None, object)
        names[known] = [index.get(label, str(label)) for label in labels.tolist()]
        return names.tolist(), known

    def score(self, X: object, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Compute the accuracy on the labeled rows, so that searches over settings can hold out any rows.

        Parameters
        ----------
        X : array-like (n, features) or (n, channels, height, width)
            Inputs.
        y : array-like (n,)
            Labels; −1, None or NaN for unlabeled rows.
        sample_weight : array-like (n,), optional
            Weights of the rows.

        Returns
        -------
        float
            The accuracy.

        Raises
        ------
        ValueError
            If y has no label.
        """
        predicted = self.predict(X)
        labels, known = labels_of(y, self.classes_)
        check_consistent_length(predicted, known, sample_weight)
        if not len(labels):
            raise ValueError(f"y has no label in {len(known)} rows: score needs labeled rows")
        weight = None if sample_weight is None else np.asarray(sample_weight)[known]
        return float(accuracy_score(labels, predicted[known], sample_weight=weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.non_deterministic = False
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle, without the training data, which would dominate its size."""
        state = dict(super().__getstate__())
        if "run_" in state:
            state["run_"] = _without_data(state["run_"])
        return state

    def _plan(self, X: object, y: ArrayLike) -> "_Plan":
        rows = checked(self, X, reset=True)
        classes, codes = encoded(y)
        check_consistent_length(rows, codes)
        if not len(classes):
            raise ValueError(
                f"y has no label in {len(codes)} rows: use ReferencePriorClusterer to cluster unlabeled rows"
            )
        if len(classes) == 1:
            raise ValueError(f"y has only one class, {classes.tolist()[0]!r}: a classifier needs at least two classes")
        seed, known, widths = seed_of(self.random_state), codes >= 0, spaces(X)
        columns = self.preparation_
        names = columns.features if columns else tuple(str(name) for name in getattr(self, "feature_names_in_", ()))
        start = self._before(rows.shape[1:], names, classes) if self.warm_start and hasattr(self, "run_") else None
        fitted = None if start is None else self.predictor_.normalizer
        choices = {}
        if rows.ndim == 2:  # columns of a mixed data frame have different units
            choices = candidates(len(codes), widths or rows.shape[1:], standardize=columns is not None)
        given = self.inputs
        if isinstance(given, str):
            if not choices:
                raise ValueError(f"inputs={given!r} needs vectors, X has the shape {rows.shape}: give a transform")
            one_of("inputs", given, choices)
            given = choices[given].inputs
        elif given is None and (columns is not None or len(widths) > 1):
            given = choices["components"].inputs
        values, inputs, projection = prepared(rows, given, seed, fitted)
        task = task_from_arrays(
            labeled=(values[known], codes[known]),
            unlabeled=values,
            classes=[str(name) for name in classes],
            name="X",
            features=names if projection is None else (),
        )
        shares = shares_of(task)
        target = _target(self.class_prior, shares)
        custom = any(part is not None for part in (self.method, self.network, self.views))
        if not choices or not isinstance(self.inputs, str | None) or task.unlabeled.dtype != torch.float32:
            choices = {"given": Candidate(inputs, views=None)}
        elif custom or self.warm_start or self.inputs is not None or projection is not None:
            named = self.inputs or ("components" if start is None else self.inputs_)
            one = choices.get(named, choices["components"])
            choices = {named: one if projection is None else one._replace(inputs=inputs)}
        recipes = {name: self._recipe_for(task, one, seed) for name, one in choices.items()}
        name, trials = (next(iter(recipes)), {}) if self.warm_start else choose(recipes, task, self.device)
        recipe = recipes[name]
        if start is not None:
            recipe = replace(recipe, start=start.recipe)
            recipe = replace(recipe, inputs=AsFitted(fitted)) if projection is None else recipe  # type: ignore[arg-type]
        return _Plan(
            recipe=recipe,
            name=name,
            trials=trials,
            start=start,
            rows=np.flatnonzero(known),
            classes=classes,
            log_ratio=None if target is None else torch.from_numpy(np.log(target / shares)).float(),
            projection=projection,
            shape=rows.shape[1:],
            features=names,
            labeled=row_fingerprints(rows[known]),
            preparation=columns,
        )

    def _recipe_for(self, task: Task, candidate: Candidate, seed: int) -> Recipe:
        """Return the recipe of a task with these settings; a candidate's method and views are the defaults."""
        inputs, defaults = candidate.inputs, VECTORS if len(task.shape) == 1 else IMAGES
        if candidate.method is not None:
            defaults = defaults._replace(method=candidate.method)
        elif self.folds != "off":  # with a constant α, particles contradict the others on labels that they leave out
            defaults = defaults._replace(method=AdaptiveReferencePrior())
        given = {name: getattr(self, name) for name in Defaults._fields}
        chosen = defaults._replace(**{name: value for name, value in given.items() if value is not None})
        target, method = _target(self.class_prior, shares_of(task)), chosen.method
        if target is not None and isinstance(method, ReferencePrior | AdaptiveReferencePrior):
            method = replace(method, class_prior=tuple(target.tolist()))
        weak, strong = suitable_views(candidate.views if self.views is None else self.views, task, inputs)
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
            folds=self.folds,
            doubt_labels=self.doubt_labels,
            calibrate=self.calibrate,
            seed=seed,
        )

    def _before(self, shape: tuple[int, ...], features: tuple[str, ...], classes: np.ndarray) -> Run | None:
        """Return the previous run, if it had the same features and classes."""
        there = (self.predictor_.shape, self.predictor_.features, self.classes_.tolist())
        if there != (shape, features, classes.tolist()):
            log.warning("features or classes differ from the previous fit: warm_start starts with new particles")
            return None
        if self.folds != "off":
            log.warning("labels may move to other folds: warm_start starts with new particles")
            return None
        return _without_data(self.run_)

    def _precise(self) -> Predictor:
        """Return the predictor; in 64 bits for default networks of vectors, so that other rows do not matter."""
        found = self.predictor_
        if self.network is not None or len(found.shape) > 1 or found.dtype != torch.float32:
            return found
        fitted = found.normalizer.state_dict()
        numbers = {name: tensor.double() if tensor.is_floating_point() else tensor for name, tensor in fitted.items()}
        exact = Normalizer.from_tensors(numbers)
        return replace(found, particles=deepcopy(found.particles).double(), normalizer=exact)


class _Plan(NamedTuple):
    """What `fit` trains, and what the predictor needs afterwards."""

    recipe: Recipe
    name: str  # of the inputs
    trials: dict[str, Trial]  # of the inputs, by name
    start: Run | None  # the run to continue from
    rows: np.ndarray  # (n,) positions of the labeled rows
    classes: np.ndarray  # (C,)
    log_ratio: Tensor | None  # (C,) correction of the log-probabilities for the class prior
    projection: Normalizer | None  # of large sparse rows, before the recipe
    shape: tuple[int, ...]  # of a row of X
    features: tuple[str, ...]  # their names
    labeled: Tensor  # (b,) fingerprints of the labeled rows of X
    preparation: Columns | None  # of a data frame with columns that are no numbers

    def deployed(self, run: Run, normalizer: Normalizer | None = None) -> Predictor:
        """Return the predictor of a run, for rows of X, with another normalizer if given."""
        found = replace(run.predictor(), log_prior_ratio=self.log_ratio, normalizer=normalizer or run.normalizer)
        if self.projection is not None:
            found = replace(found, normalizer=self.projection, shape=self.shape, labeled=self.labeled)
        integers = self.classes.dtype.kind in "iu"
        return replace(found, features=self.features, preparation=self.preparation, integer_labels=integers)


def shares_of(task: Task) -> np.ndarray:
    """Return the share of each class among the labels: (C,)."""
    counts = np.bincount(task.labeled.labels.cpu().numpy(), minlength=len(task.classes))
    return np.asarray(counts / counts.sum())


def _target(class_prior: str | ArrayLike | None, shares: np.ndarray) -> np.ndarray | None:
    """Return the requested class shares, if any, given those of the labels: (C,) -> (C,)."""
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
    """Return a run without its training data and without those of earlier runs."""
    return replace(run, recipe=replace(run.recipe, task=_no_data, start=None), find_task=_no_data)


def _no_data() -> Task:
    raise ValueError("the training data are not stored with the estimator")


def classifier_recipes(data: FewLabels, inputs: str | None = None, *, seed: int = 0) -> tuple[dict[str, Recipe], Task]:
    """Return the recipes that `ReferencePriorClassifier` chooses from for a file or folder, by inputs, and the task.

    All inputs, labeled or not, form the pool. The features of a table are standardized, because they have different
    units. Large photographs of a folder are resized to 32 pixels unless a size is given: training on all of their
    pixels would take days. The labels are divided into folds, so that the fit has scores without a test set.
    """
    data = replace(data, labeled_in_pool=True)
    if is_folder(data.data) and data.features is None and data.size is None and max(data.outline().shape[1:]) > _SIDE:
        data = replace(data, size=_SIDE)
    task = data()
    if len(task.classes) < 2:
        raise ValueError(
            f"{task.name} has only one class, {task.classes[0]!r}: a classifier needs at least two classes"
        )
    choices = {"given": Candidate(Standardize(), views=None)}
    if len(task.shape) == 1:
        encoded = task.preparation is not None and not task.features  # photos or texts
        most = ENCODED if encoded else COMPONENTS
        choices = candidates(len(task.unlabeled), task.shape, standardize=bool(task.features), most=most)
    if inputs is not None:
        one_of("inputs", inputs, choices)
        choices = {inputs: choices[inputs]}
    found = ReferencePriorClassifier(folds="auto")
    return {name: replace(found._recipe_for(task, one, seed), task=data) for name, one in choices.items()}, task
