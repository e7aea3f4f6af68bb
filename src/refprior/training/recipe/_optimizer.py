"""Learning rates, parameter groups and the moving average of the weights (appendix Setup)."""

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache, partial
from itertools import groupby
from typing import Literal, cast

import torch
from torch import Tensor, nn

from refprior._checks import number, one_of, whole_number
from refprior.particles import Particles

_NORMS = (nn.modules.batchnorm._BatchNorm, nn.GroupNorm, nn.LayerNorm)
_LANES = 16  # numbers in the longest vector of a CPU
_LEAST = 1e-6  # weight of a particle below which its gradient may be rounding


MakeOptimizer = Callable[[list[Tensor]], torch.optim.Optimizer]
_KINDS = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
_UNUSED = ("learning_rate", "decay", "momentum", "decay_biases")  # settings that a custom kind has itself


@dataclass(frozen=True, kw_only=True)
class Optimizer:
    """SGD with Nesterov momentum as in the paper, Adam, AdamW, or a custom optimizer, with a learning-rate schedule.

    The objective averages over the K particles, so the gradient of each particle is 1/K of that of its own loss. SGD's
    learning rate is therefore multiplied by K and the weight decay divided by K: a particle learns as it would alone.
    If the particles have unequal weights π_k, the gradient of each is divided by K π_k first. Adam does not depend on
    the scale of the gradient: its learning rate and a decoupled decay stay as they are.

    Parameters
    ----------
    kind : {"sgd", "adam", "adamw"} or function, default: "sgd"
        A function receives the list of parameters, each stacked over the particles, and returns a
        ``torch.optim.Optimizer``: ``lambda params: torch.optim.RMSprop(params, lr=1e-3)``. It sees gradients at the
        scale 1/K, sets its learning rates and decay itself, and must not need a closure. An optimizer that computes
        norms or factors of whole tensors mixes the particles. The schedule multiplies the learning rates of all of its
        parameter groups. Its tensors and numbers are part of every checkpoint.
        ``Recipe(optimizer=function)`` is short for ``Optimizer(kind=function, schedule="constant")``.
    learning_rate : float, default: 0.03
        Learning rate before the schedule.
    decay : float, default: 5e-4
        Weight decay of all weights except those of normalization layers.
    momentum : float, default: 0.9
        Momentum of SGD.
    schedule : {"constant", "cosine", "seven_sixteenths"}, default: "cosine"
        Factor of the learning rate over the steps of the run; ``"seven_sixteenths"`` is FixMatch's cos(7πt / 16T).
    warmup : int, default: 0
        Steps of linear warm-up: step t = 0, 1, … has (t + 1) / warmup of the learning rate.
    warmup_from_zero : bool, default: False
        Use t / warmup instead, so that the first step changes nothing.
    decay_biases : bool, default: True
        Decay the biases of linear layers and convolutions too.

    Examples
    --------
    >>> import refprior as rp
    >>> rp.Optimizer(learning_rate=0.06).factor(step=300, steps=600)  # halfway down a cosine
    0.5
    """

    kind: Literal["sgd", "adam", "adamw"] | MakeOptimizer = "sgd"
    learning_rate: float = 0.03
    decay: float = 5e-4
    momentum: float = 0.9
    schedule: Literal["constant", "cosine", "seven_sixteenths"] = "cosine"
    warmup: int = 0
    warmup_from_zero: bool = False
    decay_biases: bool = True

    def __post_init__(self) -> None:
        if not callable(self.kind):
            one_of("kind", self.kind, tuple(_KINDS))
        one_of("schedule", self.schedule, ("constant", "cosine", "seven_sixteenths"))
        number("learning_rate", self.learning_rate, above=0)
        number("decay", self.decay, at_least=0, at_most=1e6)  # torch rejects numbers beyond single precision
        number("momentum", self.momentum, at_least=0, below=1)
        whole_number("warmup", self.warmup, at_least=0)
        one_of("warmup_from_zero", self.warmup_from_zero, (True, False))
        one_of("decay_biases", self.decay_biases, (True, False))
        defaults = {f.name: f.default for f in fields(self)}
        changed = [name for name in _UNUSED if getattr(self, name) != defaults[name]]
        if callable(self.kind) and changed:
            raise ValueError(f"{changed[0]} has no effect on a custom optimizer: set it in the function")

    @property
    def sees_scale(self) -> bool:
        """Whether steps depend on the scale of the gradient: not those of Adam without a decay added to it."""
        return not (self.kind == "adamw" or (self.kind == "adam" and self.decay == 0))

    def build(self, particles: Particles) -> torch.optim.Optimizer:
        """Build the optimizer of all particles at once.

        Parameters
        ----------
        particles : Particles
            The particles whose parameters it updates.

        Returns
        -------
        torch.optim.Optimizer
            The optimizer; ``initial_lr`` of each parameter group is its learning rate before the schedule.

        Raises
        ------
        ValueError
            If a custom function returns something else, or an optimizer without learning rates.
        """
        if callable(self.kind):
            built = self.kind([p for p in particles.parameters() if p.requires_grad])
            if not isinstance(built, torch.optim.Optimizer):
                raise ValueError(f"optimizer must return a torch.optim.Optimizer, got a {type(built).__name__}")
            if any("lr" not in group for group in built.param_groups):
                raise ValueError(f"{type(built).__name__} has a parameter group without a learning rate, 'lr'")
        else:
            decay = self.decay if self.kind == "adamw" else self.decay / particles.count
            # Fused where possible: one pass over memory is much faster for large stacks.
            groups = [
                {**group, "params": list(parameters), "fused": fused}
                for group in parameter_groups(particles, decay, biases=self.decay_biases)
                for fused, parameters in groupby(cast(list[Tensor], group["params"]), partial(_is_fused, particles))
            ]
            make = partial(_without_compiler(_KINDS[self.kind]), groups, foreach=False)
            if self.kind == "sgd":
                rate = self.learning_rate * particles.count
                built = make(lr=rate, momentum=self.momentum, nesterov=self.momentum > 0)
            else:
                built = make(lr=self.learning_rate)
        for group in built.param_groups:
            group["initial_lr"] = group["lr"]
        return built

    def factor(self, step: int, steps: int) -> float:
        """Return the factor of the learning rate at a step.

        Parameters
        ----------
        step : int
            The step, from 0.
        steps : int
            Steps of the run.

        Returns
        -------
        float
            The factor of warm-up and schedule.
        """
        if step < self.warmup:
            return (step + (not self.warmup_from_zero)) / self.warmup
        progress = (step - self.warmup) / max(1, steps - self.warmup)
        if self.schedule == "cosine":
            return 0.5 * (1 + math.cos(math.pi * progress))
        if self.schedule == "seven_sixteenths":
            return math.cos(7 / 16 * math.pi * progress)
        return 1.0

    def set_rate(self, optimizer: torch.optim.Optimizer, step: int, steps: int) -> float:
        """Set the learning rates of a step.

        Parameters
        ----------
        optimizer : torch.optim.Optimizer
            An optimizer from `build`.
        step : int
            The step, from 0.
        steps : int
            Steps of the run.

        Returns
        -------
        float
            The learning rate of the first parameter group.
        """
        factor = self.factor(step, steps)
        for group in optimizer.param_groups:
            rate = float(group["initial_lr"]) * factor
            # Torch rejects numbers beyond single precision; infinite weights are found and reported.
            group["lr"] = rate if rate <= torch.finfo(torch.float32).max else math.inf
        return float(optimizer.param_groups[0]["lr"])


@cache
def _without_compiler(kind: type[torch.optim.Optimizer]) -> Callable[..., torch.optim.Optimizer]:
    """Return the optimizer without its hooks for `torch.compile`, which import the compiler: seconds per process."""
    names = ("add_param_group", "state_dict", "load_state_dict", "zero_grad")
    plain = {name: inspect.unwrap(getattr(kind, name)) for name in names}
    return type(kind.__name__, (kind,), {**plain, "step": torch.no_grad()(inspect.unwrap(kind.step))})


def is_custom_optimizer(optimizer: torch.optim.Optimizer) -> bool:
    """Return whether an optimizer was made by a custom function."""
    return type(optimizer) not in [_without_compiler(kind) for kind in _KINDS.values()]


def _is_fused(particles: Particles, parameter: Tensor) -> bool:
    """Return whether to update a parameter in one pass: if torch can, and if a particle fills whole vectors.

    The rest at the end of a tensor is rounded differently, and where it ends depends on how many particles a rank has:
    they would differ in their last bits. The prior's weights are the same on all ranks.
    """
    whole = parameter is particles.prior_logits or (parameter.dim() > 1 and parameter[0].numel() % _LANES == 0)
    return whole and parameter.device.type in ("cpu", "cuda", "mps")


def parameter_groups(particles: Particles, decay: float, biases: bool = True) -> list[dict[str, object]]:
    """Return the parameters with decay (weights, and biases if wanted) and without (normalization, the prior)."""
    norms = {id(p) for m in particles.modules() if isinstance(m, _NORMS) for p in m.parameters(recurse=False)}
    added = {id(p) for name, p in particles.named_parameters() if name.endswith("bias") and not biases}
    free = norms | added | {id(particles.prior_logits)}
    learning = [p for p in particles.parameters() if p.requires_grad]
    return [
        {"params": [p for p in learning if id(p) not in free], "weight_decay": decay},
        {"params": [p for p in learning if id(p) in free], "weight_decay": 0.0},
    ]


@torch.no_grad()
def equalize(particles: Particles, weights: Tensor) -> None:
    """Divide the gradient of each particle by K π_k, for the scale of equal weights; weights: π, (K,).

    A loss Σ_k π_k ℓ(w_k) has the gradient π_k ∇ℓ(w_k): a particle of small weight would learn slowly. Steps along
    ∇ℓ(w_k) are the gradient flow of the prior's atoms, whatever their weights. Equal weights change nothing.
    """
    if weights.shape != (particles.count,):
        raise ValueError(f"expected one weight for each of {particles.count} particles, got {tuple(weights.shape)}")
    equal = (weights == weights[0]).all()
    if weights.is_meta or (weights.is_cpu and bool(equal)):  # a tensor without memory has no values
        return
    own = weights[particles.mesh.block(particles.count)]
    factor = torch.where(equal, torch.ones_like(own), 1 / (particles.count * own.clamp(min=_LEAST)))
    for gradient in (p.grad for p in particles.network.parameters() if p.grad is not None):
        gradient.mul_(factor.to(gradient).reshape(-1, *[1] * (gradient.dim() - 1)))


@torch.no_grad()
def update_average(teacher: nn.Module, student: nn.Module, decay: float) -> None:
    """Set teacher ← decay · teacher + (1 - decay) · student; buffers (batch norm's statistics) are copied."""
    for mean, weight in zip(teacher.parameters(), student.parameters(), strict=True):
        mean.lerp_(weight, 1 - decay)
    for copy, statistic in zip(teacher.buffers(), student.buffers(), strict=True):
        copy.copy_(statistic)
