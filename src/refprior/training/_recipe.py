"""A recipe: everything that determines a run, as one frozen record."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, get_args

from torch import nn

from refprior.data import Task
from refprior.methods import Method
from refprior.training._optimiser import Optimiser
from refprior.views import View, unchanged

Head = Literal["same", "new", "probe"]
EPOCH = 1024  # weight updates, as the paper counts (appendix Setup)


@dataclass(frozen=True)
class Recipe:
    """One run: data, networks, method and optimisation. Several stages are a chain: `start` is trained first."""

    task: Callable[[], Task]
    network: Callable[[], nn.Module]
    method: Method
    particles: int = 4
    steps: int = 200 * EPOCH
    labelled: int = 64  # labelled images a step
    unlabelled: int = 448  # unlabelled images or tuples a step
    source: int = 64  # labelled images of the source task a step, where the method is a two-stage one
    unlabelled_unit: Literal["images", "tuples"] = "images"  # the paper says tuples, the authors' code cuts images
    weak: View = unchanged
    strong: View = unchanged
    optimiser: Optimiser = field(default_factory=Optimiser)
    ema: float = 0.999
    precision: Literal["float32", "bfloat16"] = "float32"
    evaluate_every: int = EPOCH
    snapshots: int = 0  # so often, after the start, the predictions of all particles are kept, denser in the beginning
    skip_not_finite: int = 0  # steps with a loss or gradient that is not finite may be skipped so often; then it stops
    readout: Literal["outputs", "consensus"] = "outputs"  # what is scored: outputs are classes, or clusters are
    seed: int = 0
    start: "Recipe | None" = None  # the stage whose weights this one begins with
    head: Head = "same"  # the output layer after such a stage: go on with it, draw a new one, or train a new one alone

    def __post_init__(self) -> None:
        smallest = dict.fromkeys(("particles", "steps", "labelled", "unlabelled", "source", "evaluate_every"), 1)
        for name, least in {**smallest, "snapshots": 0, "skip_not_finite": 0}.items():
            value = getattr(self, name)
            if not hasattr(value, "__index__") or value < least:
                raise ValueError(f"{name} must be a whole number of at least {least}, got {value}")
        if not hasattr(self.seed, "__index__") or not 0 <= self.seed < 2**32:
            raise ValueError(f"seed must be a whole number of 0 … {2**32 - 1}, got {self.seed}")
        if not callable(self.task):
            raise ValueError("task must be a function that gives a task: for one that is there, lambda: task")
        if not 0 <= self.ema < 1:
            raise ValueError(f"ema must lie in [0, 1), got {self.ema}")
        if self.unlabelled_unit not in ("images", "tuples"):
            raise ValueError(f"unlabelled_unit must be 'images' or 'tuples', got {self.unlabelled_unit!r}")
        if self.precision not in ("float32", "bfloat16"):
            raise ValueError(f"precision must be 'float32' or 'bfloat16', got {self.precision!r}")
        if self.optimiser.warmup >= self.steps:
            raise ValueError(f"{self.optimiser.warmup} steps of warm-up do not fit a run of {self.steps} steps")
        if self.start is not None and self.start.particles != self.particles:
            raise ValueError(f"the first stage has {self.start.particles} particles, this one {self.particles}")
        if self.readout not in ("outputs", "consensus"):
            raise ValueError(f"readout must be 'outputs' or 'consensus', got {self.readout!r}")
        if self.head not in get_args(Head):
            raise ValueError(f"head must be one of {', '.join(get_args(Head))}, got {self.head!r}")
        if self.head != "same" and self.start is None:
            raise ValueError(f"head={self.head!r} is for a second stage: give start, the recipe of the first one")
        if self.method.order and not self.tuples:
            raise ValueError(f"order {self.method.order} does not fit {self.unlabelled} unlabelled images a step")

    @property
    def tuples(self) -> int:
        """Tuples of `method.order` unlabelled images a step; a remainder of images is left out."""
        order = self.method.order
        if order == 0:
            return 0
        return self.unlabelled if self.unlabelled_unit == "tuples" else self.unlabelled // order
