"""A trained recipe: what it predicts, how good that is, and how to read it back from its folder."""

# K particles, n inputs, C classes

import logging
import math
import platform
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, overload

import msgspec
import numpy as np
import torch
from torch import Tensor, nn

from refprior._checks import one_of, whole_number
from refprior._files import Json
from refprior._html import table
from refprior._mesh import usable_device
from refprior._words import duration, in_short
from refprior.data import Examples, Normalizer, Preparation, Task, TaskRecord, read_preparation
from refprior.methods import Loss, Needs, Step
from refprior.particles import Particles
from refprior.posterior import (
    NOISE,
    Average,
    Consensus,
    LabelQuality,
    OutOfFold,
    Rules,
    Scores,
    Uncertainty,
    cluster,
    held_out_weights,
    label_posterior,
    score,
)
from refprior.training._predictor import (
    RECORD,
    Predictor,
    check_predicts,
    read_network,
    read_predictor,
    warn_of_edits,
)
from refprior.training.loop import (
    CONSENSUS_INPUTS,
    Record,
    check_loading_fits,
    evenly_spaced,
    held_out,
    new_particles,
    predict_out_of_fold,
    why_no_folds,
)
from refprior.training.recipe import Recipe, check_handed_in, read_recipe, take_apart, to_plain
from refprior.training.recipe import custom_parts as recorded_parts
from refprior.training.store import (
    RECIPE,
    Checkpoint,
    Header,
    check_same_data,
    check_same_network,
    latest_checkpoint,
    load_fingerprints,
    load_weights,
    packages,
    read_header,
    read_history,
)

log = logging.getLogger("refprior")
RULE_INPUTS = 4000  # of the unlabeled pool, by which particles are grouped into rules
_NUMBERS = 1 << 24  # log-probabilities at most for it
Weighting = Literal["prior", "likelihood"]  # how much each particle counts in a prediction


@dataclass(frozen=True, eq=False, kw_only=True)
class Run:
    """A trained recipe: its weights, its history, and predictions.

    `train` and `load` return runs. Predictions need the weights only. `task` reads the data when it is first used, and
    rejects data that differ from those of the training.

    Parameters
    ----------
    recipe : Recipe
        The recipe that was trained.
    data : TaskRecord
        Names, shapes and hashes of the data, known without reading them.
    find_weights : function
        Returns the particles with the weights of the last step, and those with their moving average.
    normalizer : Normalizer
        The fitted inputs.
    step : int
        The step of the weights.
    history : tuple of Record
        Records of the training.
    path : Path, optional
        The run folder.
    find_task : function
        Reads the data.
    labeled : Tensor, optional
        Fingerprints of the labeled inputs, (b,) int64.
    written : mapping, optional
        The recipe as its folder has it.
    preparation : Columns or Backbone, optional
        What makes the inputs of raw ones.

    Examples
    --------
    >>> import refprior as rp
    >>> run = rp.train(rp.recipes.override(rp.recipes.digits_ssl(), {"steps": 5}))
    >>> images = run.task.test.inputs[:3].numpy()
    >>> run.predict_proba(images).shape, run.predict(images).shape
    ((3, 10), (3,))
    """

    recipe: Recipe
    data: TaskRecord  # what is known of the data without reading them
    find_weights: Callable[[], tuple[Particles, Particles]] = field(repr=False)  # gives the raw ones and their average
    normalizer: Normalizer
    step: int  # of these weights
    history: tuple[Record, ...] = ()
    path: Path | None = None  # the run folder
    find_task: Callable[[], Task] = field(repr=False)
    labeled: Tensor | None = field(default=None, repr=False)  # fingerprints of the labeled inputs
    written: Mapping[str, object] | None = field(default=None, repr=False)  # the recipe as its folder has it
    preparation: Preparation | None = field(default=None, repr=False)  # of raw inputs

    @property
    def particles(self) -> Particles:
        """The particles with the weights of the last step."""
        return self._both[0]

    @property
    def ema(self) -> Particles:
        """The particles with the moving average of the weights."""
        return self._both[1]

    @cached_property
    def _both(self) -> tuple[Particles, Particles]:
        return self.find_weights()

    @cached_property
    def task(self) -> Task:
        """The data of the training."""
        return self.find_task()

    @property
    def result(self) -> Record:
        """The record of the last step, which every table reports."""
        if not self.history:
            raise ValueError("the run has no record yet: it was stopped before its first")
        return self.history[-1]

    @property
    def temperature(self) -> float:
        """What divides the log-probabilities of the ensemble of the moving average; 1 if it was not calibrated.

        Runs with `folds` estimate it from the labels out of fold, unless the recipe has ``calibrate=False``.
        """
        found = self.history[-1].evaluation if self.history else None
        return 1.0 if found is None or found.temperature is None else found.temperature

    def _repr_html_(self) -> str:
        rows: dict[str, object] = {
            "method": type(self.recipe.method).__name__,
            "particles": self.particles.count,
            "step": f"{self.step:,} of {self.recipe.steps:,}",
        }
        if self.history:
            evaluation = self.result.evaluation
            if evaluation is not None and evaluation.accuracy is not None:
                rows["test accuracy"] = f"{100 * evaluation.accuracy:.1f} %"
            rows["training took"] = duration(self.result.seconds)
        return table(f"Run on {self.data.name}", rows | {"folder": self.path or "none"})

    def predictor(self, *, ema: bool = True, weighting: Weighting = "prior") -> Predictor:
        """Return the deployable model: particles and fitted inputs, without the data.

        Parameters
        ----------
        ema : bool, default: True
            Predict with the moving average of the weights, not with the weights of the last step.
        weighting : {"prior", "likelihood"}, default: "prior"
            Weights of the particles: their prior, or their posterior given the labels that they left out (`posterior`).

        Returns
        -------
        Predictor
            The model, with its provenance.
        """
        self._check_named()
        return replace(
            self._predictor(ema, weighting),
            provenance=self._provenance(ema, weighting),
            network=to_plain(take_apart(self.recipe.network)),
        )

    def given(self, X: object, y: object, *, noise: float = NOISE) -> Predictor:
        """Return the deployable model with its particles weighted by new labels.

        ``run.given(X, y)`` is ``run.predictor().given(X, y)``; see `Predictor.given`.

        Parameters
        ----------
        X : array, tensor, list, sparse matrix, data frame or list of image files
            n inputs without a label in training.
        y : sequence of str or int
            Their labels, as `predict` returns them.
        noise : float, default: 0.05
            Probability that a label is drawn uniformly from all classes.

        Returns
        -------
        Predictor
            The model, with its `evidence`.
        """
        return self.predictor().given(X, y, noise=noise)

    @overload
    def log_probabilities(self, inputs: Tensor, *, ema: bool = True) -> Tensor: ...
    @overload
    def log_probabilities(self, inputs: Any, *, ema: bool = True) -> np.ndarray: ...
    def log_probabilities(self, inputs: object, *, ema: bool = True) -> Tensor | np.ndarray:
        """Return the log-probabilities of every particle, log p(y | x, w_k).

        Parameters
        ----------
        inputs : array, tensor, list, sparse matrix, data frame or list of image files
            n inputs as `Predictor` takes them.
        ema : bool, default: True
            Predict with the moving average of the weights, not with the weights of the last step.

        Returns
        -------
        ndarray or Tensor
            Log-probabilities, (K, n, C): a tensor if the inputs are a tensor.
        """
        return self._predictor(ema).log_probabilities(inputs)

    @overload
    def predict_proba(
        self, inputs: Tensor, *, ema: bool = ..., weighting: Weighting = ..., average: Average = ...
    ) -> Tensor: ...
    @overload
    def predict_proba(
        self, inputs: Any, *, ema: bool = ..., weighting: Weighting = ..., average: Average = ...
    ) -> np.ndarray: ...
    def predict_proba(
        self,
        inputs: object,
        *,
        ema: bool = True,
        weighting: Weighting = "prior",
        average: Average = "probabilities",
    ) -> Tensor | np.ndarray:
        """Predict probabilities of the classes.

        The posterior predictive p(y | x, x^n, y^n) of eq:bayes_posterior_predictive_distribution.

        Parameters
        ----------
        inputs : array, tensor, list, sparse matrix, data frame or list of image files
            n inputs as `Predictor` takes them.
        ema : bool, default: True
            Predict with the moving average of the weights, not with the weights of the last step.
        weighting : {"prior", "likelihood"}, default: "prior"
            Weights of the particles: their prior, or their posterior given the labels that they left out (`posterior`).
        average : {"probabilities", "logits"}, default: "probabilities"
            What is averaged over the particles.

        Returns
        -------
        ndarray or Tensor
            Probabilities, (n, C): a tensor if the inputs are a tensor.
        """
        return self._predictor(ema, weighting).predict_proba(inputs, average=average)

    def predict(
        self,
        inputs: object,
        *,
        ema: bool = True,
        weighting: Weighting = "prior",
        average: Average = "probabilities",
    ) -> np.ndarray:
        """Predict the most probable class of each input.

        Parameters
        ----------
        inputs : array, tensor, list, sparse matrix, data frame or list of image files
            n inputs as `Predictor` takes them.
        ema : bool, default: True
            Predict with the moving average of the weights, not with the weights of the last step.
        weighting : {"prior", "likelihood"}, default: "prior"
            Weights of the particles: their prior, or their posterior given the labels that they left out (`posterior`).
        average : {"probabilities", "logits"}, default: "probabilities"
            What is averaged over the particles.

        Returns
        -------
        ndarray
            Labels as they were given, integers or names, (n,).
        """
        self._check_named()
        return self._predictor(ema, weighting).predict(inputs, average=average)

    def uncertainty(self, inputs: object, *, ema: bool = True, weighting: Weighting = "prior") -> Uncertainty:
        """Split the uncertainty of each prediction: total = within + between particles.

        Parameters
        ----------
        inputs : array, tensor, list, sparse matrix, data frame or list of image files
            n inputs as `Predictor` takes them.
        ema : bool, default: True
            Predict with the moving average of the weights, not with the weights of the last step.
        weighting : {"prior", "likelihood"}, default: "prior"
            Weights of the particles: their prior, or their posterior given the labels that they left out (`posterior`).

        Returns
        -------
        Uncertainty
            ``total``, ``within`` and ``between`` in nats, (n,) each.
        """
        return self._predictor(ema, weighting).uncertainty(inputs)

    def evaluate(
        self,
        part: Examples | None = None,
        *,
        ema: bool = True,
        weighting: Weighting = "prior",
        average: Average = "probabilities",
    ) -> Scores:
        """Score the predictions on a labeled part.

        Parameters
        ----------
        part : Examples, optional
            Labeled inputs. Defaults to the test part of the task, or its validation part if it has no test part.
        ema : bool, default: True
            Predict with the moving average of the weights, not with the weights of the last step.
        weighting : {"prior", "likelihood"}, default: "prior"
            Weights of the particles: their prior, or their posterior given the labels that they left out (`posterior`).
        average : {"probabilities", "logits"}, default: "probabilities"
            What is averaged over the particles.

        Returns
        -------
        Scores
            Accuracy, negative log-likelihood, Brier score and calibration error.
        """
        part = self.task.held_out if part is None else part
        log_p = self.log_probabilities(part.inputs, ema=ema)
        weights, temperature = self._log_posterior(ema, weighting), self.temperature if ema else 1.0
        return score(log_p, part.labels, weights, average, temperature=temperature)

    def posterior(self, *, ema: bool = True, weighting: Weighting = "likelihood") -> np.ndarray:
        """Return the log-weights of the particles given labels that they have not learned, log p(w_k | x^n, y^n).

        Labels that trained a particle (eq:ref_mi_ce has their likelihood) cannot count again, by Bayes' law. The run
        must have `folds`: the particles of each fold are weighted by the labels that they left out, and each fold keeps
        its prior weight, because particles of different folds have no such label in common. With as many folds as
        particles, the weights are those of the prior. Use `given` for labels that trained no particle.

        Parameters
        ----------
        ema : bool, default: True
            Predict with the moving average of the weights, not with the weights of the last step.
        weighting : {"prior", "likelihood"}, default: "likelihood"
            Weights of the particles: their prior, which is uniform unless it was learned, or their posterior.

        Returns
        -------
        ndarray
            Log-weights, (K,).

        Raises
        ------
        ValueError
            If the labels of the run were not divided into folds.
        """
        return self._log_posterior(ema, weighting).cpu().numpy()

    def _log_posterior(self, ema: bool, weighting: Weighting) -> Tensor:
        one_of("weighting", weighting, ("prior", "likelihood"))
        log_prior = self._particles(ema).log_prior.detach()
        if weighting == "prior":
            return log_prior
        out = held_out(self.recipe, self.task)
        if out is None:
            need = self._need_of_folds()
            raise ValueError(f"the labels trained all particles and cannot weight them: {need}, or use given")
        log_p = self.log_probabilities(self.task.labeled.inputs, ema=ema)
        return held_out_weights(log_p, self.task.labeled.labels, out, log_prior).to(log_prior)

    def out_of_fold(self, *, ema: bool = True) -> OutOfFold:
        """Predict and score each labeled input with the particles that have not learned its label.

        The recipe must have `folds`. The scores need no test set. They are those of the particles that hold a label
        out, below those of the whole ensemble: by 3.6 points of accuracy in 18 runs of four particles with 100 labels.
        Where the labels are wrong, right predictions count as mistakes. Particles that see each
        other's predictions in training, such as those of `ReferencePrior`, learn a little of the held-out labels.

        Parameters
        ----------
        ema : bool, default: True
            Predict with the moving average of the weights, not with the weights of the last step.

        Returns
        -------
        OutOfFold
            ``log_probabilities`` (n, C), ``labels`` (n,) and ``scores`` with 95 % intervals.

        Raises
        ------
        ValueError
            If the labels of the run were not divided into folds.

        Examples
        --------
        >>> import refprior as rp
        >>> recipe = rp.recipes.override(rp.recipes.digits_ssl(), {"steps": 5, "folds": "auto"})
        >>> run = rp.train(recipe)
        >>> run.out_of_fold().log_probabilities.shape, run.out_of_fold().scores.labels
        ((50, 10), 50)
        """
        self._check_named()
        found = predict_out_of_fold(self.recipe, self.task, self.normalizer, self._particles(ema))
        if found is None:
            raise ValueError(f"the labels of this run were not divided into folds: {self._need_of_folds()}")
        return found

    def label_quality(self, *, ema: bool = True) -> LabelQuality:
        """Estimate the probability that each label is right.

        The particles that have not learned a label predict the true class, and a label differs from it with
        probability ε, which is estimated from all labels. The recipe must have `folds`.

        Parameters
        ----------
        ema : bool, default: True
            Predict with the moving average of the weights, not with the weights of the last step.

        Returns
        -------
        LabelQuality
            ``right``, ``given``, ``suggested`` and ``index``, (n,) each, in the order of the labeled inputs;
            ``error_rate``, and ``order``, the labels to check first.

        Raises
        ------
        ValueError
            If the labels of the run were not divided into folds.

        Examples
        --------
        >>> import refprior as rp
        >>> recipe = rp.recipes.override(rp.recipes.digits_ssl(), {"steps": 5, "folds": "auto"})
        >>> quality = rp.train(recipe).label_quality()
        >>> quality.right.shape, quality.suggested.shape
        ((50,), (50,))
        """
        found = self.out_of_fold(ema=ema)
        log_p, y = torch.from_numpy(found.log_probabilities), torch.from_numpy(found.labels)
        right, rate = label_posterior(log_p, y)
        classes = self.data.classes
        names = np.array([int(name) for name in classes] if self.data.integer_labels else classes)
        suggested = names[found.log_probabilities.argmax(-1)]
        places = np.arange(len(y))
        return LabelQuality(right.numpy(), names[found.labels], suggested, places, rate, self.task.labeled_names)

    def consensus(self, clusters: int | None = None, *, ema: bool = True) -> Consensus:
        """Cluster the unlabeled inputs by the predictions of the particles.

        Of more than 2,000 inputs, 2,000 at equal intervals are used. The clusters have no names yet.

        Parameters
        ----------
        clusters : int, optional
            Number of clusters. Defaults to the number of classes.
        ema : bool, default: True
            Predict with the moving average of the weights, not with the weights of the last step.

        Returns
        -------
        Consensus
            The clusters.
        """
        count = len(self.data.classes) if clusters is None else clusters
        log_p = self.log_probabilities(evenly_spaced(self.task.unlabeled, CONSENSUS_INPUTS), ema=ema)
        return cluster(log_p, count, self._particles(ema).log_prior.detach())

    @property
    def has_rules(self) -> bool:
        """Whether `rules` applies: the run has several particles, labels and a pool, and its outputs are classes."""
        classes = self.recipe.readout == "outputs" and not self.recipe.method.needs.projection
        return classes and self.recipe.particles > 1 and len(self.task.labeled) > 0 and len(self.task.unlabeled) > 0

    @property
    def has_folds(self) -> bool:
        """Whether the labels were divided into folds, and outputs are classes."""
        return self.recipe.readout == "outputs" and held_out(self.recipe, self.task) is not None

    def _need_of_folds(self) -> str:
        """Return what a run without folds needs to have them."""
        return why_no_folds(self.recipe, self.task) or "train it with folds='auto'"

    def rules(self, *, most: int = RULE_INPUTS, ema: bool = True) -> Rules:
        """Group the particles into rules, by the labels that they give to the unlabeled pool.

        Several rules mean that the labels may not determine the task. If groups of the test inputs are known
        (`Task.test_groups`), each rule has its accuracy in each group.

        Parameters
        ----------
        most : int, default: 4000
            Largest number of inputs of the pool, which are taken at equal intervals. Thousands of particles use fewer.
        ema : bool, default: True
            Predict with the moving average of the weights, not with the weights of the last step.

        Returns
        -------
        Rules
            Groups of particles and the inputs of the pool that separate them, the heaviest group first.

        Raises
        ------
        ValueError
            If the pool is empty, or if the outputs are not classes.
        """
        whole_number("most", most, at_least=1)
        self._check_named()
        task, predictor = self.task, self._predictor(ema)
        most = max(1, min(most, _NUMBERS // (predictor.particles.count * len(self.data.classes))))
        places = tuple(evenly_spaced(torch.arange(len(task.unlabeled)), most).tolist())
        held = None
        if task.test is not None and task.test_groups:
            some = evenly_spaced(torch.arange(len(task.test)), most).tolist()
            part, names = task.test[torch.tensor(some)], self.data.classes
            held = part.inputs, [names[y] for y in part.labels.tolist()], [task.test_groups[i] for i in some]
        labeled = evenly_spaced(task.labeled.inputs, most)
        found = predictor.rules(task.unlabeled[list(places)], labeled=labeled, test=held)
        return replace(found, places=places, names=tuple(task.names[i] for i in places) if task.names else ())

    def _particles(self, ema: bool) -> Particles:
        one_of("ema", ema, (True, False))
        return self.ema if ema else self.particles

    def _predictor(self, ema: bool, weighting: Weighting = "prior") -> Predictor:
        if self.recipe.method.needs.projection:
            raise ValueError(
                "this run is a first stage without classes: train another on it with start= and head='new'"
            )
        return Predictor(
            particles=self._particles(ema),
            normalizer=self.normalizer,
            classes=self.data.classes,
            shape=self.data.shape,
            dtype=getattr(torch, self.data.dtype),
            log_posterior=self._log_posterior(ema, weighting),
            temperature=self.temperature if ema else 1.0,
            features=self.data.features,
            integer_labels=self.data.integer_labels,
            labeled=self.labeled,
            preparation=self.preparation,
        )

    def _check_named(self) -> None:
        """Raise a ValueError if the outputs have no class names."""
        if self.recipe.readout == "consensus":
            raise ValueError("the outputs of this run have no names, no label was seen: see consensus and rp.labeling")

    def _provenance(self, ema: bool, weighting: Weighting) -> Json:
        """Return what made a predictor, in plain text and numbers, with the scores of the training if they apply."""
        found = self.history[-1].evaluation if self.history else None
        parts = {"test": found.test, "validation": found.validation} if found and weighting == "prior" else {}
        scores = {name: getattr(part, "ema" if ema else "raw") for name, part in parts.items() if part is not None}
        names = ("accuracy", "negative_log_likelihood", "brier", "calibration_error")
        calibration = {}
        if ema and found is not None and found.temperature is not None and found.out_of_fold is not None:
            count = found.out_of_fold.labels
            calibration = {"part": "labels out of fold", "count": count, "temperature": found.temperature}
        return {
            **({"calibration": calibration} if calibration else {}),
            "recipe": self.recipe.to_dict() if self.written is None else dict(self.written),
            "data": msgspec.to_builtins(replace(self.data, preparation=None)),
            "versions": {"python": platform.python_version(), **packages()},
            "seed": self.recipe.seed,
            "step": self.step,
            "steps": self.recipe.steps,
            "weights": "ema" if ema else "raw",
            "weighting": weighting,
            "scores": {
                part: {name: value for name in names if math.isfinite(value := getattr(score, name))}
                for part, score in scores.items()
            },
        }


def load(path: Path | str, *, device: torch.device | str = "cpu", **parts: Any) -> Run:
    """Load a run from its folder, at its last checkpoint.

    Parameters
    ----------
    path : Path or str
        The run folder.
    device : torch.device or str, default: "cpu"
        Where to compute.
    **parts
        Custom parts, which a folder cannot hold: ``network``, ``task``, ``method``, ``weak``, ``strong``, ``inputs``,
        ``optimizer``, ``backbone``. Predictions need only a custom network, and of photos a custom backbone; evaluating
        needs the data.

    Returns
    -------
    Run
        The run.

    Raises
    ------
    ValueError
        If the folder has no usable checkpoint, or if a custom network is missing or differs.

    Examples
    --------
    >>> import refprior as rp
    >>> recipe = rp.recipes.override(rp.recipes.digits_ssl(), {"steps": 5})
    >>> trained = rp.train(recipe, "runs/mine")
    >>> run = rp.load("runs/mine")
    >>> bool((run.predict_proba(run.task.test.inputs) == trained.predict_proba(run.task.test.inputs)).all())
    True
    """
    path, device, backbone = Path(path), usable_device(device), parts.pop("backbone", None)
    header = read_header(path)
    recipe = recipe_of(path, header, parts)
    for name, part in parts.items():
        warn_of_edits(str(path), header.recipe.get(name), name, part)
    check_loading_fits(recipe.network, recipe.particles)
    raw = new_particles(recipe)
    check_same_network(header, raw, str(path), "Pass the network it was trained with, network=…")
    ema = deepcopy(raw).requires_grad_(False).eval()

    def weights(found: Checkpoint) -> tuple[int, Normalizer, Tensor | None]:
        return found.summary.step, load_weights(found, raw=raw, ema=ema), load_fingerprints(found)

    found = latest_checkpoint(path, weights)
    if found is None:
        raise ValueError(f"{path} has no checkpoint yet: nothing to load")
    step, normalizer, labeled = found
    try:
        history = tuple(record for record in read_history(path) if record.step <= step)
    except ValueError as error:
        log.warning("%s; the run is loaded without its history", error)
        history = ()
    run = Run(
        recipe=recipe,
        data=header.data,
        find_weights=partial(both, raw.to(device), ema.to(device)),
        normalizer=normalizer,
        step=step,
        history=history,
        path=path,
        find_task=partial(same_task, recipe, header, path, device),
        labeled=labeled,
        written=header.recipe,
        preparation=read_preparation(header.data.preparation, module=backbone),
    )
    if not recipe.method.needs.projection:  # which has no classes to predict
        check_predicts(run._predictor(ema=True), str(path))
    return run


def both(raw: Particles, ema: Particles) -> tuple[Particles, Particles]:
    """Return the weights of a run in memory; unlike a lambda, it can be pickled."""
    return raw, ema


def load_predictor(
    path: Path | str,
    network: Callable[[], nn.Module] | None = None,
    device: torch.device | str = "cpu",
    *,
    backbone: nn.Module | None = None,
) -> Predictor:
    """Load a predictor from the folder of `Predictor.save`, or from a run folder.

    Parameters
    ----------
    path : Path or str
        The folder.
    network : function, optional
        Makes the network, if it is a custom one: a folder cannot hold it.
    device : torch.device or str, default: "cpu"
        Where to compute.
    backbone : nn.Module, optional
        The network that computes features of photos, if it is a custom one.

    Returns
    -------
    Predictor
        The deployable model.

    Examples
    --------
    >>> import refprior as rp
    >>> run = rp.train(rp.recipes.override(rp.recipes.digits_ssl(), {"steps": 5}), "runs/mine")
    >>> run.predictor().save("models/mine")
    >>> saved, made = rp.load_predictor("models/mine"), rp.load_predictor("runs/mine")
    >>> saved.provenance["step"], saved.classes == made.classes
    (5, True)
    """
    folder = Path(path)
    if (folder / RECORD).exists():
        return read_predictor(folder, network, device, backbone)
    if not (folder / RECIPE).exists():
        raise ValueError(f"{folder} is neither a predictor nor a run folder: it has no {RECORD} and no {RECIPE}")
    parts = {name: part for name, part in (("network", network), ("backbone", backbone)) if part is not None}
    return load(folder, device=device, **parts).predictor()


def custom_parts(path: Path | str, definitions: Mapping[str, Any]) -> Json:
    """Make the custom parts of a run or a saved predictor from the user's classes and functions by name."""
    folder = Path(path)
    saved = (folder / RECORD).exists()
    record = {"network": read_network(folder)} if saved else read_header(folder).recipe
    try:
        return recorded_parts(record, definitions)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{folder / (RECORD if saved else RECIPE)}: {in_short(error)}") from None


def recipe_of(path: Path, header: Header, parts: Json) -> Recipe:
    """Read the recipe of a run folder. Custom parts may be missing, except for the network."""
    check_handed_in(parts)

    def stand_in(name: str, last: bool) -> Any:
        return None if name == "network" and last else _Absent(name, path)

    try:
        return read_recipe(header.recipe, parts, stand_in)
    except ValueError as error:
        raise ValueError(f"{path / RECIPE}: {in_short(error)}") from None


@dataclass(frozen=True)
class _Absent:
    """A placeholder for a custom part that was not passed; raises when it is needed."""

    name: str
    path: Path

    @property
    def needs(self) -> Needs:
        return Needs()

    def fit(self, parts: object) -> Normalizer:
        raise ValueError(self._message())

    def __call__(self, *_: Step) -> Loss:
        raise ValueError(self._message())

    def _message(self) -> str:
        given = f"pass {self.name}=…, or --custom FILE.py on the command line"
        return f"{self.path}: the run uses a custom {self.name}: {given}"


def same_task(recipe: Recipe, header: Header, path: Path, device: torch.device) -> Task:
    """Read the data of a run folder; raise a ValueError if they differ from those of the training."""
    task = recipe.read_task()
    check_same_data(header.data, task, str(path), "Put the old data back, or pass them, task=…")
    return task.to(device)
