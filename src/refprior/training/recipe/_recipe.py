"""A recipe: everything that determines a run, as one frozen record."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

from torch import nn

from refprior._checks import number, one_of, whole_number
from refprior.data import Identity, PatchComponents, PrincipalComponents, Standardize, Task
from refprior.methods import Method, Needs
from refprior.particles import Execution
from refprior.training.recipe._optimizer import Optimizer
from refprior.training.recipe._parts import (
    PART_PACKAGES,
    CustomPartError,
    Part,
    Plain,
    check_depth,
    check_writable,
    checked_settings,
    from_plain,
    is_custom,
    put_together,
    take_apart,
    to_plain,
)
from refprior.views import Unchanged, View

Head = Literal["same", "new", "probe"]
HANDED_IN = {"network", "task", "method", "weak", "strong", "inputs", "optimizer"}
STEPS_PER_EPOCH = 1024  # weight updates, as the paper counts (appendix Setup)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One run: data, networks, method and optimization. Several stages are a chain: `start` is trained first.

    >>> from functools import partial
    >>> import refprior as rp
    >>> recipe = rp.Recipe(
    ...     task=rp.data.FewLabels("digits", labels=50),
    ...     network=partial(rp.networks.SmallCNN, shape=(1, 8, 8), classes=10),
    ...     method=rp.ReferencePrior(alpha=0.1),
    ...     steps=600,
    ... )
    >>> rp.Recipe.from_json(recipe.to_json()).method
    ReferencePrior(order=2, alpha=0.1, final_alpha=None, tau=0.3333333333333333, gamma=None, jensen=True, \
stop_gradient=True, threshold=None, marginal_views='mixture', marginal_gradient=False, per_item=False, \
trainable_prior=False, samples=None, class_prior=None, balance=0.0)
    """

    task: Callable[[], Task] | Task  # the data: `FewLabels(…)`, a function that returns a task, or a task
    network: Callable[[], nn.Module]  # makes a new network that returns logits
    method: Method
    inputs: Standardize | PrincipalComponents | PatchComponents | Identity = field(
        default_factory=Standardize
    )  # what the network sees of an input
    particles: int = 4
    steps: int = 200 * STEPS_PER_EPOCH
    labeled_batch: int = 64  # labeled inputs per step
    labeled_copies: int = 1  # of the labeled inputs, shuffled together: many are almost draws with replacement
    unlabeled_batch: int = 448  # unlabeled inputs or tuples per step
    source_batch: int = 64  # labeled inputs of the source task per step, where the method wants them
    unlabeled_unit: Literal["images", "tuples"] = "images"  # the paper says tuples, the authors' code cuts images
    weak: View = field(default_factory=Unchanged)
    strong: View = field(default_factory=Unchanged)
    optimizer: Optimizer = field(default_factory=Optimizer)
    ema: float = 0.999  # decay of the moving average of the weights
    precision: Literal["float32", "bfloat16", "auto"] = "float32"  # of the networks; "auto": faster one
    execution: Execution = "auto"  # of the particles: as in `Particles`; "recomputed" takes the least memory
    evaluate_every: int = STEPS_PER_EPOCH  # steps
    snapshots: int = 0  # times that the predictions of all particles are kept, more of them in the beginning
    skip_not_finite: int = 0  # steps whose loss or gradient is not finite may be skipped this many times
    readout: Literal["outputs", "consensus"] = "outputs"  # what is scored: outputs are classes, or clusters are
    seed: int = 0
    start: "Recipe | None" = None  # the stage whose weights this one begins with
    head: Head = "same"  # the output layer after such a stage: keep it, draw a new one, or train only a new one

    def __post_init__(self) -> None:
        self._check_numbers()
        self._check_parts()
        one_of("unlabeled_unit", self.unlabeled_unit, ("images", "tuples"))
        one_of("precision", self.precision, ("float32", "bfloat16", "auto"))
        one_of("execution", self.execution, get_args(Execution))
        one_of("readout", self.readout, ("outputs", "consensus"))
        one_of("head", self.head, get_args(Head))
        self._check_stages()
        if self.method.needs.views and not self.tuples:
            size = self.method.needs.tuple_size
            raise ValueError(f"unlabeled_batch={self.unlabeled_batch} is less than one tuple of {size} inputs")

    def _check_numbers(self) -> None:
        """Numbers within their limits; those of numpy become Python's own, which every record can hold."""
        sizes = ("particles", "steps", "labeled_batch", "unlabeled_batch", "source_batch", "evaluate_every")
        numbers: dict[str, float] = {name: whole_number(name, getattr(self, name), at_least=1) for name in sizes}
        whole_number("steps", self.steps, at_least=1, at_most=10**15)
        numbers["labeled_copies"] = whole_number("labeled_copies", self.labeled_copies, at_least=1, at_most=10**6)
        for name in ("snapshots", "skip_not_finite"):
            numbers[name] = whole_number(name, getattr(self, name), at_least=0)
        whole_number("snapshots", self.snapshots, at_least=0, at_most=10_000)
        numbers["seed"] = whole_number("seed", self.seed, at_least=0, at_most=2**32 - 4)  # others are made from it
        numbers["ema"] = number("ema", self.ema, at_least=0, below=1)
        for name, value in numbers.items():
            object.__setattr__(self, name, value)

    def _check_parts(self) -> None:
        for name in ("task", "network", "method", "weak", "strong"):
            part = getattr(self, name)
            if not callable(part) and not (name == "task" and isinstance(part, Task)):
                raise ValueError(f"{name} must be a function or a part of refprior, got {part!r}")
            if isinstance(part, type) and name != "network":
                raise ValueError(f"{name} is the class {part.__name__}: write {part.__name__}(…)")
        if isinstance(self.network, nn.Module):
            raise ValueError("network must be a function that makes a new network each time, not a network")
        if not isinstance(getattr(self.method, "needs", None), Needs):
            name = getattr(self.method, "__name__", type(self.method).__name__)
            raise ValueError(f"{name} is not a method: it does not declare its `needs`")
        if not hasattr(self.inputs, "fit"):
            raise ValueError(
                f"inputs must be a part of refprior.data with a `fit`, such as Standardize(), got {self.inputs!r}"
            )
        if callable(self.optimizer):
            object.__setattr__(self, "optimizer", Optimizer(kind=self.optimizer, schedule="constant"))
        if type(self.optimizer) is not Optimizer:
            raise ValueError(f"optimizer must be an Optimizer or a function of parameters, got {self.optimizer!r}")
        for f in fields(self):
            if f.name != "start":
                check_writable(take_apart(getattr(self, f.name)), f.name)

    def _check_stages(self) -> None:
        if self.optimizer.warmup >= self.steps:
            raise ValueError(f"{self.optimizer.warmup} steps of warm-up do not fit a run of {self.steps} steps")
        if self.start is not None and self.start.particles != self.particles:
            raise ValueError(f"the first stage has {self.start.particles} particles, this one {self.particles}")
        if self.head != "same" and self.start is None:
            raise ValueError(f"head={self.head!r} is for a second stage: give start, the recipe of the first one")

    @property
    def tuples(self) -> int:
        """Tuples of unlabeled inputs per step; a remainder of inputs is left out."""
        size = self.method.needs.tuple_size if self.method.needs.views else 0
        if size == 0:
            return 0
        return self.unlabeled_batch if self.unlabeled_unit == "tuples" else self.unlabeled_batch // size

    def read_task(self) -> Task:
        """The data of this recipe."""
        task = self.task if isinstance(self.task, Task) else self.task()
        if not isinstance(task, Task):
            raise ValueError(f"task must give a refprior.data.Task, got {type(task).__name__}")
        return task

    def to_dict(self) -> dict[str, Any]:
        """Everything that determines the run, as plain numbers, words, lists and dictionaries."""
        parts = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "start"}
        plain = {name: to_plain(take_apart(value)) for name, value in parts.items()}
        return {**plain, "start": self.start.to_dict() if self.start is not None else None}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any], **parts: Any) -> "Recipe":
        """A recipe from `to_dict`. parts: your own network, task, method or views, which no record can hold."""
        check_handed_in(parts)
        check_depth(record, "recipe")
        return read_recipe(record, parts, lambda name, last: None)

    def to_json(self) -> str:
        """`to_dict` as text."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str, **parts: Any) -> "Recipe":
        """A recipe from `to_json`."""
        try:
            record = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"not a recipe: {error}") from None
        return cls.from_dict(record, **parts)


def check_handed_in(parts: Mapping[str, Any]) -> None:
    """Refuse parts that cannot be handed in."""
    unknown = sorted(set(parts) - HANDED_IN)
    if unknown:
        raise ValueError(f"{unknown[0]} cannot be handed in; these can: {', '.join(sorted(HANDED_IN))}")


StandIn = Callable[[str, bool], Any]  # (field, of the last stage) -> what stands for a part that is not there, or None


def read_recipe(record: Any, parts: Mapping[str, Any], stand_in: StandIn, where: str = "recipe") -> Recipe:
    """A recipe from its record. Parts of the user's own are handed in, or something stands for them."""
    if not isinstance(record, Mapping):
        raise ValueError(f"{where} must be a dictionary of settings, got {type(record).__name__}")
    checked_settings(Recipe, dict(record), where)
    last, arguments = where == "recipe", dict[str, Any]()
    for name, value in record.items():
        if name == "start":
            arguments[name] = None if value is None else read_recipe(value, parts, stand_in, f"{where}.start")
        elif parts.get(name) is not None and (last or is_custom(value)):  # an earlier stage has a task of its own
            arguments[name] = parts[name]
        elif is_custom(value) and (absent := stand_in(name, last)) is not None:
            arguments[name] = absent
        else:
            arguments[name] = read_field(name, value, f"{where}.{name}")
    return Recipe(**arguments)


def custom_parts(record: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Make the custom parts of a recorded recipe from the user's classes and functions; only the network must exist."""
    check_depth(record, "recipe")
    parts = {}
    for name in [name for name in PART_PACKAGES if is_custom(record.get(name))]:
        try:
            parts[name] = read_field(name, record[name], f"recipe.{name}", definitions)
        except CustomPartError:
            if name == "network":
                raise
    return parts


def read_field(name: str, value: Any, where: str, custom: Mapping[str, Any] | None = None) -> Any:
    """Read one field of a recipe; a custom part without its definition raises `CustomPartError`."""
    if name not in PART_PACKAGES:
        if not isinstance(value, Plain):
            raise ValueError(f"{where} must be a number or a word, got {type(value).__name__}")
        return value
    try:
        part = from_plain(value, PART_PACKAGES[name], where, custom)
    except CustomPartError as error:
        raise CustomPartError(f"{error}: pass {name}=…, or --custom FILE.py on the command line") from None
    if not isinstance(part, Part):
        raise ValueError(f"{where} must name a part of refprior.{PART_PACKAGES[name]}, got {value!r}")
    try:
        return put_together(part, where)
    except TypeError as error:  # a setting of another kind than the part can even look at
        raise ValueError(f"{where}: {error}") from None
