"""A predictor, the deployable model: particles, their weights in the mixture and the fitted inputs, without any data.

A predictor is saved as a folder of two files: `model.safetensors` holds every tensor, `predictor.json` its checksum and
the rest. The folder appears as a whole. Nothing is ever unpickled, and only networks that refprior publishes are made
because a file names them.
"""

# K particles, n inputs, C classes

import logging
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from typing import Any, cast, overload

import msgspec
import numpy as np
import torch
from scipy.optimize import minimize_scalar
from torch import Tensor, nn

from refprior._checks import number
from refprior._files import Json, check_ordinary, read_record, write_folder_atomically, write_record, write_text
from refprior._html import shortened, table
from refprior._kinds import InputType
from refprior._mesh import usable_device
from refprior._process import check_memory
from refprior._words import in_short
from refprior.data import (
    Backbone,
    Examples,
    Normalizer,
    Preparation,
    fingerprints,
    preparation_record,
    read_preparation,
)
from refprior.particles import Execution, Particles
from refprior.posterior import (
    NOISE,
    Average,
    Evidence,
    Rules,
    Uncertainty,
    find_rules,
    negative_log_likelihood,
    predictive,
    tempered,
    uncertainty,
)
from refprior.training._card import card
from refprior.training._input_blocks import Like, in_blocks
from refprior.training.loop import check_loading_fits, log_probabilities
from refprior.training.recipe import check_depth, read_field, take_apart, to_plain
from refprior.training.store import digest, read_tensors, tensors_of, write_tensors

FORMAT = 1
MODEL, RECORD = "model.safetensors", "predictor.json"
log = logging.getLogger("refprior")
_ROWS = 1024  # inputs at a time
_NUMBERS = 1 << 24  # log-probabilities of a block at most
_COLDEST, _HOTTEST = 0.01, 100.0  # temperatures that are looked at


@dataclass(frozen=True, eq=False, kw_only=True)
class Predictor:
    """The deployable model: K trained networks that predict together, without any data.

    It predicts log p(y | x) = log Σ_k π_k p(y | x, w_k), divided by the temperature, plus the log ratio of class
    shares, renormalized.

    Inputs are arrays, tensors or lists: floats of any type if the model was trained on floats, integers 0 … 255 if it
    was trained on bytes. Vectors may also be scipy's sparse matrices or frames of pandas or polars; images of bytes may
    be lists of files or of Pillow images. Inputs are processed in blocks, so that memory stays bounded.

    Parameters
    ----------
    particles : Particles
        K networks: the moving average of the weights, or the weights themselves.
    normalizer : Normalizer
        The fitted inputs.
    classes : tuple of str
        Names of the classes.
    shape : tuple of int
        Shape of one input.
    dtype : torch.dtype
        Type of the inputs in training.
    log_posterior : Tensor
        Log-weights of the particles, (K,).
    temperature : float, default: 1.0
        Divides the log-probabilities of the mixture.
    log_prior_ratio : Tensor, optional
        Log of the class shares where the model is used over those of the training, (C,).
    features : tuple of str
        Names of the columns.
    integer_labels : bool, default: False
        Whether labels were given as integers; `predict` then returns integers.
    provenance : mapping
        What made the model: recipe, data, versions, scores.
    network : mapping
        How to make the network again, as a record.
    preparation : Columns or Backbone, optional
        What makes the inputs of raw ones: of rows of a table with columns of any kind, of texts, or of photos.
    evidence : Evidence, optional
        Evidence of the new labels about the particles. `given` sets it.
    labeled : Tensor, optional
        Fingerprints of the inputs whose labels trained the particles, (b,) int64.
    new_labels : Tensor, optional
        Fingerprint and class index of each new label in `evidence`, (m, 2) int64.

    Examples
    --------
    >>> import refprior as rp
    >>> run = rp.train(rp.recipes.override(rp.recipes.digits_ssl(), {"steps": 5}))
    >>> predictor = run.predictor()
    >>> predictor.save("models/digits")
    >>> again = rp.load_predictor("models/digits")
    >>> images = run.task.test.inputs[:3].numpy()
    >>> again.predict_proba(images).shape, bool((again.predict(images) == predictor.predict(images)).all())
    ((3, 10), True)
    """

    particles: Particles  # K networks: the moving average of the weights, or the weights themselves
    normalizer: Normalizer
    classes: tuple[str, ...]
    shape: tuple[int, ...]  # of one input
    dtype: torch.dtype
    log_posterior: Tensor  # (K,) how much each particle counts
    temperature: float = 1.0  # what the mixture's log-probabilities are divided by
    log_prior_ratio: Tensor | None = None  # (C,) log of the shares of classes where it is used over those of training
    features: tuple[str, ...] = ()  # names of the columns, where the inputs have such
    integer_labels: bool = False  # labels were given as integers: `predict` returns integers
    provenance: Mapping[str, Any] = field(default_factory=dict, repr=False)  # what made it, in plain words and numbers
    network: Mapping[str, Any] = field(default_factory=dict, repr=False)  # how a network is made again, as a record
    preparation: Preparation | None = field(default=None, repr=False)  # of raw inputs
    evidence: Evidence | None = None  # of labels that did not train the particles
    labeled: Tensor | None = field(default=None, repr=False)  # (b,) fingerprints of the labeled training inputs
    new_labels: Tensor | None = field(default=None, repr=False)  # (m, 2) fingerprint and class of each new label

    def __post_init__(self) -> None:
        number("temperature", self.temperature, above=0)
        given = {"log_posterior": (self.log_posterior, self.particles.count)}
        if self.log_prior_ratio is not None:
            given["log_prior_ratio"] = (self.log_prior_ratio, len(self.classes))
        for name, (values, count) in given.items():
            if tuple(values.shape) != (count,) or not values.is_floating_point() or values.isnan().any():
                raise ValueError(f"{name} must be {count} numbers, got {tuple(values.shape)} {values.dtype}")
        if self.features and self.shape != (len(self.features),):
            raise ValueError(f"{len(self.features)} names of features do not fit inputs of {self.shape}")
        if self.preparation is not None:
            own = self.preparation
            width = own.width if isinstance(own, Backbone) else len(own.features)
            if self.shape != (width,):
                raise ValueError(
                    f"the preparation gives {width} numbers, the networks take inputs of {in_short(self.shape)}"
                )
        if self.evidence is not None and len(self.evidence.log_prior) != self.particles.count:
            count = len(self.evidence.log_prior)
            raise ValueError(f"the evidence is of {count} particles, the predictor has {self.particles.count}")
        if self.labeled is not None and (self.labeled.dim() != 1 or self.labeled.dtype != torch.int64):
            raise ValueError(f"labeled must be (b,) int64, got {tuple(self.labeled.shape)} {self.labeled.dtype}")
        known = self.new_labels
        if known is not None and (known.dim() != 2 or known.shape[1] != 2 or known.dtype != torch.int64):
            raise ValueError(f"new_labels must be (m, 2) int64, got {tuple(known.shape)} {known.dtype}")
        if known is not None and not ((known[:, 1] >= 0) & (known[:, 1] < len(self.classes))).all():
            raise ValueError(f"new_labels has a class that is not 0 … {len(self.classes) - 1}")

    def _repr_html_(self) -> str:
        calibrated = "calibration" in self.provenance
        rows = {
            "classes": shortened(self.classes),
            "inputs": f"{' × '.join(map(str, self.shape))}, {str(self.dtype).removeprefix('torch.')}",
            "particles": self.particles.count,
            "temperature": f"{self.temperature:.3g}{'' if calibrated else ' (not calibrated)'}",
        }
        return table("Predictor", rows if self.evidence is None else rows | {"evidence": str(self.evidence)})

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self.particles.prior_logits.device

    @property
    def like(self) -> Like:
        """What its inputs are."""
        return Like(self.shape, self.dtype, self.features, self.preparation)

    @overload
    def log_probabilities(self, inputs: Tensor) -> Tensor: ...
    @overload
    def log_probabilities(self, inputs: Any) -> np.ndarray: ...
    def log_probabilities(self, inputs: object) -> Tensor | np.ndarray:
        """Return the log-probabilities of every particle, log p(y | x, w_k), before mixture and temperature.

        Parameters
        ----------
        inputs : array, tensor, list, sparse matrix, data frame or list of image files
            n inputs of the shape and type of the training.

        Returns
        -------
        ndarray or Tensor
            Log-probabilities, (K, n, C): a tensor if the inputs are a tensor.
        """
        nothing = torch.empty(self.particles.count, 0, len(self.classes), device=self.device)
        _, blocks = self._blocks(inputs)
        return _like_inputs(torch.cat([*blocks] or [nothing], dim=1), inputs)

    def mix(self, log_p: Tensor, average: Average = "probabilities") -> Tensor:
        """Mix log-probabilities of particles into the log of the predictive distribution.

        Parameters
        ----------
        log_p : Tensor
            From `log_probabilities`, (K, n, C).
        average : {"probabilities", "logits"}, default: "probabilities"
            What is averaged over the particles.

        Returns
        -------
        Tensor
            Log of the predictive distribution, (n, C).
        """
        mixed = predictive(log_p, self.log_posterior.to(log_p.device), average)
        return tempered(mixed, self.temperature, self.log_prior_ratio)

    def inputs(self, inputs: object) -> Tensor:
        """Return the normalized inputs of the networks, on the CPU.

        Parameters
        ----------
        inputs : array, tensor, list, sparse matrix, data frame or list of image files
            n inputs of the shape and type of the training.

        Returns
        -------
        Tensor
            Inputs of the networks, (n, ...).
        """
        return torch.cat([self.normalizer(block).cpu() for block in in_blocks(inputs, self.like, _ROWS)[1]])

    @overload
    def predict_proba(self, inputs: Tensor, *, average: Average = "probabilities") -> Tensor: ...
    @overload
    def predict_proba(self, inputs: Any, *, average: Average = "probabilities") -> np.ndarray: ...
    def predict_proba(self, inputs: object, *, average: Average = "probabilities") -> Tensor | np.ndarray:
        """Predict probabilities of the classes.

        The posterior predictive p(y | x, x^n, y^n) of eq:bayes_posterior_predictive_distribution.

        Parameters
        ----------
        inputs : array, tensor, list, sparse matrix, data frame or list of image files
            n inputs of the shape and type of the training.
        average : {"probabilities", "logits"}, default: "probabilities"
            What is averaged over the particles.

        Returns
        -------
        ndarray or Tensor
            Probabilities, (n, C): a tensor if the inputs are a tensor.
        """
        probabilities = self._of_each(inputs, lambda log_p: self.mix(log_p, average).exp().cpu(), len(self.classes))
        return _like_inputs(probabilities, inputs)

    def predict(self, inputs: object, *, average: Average = "probabilities") -> np.ndarray:
        """Predict the most probable class of each input.

        Parameters
        ----------
        inputs : array, tensor, list, sparse matrix, data frame or list of image files
            n inputs of the shape and type of the training.
        average : {"probabilities", "logits"}, default: "probabilities"
            What is averaged over the particles.

        Returns
        -------
        ndarray
            Labels as they were given, integers or names, (n,).
        """
        best = self._of_each(inputs, lambda log_p: self.mix(log_p, average).argmax(-1, keepdim=True).cpu(), 1)
        labels = np.array([int(name) for name in self.classes] if self.integer_labels else self.classes)
        return labels.take(best[:, 0].long().numpy())

    def uncertainty(self, inputs: object) -> Uncertainty:
        """Split the uncertainty of each prediction: total = within + between particles.

        It is that of the mixture of the particles, before temperature and class shares.

        Parameters
        ----------
        inputs : array, tensor, list, sparse matrix, data frame or list of image files
            n inputs of the shape and type of the training.

        Returns
        -------
        Uncertainty
            ``total``, ``within`` and ``between`` in nats, (n,) each.
        """
        weights = self.log_posterior.to(self.device)
        found = self._of_each(inputs, lambda log_p: torch.stack(uncertainty(log_p, weights), 1), 3)
        return Uncertainty(*cast(Any, (_like_inputs(part, inputs) for part in found.unbind(1))))

    def rules(self, inputs: object, *, labeled: object = None, test: tuple[object, object, Any] | None = None) -> Rules:
        """Group the particles into rules, by the labels that they give to unlabeled inputs.

        Parameters
        ----------
        inputs : array, tensor, list, sparse matrix, data frame or list of image files
            n unlabeled inputs of the shape and type of the training.
        labeled : array, tensor, list, sparse matrix, data frame or list of image files, optional
            Labeled inputs, for `Rules.agreement` and `Rules.ambiguous`.
        test : (inputs, labels, groups), optional
            Labeled inputs that did not train the particles, and the name of the group of each, for
            `Rules.accuracies`. An input whose label is None is left out.

        Returns
        -------
        Rules
            Groups of particles and the inputs that separate them, the heaviest group first.

        Raises
        ------
        ValueError
            If there are no inputs, or if a test label is no class.
        """
        known = None if labeled is None else torch.as_tensor(self.log_probabilities(labeled))
        log_p = torch.as_tensor(self.log_probabilities(inputs))
        held = None
        if test is not None:
            X, y, groups = test
            held = torch.as_tensor(self.log_probabilities(X)), torch.tensor(self.class_indices(y)), groups
        weights = self.log_posterior.to(log_p.device)
        return find_rules(log_p, weights, classes=self.classes, labeled=known, test=held)

    def class_indices(self, y: object) -> list[int]:
        """Return the class index of each label.

        Parameters
        ----------
        y : sequence of str or int
            Labels as `predict` returns them, or None.

        Returns
        -------
        list of int
            Their indices in ``classes``; -1 for None.

        Raises
        ------
        ValueError
            If a label is no class.
        """
        given = np.asarray(y.cpu() if isinstance(y, Tensor) else y)
        if given.ndim != 1:
            raise ValueError(f"y must be one label per input, got the shape {given.shape}")
        index: dict[str | None, int] = {None: -1, **{name: place for place, name in enumerate(self.classes)}}
        names = [None if label is None else str(label) for label in given.tolist()]
        unknown = sorted(name for name in {*names} - {*index} if name is not None)
        if unknown:
            raise ValueError(
                f"y has labels that are no classes: {in_short(', '.join(unknown))}; "
                f"the classes are {in_short(', '.join(self.classes))}"
            )
        return [index[name] for name in names]

    def calibrated(self, part: Examples) -> "Predictor":
        """Return the model at the temperature that minimizes the negative log-likelihood on a labeled part.

        Use a part that was not trained on, such as the validation part; `provenance` records which one.

        Parameters
        ----------
        part : Examples
            Labeled inputs.

        Returns
        -------
        Predictor
            The same particles at another temperature.

        Raises
        ------
        ValueError
            If the part is empty.
        """
        if not len(part):
            raise ValueError("calibration needs inputs with labels: the part is empty")
        part.check_labels("calibration", len(self.classes))
        weights, classes = self.log_posterior.to(self.device), len(self.classes)
        mixed = self._of_each(part.inputs, lambda log_p: predictive(log_p, weights).double().cpu(), classes)

        def loss(temperature: float) -> float:
            log_p = tempered(mixed, temperature, self.log_prior_ratio)
            return float(negative_log_likelihood(log_p, part.labels.cpu()).mean())

        bounds = (math.log(_COLDEST), math.log(_HOTTEST))
        found = minimize_scalar(lambda x: loss(math.exp(x)), bounds=bounds, method="bounded", options={"xatol": 1e-6})
        temperature = min(math.exp(found.x), self.temperature, key=loss)
        if not 1.01 * _COLDEST < temperature < 0.99 * _HOTTEST:
            log.warning("the temperature is at the limit of %g: %d inputs say too little of it", temperature, len(part))
        record = {"count": len(part), "sha256": part.sha256()}
        calibration = {
            "part": _name_of(record, self.provenance),
            **record,
            "temperature": temperature,
            "negative_log_likelihood": {"before": loss(self.temperature), "after": loss(temperature)},
        }
        provenance = {**self.provenance, "calibration": calibration}
        return replace(self, temperature=temperature, provenance=provenance)

    def given(self, X: object, y: object, *, noise: float = NOISE) -> "Predictor":
        """Weight the particles by labels that did not train them.

        The posterior of eq:bayes_posterior_predictive_distribution: particles count by their likelihood of the new
        labels, averaged with the hypothesis that their mixture is right (`posterior.Evidence`). It decides between
        rules that fit the training labels equally well, without training. Labels can be given in several calls and in
        any order; an input that is given again with the same label counts once. The likelihood is that of each
        particle before temperature and class shares, which stay as they are.

        A warning is logged if the labels are 3 times likelier by chance than if one particle is right, unless the
        average of the particles explains them 3 times better than chance: train with the labels then. The weights are
        still those of the evidence.

        Parameters
        ----------
        X : array, tensor, list, sparse matrix, data frame or list of image files
            n inputs as `predict` takes them, without a label in training.
        y : sequence of str or int
            Their labels, as `predict` returns them; an input whose label is None is left out.
        noise : float, default: 0.05
            Probability that a label is drawn uniformly from all classes, so that one wrong label excludes no particle.

        Returns
        -------
        Predictor
            The same particles with the weights `evidence.log_weights`.

        Raises
        ------
        ValueError
            If a label is no class, if an input was labeled in training (labels that trained the particles cannot weight
            them), or if an input is given with two labels. Models saved by an older version do not know their
            training inputs.

        Examples
        --------
        >>> import refprior as rp
        >>> run = rp.train(rp.recipes.override(rp.recipes.digits_ssl(), {"steps": 5}))
        >>> images, labels = run.task.test.inputs[:4], run.task.test.labels[:4]
        >>> run.predictor().given(images, labels).evidence.count
        4
        """
        number("noise", noise, at_least=0, at_most=1)
        labels = self.class_indices(y)
        _, blocks = in_blocks(X, self.like, _ROWS)
        inputs = torch.cat([*blocks] or [torch.empty(0, *self.shape, dtype=self.dtype)])
        if len(inputs) != len(labels):
            raise ValueError(f"X has {len(inputs)} inputs and y {len(labels)} labels: give one label per input")
        marks = fingerprints(inputs)
        taught = set() if self.labeled is None else set(self.labeled.tolist())
        pairs = [(place, *pair) for place, pair in enumerate(zip(marks.tolist(), labels, strict=True)) if pair[1] >= 0]
        trained = [place for place, mark, _ in pairs if mark in taught]
        if trained:
            raise ValueError(
                f"{len(trained)} of {len(inputs)} inputs were labeled in training, the first is number {trained[0]}: "
                "labels that trained the particles cannot weight them; leave these inputs out"
            )
        known = {} if self.new_labels is None else dict(self.new_labels.tolist())
        fresh = []
        for place, mark, label in pairs:
            if known.get(mark, label) != label:
                first, second = self.classes[known[mark]], self.classes[label]
                raise ValueError(f"input {place} is given with two labels, {first!r} and {second!r}: give one of them")
            if mark not in known:
                known[mark] = label
                fresh.append(place)
        before = Evidence(self.log_posterior.cpu()) if self.evidence is None else self.evidence
        log_p = self.log_probabilities(inputs[fresh]).cpu()
        evidence = replace(before, noise=noise).update(log_p, torch.tensor(labels, dtype=torch.int64)[fresh])
        if not evidence.explained:
            log.warning("%s", evidence)
        return replace(
            self,
            evidence=evidence,
            log_posterior=evidence.log_weights.to(self.log_posterior),
            new_labels=torch.tensor([*known.items()], dtype=torch.int64).reshape(-1, 2),
        )

    def card(self) -> str:
        """Write a model card in Markdown, from the provenance.

        Returns
        -------
        str
            Classes, data, method, scores, calibration and versions, with the front matter that model hubs read.
        """
        return card(self)

    def save(self, path: Path | str) -> None:
        """Save the model as a folder, which `load_predictor` reads.

        A predictor in the folder is replaced.

        Parameters
        ----------
        path : Path or str
            The folder.

        Raises
        ------
        ValueError
            If the folder holds something other than a predictor.
        """
        folder = Path(path).absolute()
        _check_replaceable(folder)
        check_predicts(self, str(folder))  # which also finds out whether vmap can run the network
        tensors = {
            **{f"particles.{name}": tensor.clone() for name, tensor in self.particles.state_dict().items()},
            **{f"normalizer.{name}": tensor for name, tensor in self.normalizer.state_dict().items()},
            "log_posterior": self.log_posterior,
            **({} if self.log_prior_ratio is None else {"log_prior_ratio": self.log_prior_ratio}),
            **({} if self.labeled is None else {"labeled": self.labeled}),
            **({} if self.new_labels is None else {"new_labels": self.new_labels}),
        }
        if isinstance(self.preparation, Backbone):
            weights = self.preparation.module.state_dict()
            tensors |= {f"backbone.{name}": tensor.contiguous() for name, tensor in weights.items()}
        evidence = self.evidence
        if evidence is not None:
            tensors["evidence.log_prior"] = evidence.log_prior
            if evidence.log_likelihood is not None:
                tensors["evidence.log_likelihood"] = evidence.log_likelihood

        def write(side: Path) -> None:
            write_tensors(side / MODEL, tensors)
            record = _Record(
                network=dict(self.network),
                particles=self.particles.count,
                execution=self.particles.execution,
                classes=self.classes,
                shape=self.shape,
                dtype=cast(InputType, str(self.dtype).removeprefix("torch.")),
                temperature=self.temperature,
                features=self.features,
                integer_labels=self.integer_labels,
                provenance=dict(self.provenance),
                preparation=preparation_record(self.preparation),
                evidence=None if evidence is None else msgspec.convert(evidence, _EvidenceRecord, from_attributes=True),
                size=(side / MODEL).stat().st_size,
                sha256=digest(side / MODEL),
            )
            write_record(side / RECORD, FORMAT, msgspec.to_builtins(record))

        write_folder_atomically(folder, write)

    def push_to_hub(self, repo_id: str, *, private: bool = False, token: str | None = None) -> str:
        """Upload the model with its card to the Hugging Face Hub.

        The card is `README.md` of the repository. An existing repository gets a new commit. The provenance
        is uploaded too, with absolute paths reduced to their last name.

        Parameters
        ----------
        repo_id : str
            Name of the repository, ``"NAME/model"``. It is created if it does not exist.
        private : bool, default: False
            Whether a new repository is private.
        token : str, optional
            Access token. By default, the one of ``hf auth login`` or of the variable ``HF_TOKEN``.

        Returns
        -------
        str
            Address of the repository.

        Raises
        ------
        ValueError
            If huggingface_hub is not installed: ``pip install 'refprior[hub]'``.
        """
        if find_spec("huggingface_hub") is None:
            raise ValueError("push_to_hub needs huggingface_hub, which is not installed: pip install 'refprior[hub]'")
        from huggingface_hub import HfApi

        api, shown = HfApi(token=token), replace(self, provenance=without_places(self.provenance))
        with TemporaryDirectory() as folder:
            shown.save(Path(folder) / "model")
            write_text(Path(folder) / "model" / "README.md", shown.card())
            address = api.create_repo(repo_id, private=private, exist_ok=True)
            api.upload_folder(repo_id=repo_id, folder_path=Path(folder) / "model", commit_message="Upload a predictor")
        return str(address)

    def _of_each(self, inputs: object, reduce: Callable[[Tensor], Tensor], columns: int) -> Tensor:
        """What is made of each input's raw log-probabilities, block by block: (K, rows, C) -> (rows, columns).

        Into one tensor that is made first: many small ones between the large ones of the blocks tear memory to pieces.
        """
        count, blocks = self._blocks(inputs)
        whole, done = torch.empty(0, columns), 0
        for log_p in blocks:
            part = reduce(log_p)
            if not done:
                whole = part.new_empty(count, columns)
            whole[done : done + len(part)] = part
            done += len(part)
        return whole

    def _blocks(self, inputs: object) -> tuple[int, Iterator[Tensor]]:
        """Return the number of inputs and an iterator over log-probabilities, in blocks that bound memory."""
        rows = max(1, min(_ROWS, _NUMBERS // (self.particles.count * len(self.classes))))
        count, blocks = in_blocks(inputs, self.like, rows)
        return count, map(self._log_p, blocks)

    def _log_p(self, block: Tensor) -> Tensor:
        try:
            return log_probabilities(self.particles, self.normalizer, block.to(self.device), len(self.classes))
        except IndexError as error:
            span = f"given inputs are {block.min()} … {block.max()}"
            raise ValueError(f"{span}, and the network does not take them all: {in_short(error)}") from None


@dataclass(frozen=True)
class _EvidenceRecord:
    """The numbers of an `Evidence`; its tensors are in model.safetensors."""

    noise: float
    log_average: float
    count: int
    log_chance: float

    def read(self, tensors: dict[str, Tensor]) -> Evidence:
        """Return the evidence with the tensors of a file; a KeyError or ValueError if they do not fit."""
        found = tensors.get("log_likelihood")
        return Evidence(tensors["log_prior"], self.noise, found, self.log_average, self.count, self.log_chance)


@dataclass(frozen=True)
class _Record:
    """The content of predictor.json."""

    network: Json
    particles: int
    execution: Execution
    classes: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: InputType
    temperature: float
    features: tuple[str, ...]
    provenance: Json
    size: int  # of the file of tensors, in bytes
    sha256: str  # of that file
    integer_labels: bool = False
    preparation: Json | None = None
    evidence: _EvidenceRecord | None = None


def read_predictor(
    folder: Path,
    network: Callable[[], nn.Module] | None,
    device: torch.device | str,
    backbone: nn.Module | None,
) -> Predictor:
    """Read a predictor from its folder. network, backbone: custom parts, which no file can hold."""
    place = usable_device(device)
    record = _read_record(folder / RECORD)
    tensors = read_tensors(folder / MODEL, record.size, record.sha256, RECORD)
    count = tensors["log_posterior"].numel() if "log_posterior" in tensors else 0
    if record.particles != count:
        raise ValueError(f"{folder / RECORD} is of {record.particles} particles, {MODEL} of {count}")
    try:
        make = network or read_field("network", record.network, "network")
        check_loading_fits(make, count)
        particles = Particles(make, count, execution=record.execution)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{folder / RECORD}: {in_short(error)}") from None
    if network is not None:
        warn_of_edits(str(folder), record.network, "network", network)
    try:
        particles.load_state_dict(tensors_of(tensors, "particles"))
        predictor = Predictor(
            particles=particles.requires_grad_(False).eval().to(place),
            normalizer=Normalizer.from_tensors(tensors_of(tensors, "normalizer")),
            classes=record.classes,
            shape=record.shape,
            dtype=getattr(torch, record.dtype),
            log_posterior=tensors["log_posterior"],
            temperature=record.temperature,
            log_prior_ratio=tensors.get("log_prior_ratio"),
            features=record.features,
            integer_labels=record.integer_labels,
            provenance=record.provenance,
            preparation=read_preparation(record.preparation, tensors_of(tensors, "backbone"), backbone),
            network=record.network,
            evidence=None if record.evidence is None else record.evidence.read(tensors_of(tensors, "evidence")),
            labeled=tensors.get("labeled"),
            new_labels=tensors.get("new_labels"),
        )
    except (RuntimeError, TypeError, ValueError, KeyError) as error:
        raise ValueError(f"{folder / MODEL} does not fit {RECORD}: {in_short(error)}") from None
    check_predicts(predictor, f"{folder}, {RECORD} and {MODEL}")
    return predictor


def read_network(folder: Path) -> Json:
    """Read the record of a saved predictor's network."""
    return _read_record(folder / RECORD).network


def check_predicts(predictor: Predictor, where: str) -> None:
    """Raise a ValueError for parts that do not fit each other: a zero input goes through all of them."""
    shape, classes = predictor.shape, len(predictor.classes)
    check_memory(8.0 * math.prod(shape), f"{where}: an input of {in_short(shape)}", "the folder is damaged")
    try:
        found = predictor.log_probabilities(torch.zeros(1, *shape, dtype=predictor.dtype)).shape
    except (RuntimeError, TypeError, ValueError, IndexError, OverflowError) as error:
        raise ValueError(f"{where}: the weights do not fit inputs of {in_short(shape)}: {in_short(error)}") from None
    if len(found) != 3 or found[-1] != classes:
        raise ValueError(f"{where}: the network gives {found[-1]} outputs for {classes} classes")


def warn_of_edits(where: str, before: object, name: str, part: object) -> None:
    """Warn if the code of a custom part has changed since the training."""
    now = to_plain(take_apart(part))
    if isinstance(before, dict) and isinstance(now, dict) and before.get("source") != now.get("source"):
        log.warning("%s: the code of %s has changed since the training", where, name)


def _like_inputs(found: Tensor, inputs: object) -> Tensor | np.ndarray:
    """Return a tensor on the device of inputs that are tensors, and an array for all others."""
    return found.to(inputs.device) if isinstance(inputs, Tensor) else np.asarray(found.cpu())


def without_places(value: object) -> Any:
    """Reduce absolute paths in a record to their last name: for models that others get."""
    if isinstance(value, Mapping):
        return {key: without_places(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_places(item) for item in value]
    return PurePath(value).name if isinstance(value, str) and PurePath(value).is_absolute() else value


def _name_of(record: Json, provenance: Mapping[str, object]) -> str:
    """Return the name of a part of the data that the training knew, by its content."""
    data = provenance.get("data")
    parts = data.get("parts") if isinstance(data, Mapping) else None
    known = parts if isinstance(parts, Mapping) else {}
    return next((name for name, part in known.items() if part == record), "examples")


def _check_replaceable(folder: Path) -> None:
    """Raise a ValueError for a folder that holds something other than a predictor."""
    check_ordinary(folder)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file: give the name of a folder")
    there = sorted(path.name for path in folder.glob("*"))
    strangers = [name for name in there if name not in (MODEL, RECORD)]
    if strangers or (there and RECORD not in there):
        raise ValueError(f"{folder} holds {(strangers or there)[0]} and is no predictor: give a new folder")


def _read_record(path: Path) -> _Record:
    record = read_record(path, FORMAT)
    try:
        check_depth(record, "it")
        return msgspec.convert(record, _Record)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{path} is not the record of a predictor: {in_short(error)}") from None
