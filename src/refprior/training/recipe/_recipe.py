"""A recipe: everything that determines a run, as one frozen record."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, get_args

from torch import nn

from refprior._checks import number, one_of, whole_number
from refprior._files import Json
from refprior.data import (
    Answered,
    Identity,
    Joined,
    NeighborMeans,
    PatchComponents,
    PrincipalComponents,
    QuantileBins,
    Standardize,
    Task,
    TreeLeaves,
)
from refprior.methods import Method, Needs
from refprior.particles import Execution
from refprior.training.recipe._optimizer import MakeOptimizer, Optimizer
from refprior.training.recipe._parts import (
    PART_PACKAGES,
    CustomPartError,
    Make,
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
Transform = (
    Standardize | PrincipalComponents | PatchComponents | QuantileBins | TreeLeaves | NeighborMeans | Joined | Identity
)
CUSTOM_FIELDS = {"network", "task", "method", "weak", "strong", "inputs", "optimizer"}
STEPS_PER_EPOCH = 1024  # weight updates, as the paper counts (appendix Setup)

if TYPE_CHECKING:

    class OptimizerField:
        """Tell type checkers that a recipe accepts a function and always holds an `Optimizer`."""

        def __get__(self, recipe: "Recipe | None", owner: type) -> Optimizer: ...
        def __set__(self, recipe: "Recipe", optimizer: Optimizer | MakeOptimizer) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything that determines a run: data, networks, method and optimization.

    Recipes with several stages are a chain: the stage `start` is trained first.

    Parameters
    ----------
    task : function or Task
        The data: ``FewLabels(…)``, a function that returns a task, or a task.
    network : function
        Makes a new network that returns logits.
    method : object
        A method of `refprior.methods`, or a custom one that declares its ``needs``.
    inputs : transform of refprior.data, optional
        How inputs are prepared for the network. Defaults to ``Standardize()``.
    particles : int, default: 4
        Number of networks K.
    steps : int, default: 204800
        Weight updates; the paper's epoch has 1024.
    labeled_batch : int, default: 64
        Labeled inputs per step.
    labeled_copies : int, default: 1
        Copies of the labeled inputs that are shuffled together. Many copies are almost draws with replacement.
    folds : {"off", "auto"} or int, default: "off"
        Number of folds F of the labels. With folds, particle k never learns from the labels of fold k mod F,
        so that every label is held out by some particles: `Run.out_of_fold` scores without a test set, and
        `Run.label_quality` finds wrong labels. ``"auto"`` makes as many folds as particles if there are at least two
        particles and two labels of each class, and none otherwise.
    doubt_labels : bool, default: False
        Weight each label by the probability that it is right, according to the particles that hold it out, and learn
        the share of wrong labels. The weights move from 1 to this probability over the first half of training. Needs
        `folds`.
    calibrate : bool, default: True
        With `folds`, divide the log-probabilities of the ensemble by a temperature that the labels out of fold suggest.
    unlabeled_batch : int, default: 448
        Unlabeled inputs or tuples per step.
    source_batch : int, default: 64
        Labeled inputs of the source task per step, if the method uses them.
    unlabeled_unit : {"images", "tuples"}, default: "images"
        What `unlabeled_batch` counts. The paper says tuples, the authors' code counts images.
    weak, strong : view, optional
        Augmentations. The default leaves inputs unchanged.
    optimizer : Optimizer or function, optional
        Defaults to ``Optimizer()``. A function from parameters to a ``torch.optim.Optimizer`` keeps its learning rates.
    ema : float, default: 0.999
        Decay of the moving average of the weights.
    precision : {"float32", "tf32", "bfloat16", "float16", "auto"}, default: "float32"
        Precision of the networks. ``"tf32"`` is float32 whose products drop digits on CUDA devices that can.
        ``"float16"`` scales the loss, and skips and counts steps whose gradient overflows. ``"auto"`` takes bfloat16 on
        CUDA devices that have it and float16 on others; on a CPU it takes the faster of bfloat16 and float32.
    deterministic : bool, default: False
        Use only deterministic algorithms on CUDA, so that a run there can be resumed bit for bit. On a CPU all are.
    execution : {"auto", "vectorized", "loop", "recomputed"}, default: "auto"
        How the particles run, as in `Particles`; ``"recomputed"`` needs the least memory.
    evaluate_every : int, default: 1024
        Steps between evaluations.
    snapshots : int, default: 0
        How often to save the predictions of all particles, more frequently at the beginning.
    skip_not_finite : int, default: 0
        How many steps with a loss or gradient that is not finite may be skipped.
    readout : {"outputs", "consensus"}, default: "outputs"
        What is scored: outputs as classes, or clusters.
    seed : int, default: 0
        Seed for all random draws.
    start : Recipe, optional
        The stage whose weights this one starts from.
    head : {"same", "new", "probe"}, default: "same"
        The output layer after such a stage: keep it, draw a new one, or train only a new one.

    Raises
    ------
    ValueError
        If a setting is outside its range, or if a part does not fit its field.

    Examples
    --------
    >>> from functools import partial
    >>> import refprior as rp
    >>> recipe = rp.Recipe(
    ...     task=rp.data.FewLabels("digits", labels=50),
    ...     network=partial(rp.networks.SmallCNN, shape=(1, 8, 8), classes=10),
    ...     method=rp.ReferencePrior(alpha=0.1),
    ...     steps=600,
    ... )
    >>> rp.Recipe.from_json(recipe.to_json()).method.alpha
    0.1
    """

    task: Callable[[], Task] | Task
    network: Callable[[], nn.Module]
    method: Method
    inputs: Transform = field(default_factory=Standardize)
    particles: int = 4
    steps: int = 200 * STEPS_PER_EPOCH
    labeled_batch: int = 64
    labeled_copies: int = 1
    folds: Literal["off", "auto"] | int = "off"
    doubt_labels: bool = False
    calibrate: bool = True
    unlabeled_batch: int = 448
    source_batch: int = 64
    unlabeled_unit: Literal["images", "tuples"] = "images"
    weak: View = field(default_factory=Unchanged)
    strong: View = field(default_factory=Unchanged)
    if TYPE_CHECKING:
        optimizer: OptimizerField = OptimizerField()
    else:
        optimizer: Optimizer = field(default_factory=Optimizer)
    ema: float = 0.999
    precision: Literal["float32", "tf32", "bfloat16", "float16", "auto"] = "float32"
    deterministic: bool = False
    execution: Execution = "auto"
    evaluate_every: int = STEPS_PER_EPOCH
    snapshots: int = 0
    skip_not_finite: int = 0
    readout: Literal["outputs", "consensus"] = "outputs"
    seed: int = 0
    start: "Recipe | None" = None
    head: Head = "same"

    def __post_init__(self) -> None:
        self._check_numbers()
        self._check_parts()
        one_of("unlabeled_unit", self.unlabeled_unit, ("images", "tuples"))
        one_of("precision", self.precision, ("float32", "tf32", "bfloat16", "float16", "auto"))
        one_of("deterministic", self.deterministic, (True, False))
        one_of("execution", self.execution, get_args(Execution))
        one_of("readout", self.readout, ("outputs", "consensus"))
        one_of("head", self.head, get_args(Head))
        self._check_folds()
        if self.optimizer.warmup >= self.steps:
            raise ValueError(f"{self.optimizer.warmup} steps of warm-up do not fit a run of {self.steps} steps")
        if self.start is not None and self.start.particles != self.particles:
            raise ValueError(f"the first stage has {self.start.particles} particles, this one {self.particles}")
        if self.head != "same" and self.start is None:
            raise ValueError(f"head={self.head!r} is for a second stage: give start, the recipe of the first one")
        if self.method.needs.views and not self.tuples:
            size = self.method.needs.tuple_size
            raise ValueError(f"unlabeled_batch={self.unlabeled_batch} is less than one tuple of {size} inputs")

    def _check_numbers(self) -> None:
        """Check ranges; numbers of numpy become Python's, which every record can hold."""
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

    def _check_folds(self) -> None:
        one_of("doubt_labels", self.doubt_labels, (True, False))
        one_of("calibrate", self.calibrate, (True, False))
        if self.doubt_labels and self.folds == "off":
            raise ValueError("doubt_labels needs particles that hold labels out: set folds='auto' too")
        if isinstance(self.folds, str):
            if self.folds not in ("off", "auto"):
                raise ValueError(f"folds must be 'off', 'auto' or a whole number, got {self.folds!r}")
        else:
            object.__setattr__(self, "folds", whole_number("folds", self.folds, at_least=2))
            if self.folds > self.particles:
                raise ValueError(
                    f"{self.folds} folds need at least {self.folds} particles, one to leave out each; "
                    f"there are {self.particles}"
                )
            if not self.method.needs.labels:
                raise ValueError(f"{type(self.method).__name__} uses no labels to divide into folds: leave folds off")
        start = self.start
        if self.folds != "off" and start is not None and start.folds != self.folds and labels_since(self) is not None:
            raise ValueError(
                f"the first stage learns the same labels with folds={start.folds!r}, this one has "
                f"folds={self.folds!r}: set the same in both"
            )

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

    @property
    def tuples(self) -> int:
        """Tuples of unlabeled inputs per step; a remainder of inputs is left out."""
        size = self.method.needs.tuple_size if self.method.needs.views else 0
        if size == 0:
            return 0
        return self.unlabeled_batch if self.unlabeled_unit == "tuples" else self.unlabeled_batch // size

    def read_task(self) -> Task:
        """Read the data.

        Returns
        -------
        Task
            The data of this recipe.
        """
        task = self.task if isinstance(self.task, Task) else self.task()
        if not isinstance(task, Task):
            raise ValueError(f"task must give a refprior.data.Task, got {type(task).__name__}")
        return task

    def to_dict(self) -> Json:
        """Return everything that determines the run as plain numbers, text, lists and dictionaries.

        Returns
        -------
        dict
            The recipe; custom parts are named by module and qualified name.
        """
        parts = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "start"}
        plain = {name: to_plain(take_apart(value)) for name, value in parts.items()}
        return {**plain, "start": self.start.to_dict() if self.start is not None else None}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any], **parts: Any) -> "Recipe":
        """Read a recipe from `to_dict`.

        Parameters
        ----------
        record : mapping
            The recipe.
        **parts
            Custom parts, which a record cannot hold: ``network``, ``task``, ``method``, ``weak``, ``strong``,
            ``inputs``, ``optimizer``.

        Returns
        -------
        Recipe
            The recipe.
        """
        check_handed_in(parts)
        check_depth(record, "recipe")
        return read_recipe(record, parts, lambda name, last: None)

    def to_json(self) -> str:
        """Return `to_dict` as JSON.

        Returns
        -------
        str
            The recipe.
        """
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str, **parts: Any) -> "Recipe":
        """Read a recipe from `to_json`.

        Parameters
        ----------
        text : str
            The recipe.
        **parts
            Custom parts, as in `from_dict`.

        Returns
        -------
        Recipe
            The recipe.
        """
        try:
            record = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"not a recipe: {error}") from None
        return cls.from_dict(record, **parts)


def labels_since(recipe: Recipe) -> int | None:
    """Count the labels that a stage has and its first stage has not; None if that one learns no labels of its task."""
    if recipe.start is None or not recipe.start.method.needs.labels:
        return None
    task, answers = recipe.task, 0
    while task is not recipe.start.task and task != recipe.start.task:
        if not isinstance(task, Answered):
            return None
        answers += len(task.answers)
        task = task.task
    return answers


def check_handed_in(parts: Mapping[str, object]) -> None:
    """Raise a ValueError for parts that cannot be passed."""
    unknown = sorted(set(parts) - CUSTOM_FIELDS)
    if unknown:
        raise ValueError(f"{unknown[0]} cannot be passed; these can: {', '.join(sorted(CUSTOM_FIELDS))}")


StandIn = Callable[[str, bool], Any]  # (field, of the last stage) -> what stands for a part that is not there, or None


def read_recipe(record: object, parts: Mapping[str, Any], stand_in: StandIn, where: str = "recipe") -> Recipe:
    """Read a recipe from its record. Custom parts are passed, or placeholders stand for them."""
    if not isinstance(record, Mapping):
        raise ValueError(f"{where} must be a dictionary of settings, got {type(record).__name__}")
    checked_settings(Recipe, dict(record), where)
    last, arguments = where == "recipe", Json()
    for name, value in record.items():
        if name == "start":
            arguments[name] = None if value is None else read_recipe(value, parts, stand_in, f"{where}.start")
        elif parts.get(name) is not None and (last or is_custom(value)):  # an earlier stage has another task
            arguments[name] = parts[name]
        elif is_custom(value) and (absent := stand_in(name, last)) is not None:
            arguments[name] = absent
        else:
            arguments[name] = read_field(name, value, f"{where}.{name}")
    return Recipe(**arguments)


def custom_parts(record: Mapping[str, Any], definitions: Mapping[str, Make]) -> Json:
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


def read_field(name: str, value: object, where: str, custom: Mapping[str, Make] | None = None) -> Any:
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
