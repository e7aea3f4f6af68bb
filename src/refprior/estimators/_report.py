"""How good a fit is without a test set, beside baselines of the same labels and folds."""

# K particles, n labels, C classes

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from refprior.data import Task
from refprior.estimators._choice import Trial
from refprior.posterior import OutOfFoldScores, score_out_of_fold
from refprior.training import Predictor, Run
from refprior.training.loop import evenly_spaced, held_out

log = logging.getLogger("refprior")
_FOLDS = 10  # of a baseline, at most: folds of the fit that are close together are left out together
_LABELS = 1000  # of a baseline, at most
_ROWS = 4000  # of the pool by which shares are estimated
_SHOWN = 12  # classes whose shares are printed, at most
_TREES = 50
_LOST = 0.1  # share of its labels' share below which a class counts as lost
_CERTAIN = 1e-9  # least probability of a baseline


@dataclass(frozen=True, eq=False)
class FitReport:
    """What `ReferencePriorClassifier.fit` knows about its own quality.

    Parameters
    ----------
    inputs : str
        Name of the inputs of the networks.
    losses : mapping of str to float
        Nats per held-out label of each input that was tried, at the best temperature.
    scores : OutOfFoldScores or None
        Scores of the labels under the particles that have not learned them; None without folds.
    baselines : mapping of str to OutOfFoldScores
        Scores of logistic regression and of a random forest on the same labels and folds, at most ten folds.
    classes : tuple of str
        Names of the classes.
    label_shares : ndarray
        Share of each class among the labels, (C,).
    predicted_shares : ndarray
        Share of each class among the predictions of the pool, (C,).
    """

    inputs: str
    losses: Mapping[str, float]
    scores: OutOfFoldScores | None
    baselines: Mapping[str, OutOfFoldScores]
    classes: tuple[str, ...]
    label_shares: np.ndarray = field(repr=False)
    predicted_shares: np.ndarray = field(repr=False)

    @property
    def lost_classes(self) -> tuple[str, ...]:
        """Classes that are predicted for less than a tenth of their share of the labels."""
        lost = self.predicted_shares < _LOST * self.label_shares
        return tuple(name for name, gone in zip(self.classes, lost, strict=True) if gone)

    def warn(self) -> None:
        """Log a warning for classes that are hardly predicted."""
        for name in self.lost_classes:
            place = self.classes.index(name)
            log.warning(
                "class %r has %.0f %% of the labels, and is predicted for %.1f %% of the pool",
                name,
                100 * self.label_shares[place],
                100 * self.predicted_shares[place],
            )

    def __str__(self) -> str:
        tried = ", ".join(f"{name} {loss:.2f}" for name, loss in sorted(self.losses.items(), key=lambda pair: pair[1]))
        lines = [f"Inputs: {self.inputs}" + (f", nats per held-out label: {tried}" if tried else "")]
        if self.scores is None:
            lines.append("Not scored: the labels were not divided into folds")
        else:
            lines.append(f"Out of fold with 95 % intervals{str(self.scores).removeprefix('out of fold')}")
        for name, found in self.baselines.items():
            low, high = found.accuracy_interval
            right = f"{100 * found.accuracy:.0f} % ({100 * low:.0f}–{100 * high:.0f})"
            lines.append(f"  {name}: {right}, NLL {found.negative_log_likelihood:.2f}")
        if len(self.classes) <= _SHOWN:
            shares = zip(self.classes, 100 * self.predicted_shares, 100 * self.label_shares, strict=True)
            each = ", ".join(f"{name} {found:.1f} ({given:.1f})" for name, found, given in shares)
            lines.append(f"Predicted shares of the classes, and those of the labels, %: {each}")
        return "\n".join(lines)


def fit_report(run: Run, predictor: Predictor, inputs: str, trials: Mapping[str, Trial]) -> FitReport:
    """Score a fit and baselines of the same labels and folds, which are those of the trial if there is one."""
    some = evenly_spaced(run.task.unlabeled, _ROWS)
    best = predictor.mix(torch.as_tensor(run.log_probabilities(some))).argmax(-1)
    trial, last = trials.get(inputs), run.result.evaluation
    folds, scores = held_out(run.recipe, run.task), None if last is None else last.out_of_fold
    if trial is not None:  # whose particles learn less from each other than those of the run
        folds, scores = trial.held_out, trial.out_of_fold.scores
    labels = run.task.labeled.labels.bincount(minlength=len(run.task.classes))
    found = best.bincount(minlength=len(run.task.classes))
    return FitReport(
        inputs=inputs,
        losses={name: trial.loss for name, trial in trials.items()},
        scores=scores,
        baselines={} if folds is None else baselines(run.task, folds),
        classes=tuple(run.task.classes),
        label_shares=(labels / labels.sum()).cpu().numpy(),
        predicted_shares=(found / found.sum()).cpu().numpy(),
    )


def baselines(task: Task, held_out: Tensor) -> dict[str, OutOfFoldScores]:
    """Score logistic regression and a random forest by the folds of a fit, (K, n)."""
    some = torch.arange(min(len(task.labeled), _LABELS)) * len(task.labeled) // min(len(task.labeled), _LABELS)
    X, y = task.labeled.inputs.cpu()[some].flatten(1).float().numpy(), task.labeled.labels.cpu()[some]
    fold = held_out.cpu().int().argmax(0)[some].numpy() % _FOLDS
    models = {
        "logistic regression": make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)),
        "random forest": RandomForestClassifier(_TREES, random_state=0),
    }
    return {
        name: score_out_of_fold(_out_of_fold(model, X, y.numpy(), fold, len(task.classes)), y)
        for name, model in models.items()
    }


def _out_of_fold(model: BaseEstimator, X: np.ndarray, y: np.ndarray, fold: np.ndarray, classes: int) -> Tensor:
    """Return log-probabilities of each row by the model without its fold: (n, D), (n,), (n,) -> (n, C)."""
    p = np.full((len(y), classes), _CERTAIN)
    for place in np.unique(fold):
        out = fold == place
        if len(np.unique(y[~out])) < 2:
            p[np.ix_(out, np.unique(y[~out]))] = 1.0
            continue
        model.fit(X[~out], y[~out])
        p[np.ix_(out, model.classes_)] = np.maximum(model.predict_proba(X[out]), _CERTAIN)
    return torch.from_numpy(p / p.sum(1, keepdims=True)).log()
