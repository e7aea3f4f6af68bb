"""Learning rates, parameter groups and the moving average of the weights (appendix Setup)."""

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from itertools import groupby
from typing import Literal, cast

import torch
from torch import Tensor, nn

from refprior._checks import number, one_of, whole_number
from refprior.particles import Particles

_NORMS = (nn.modules.batchnorm._BatchNorm, nn.GroupNorm, nn.LayerNorm)
_LANES = 16  # numbers in the longest vector of a CPU
_LEAST = 1e-6  # weight of a particle below which what is left of its gradient may be rounding


@dataclass(frozen=True, kw_only=True)
class Optimizer:
    """SGD with Nesterov momentum as in the paper, Adam, or Adam with decoupled decay (AdamW).

    The objective averages over the K particles, so the gradient of each is 1/K of its own: SGD's learning rate is
    multiplied by K and the weight decay divided by K. A particle then learns as it would alone. So it does where
    particles have weights π_k of their own: its gradient is divided by K π_k first. Adam does not depend on the scale
    of the gradient: its learning rate stays, and so does a decoupled decay.

    warmup: the rate of step t = 0, 1, … is (t + 1) / warmup of the full one, or t / warmup with `warmup_from_zero`.

    >>> import refprior as rp
    >>> rp.Optimizer(learning_rate=0.06).factor(step=300, steps=600)  # halfway down a cosine
    0.5
    """

    kind: Literal["sgd", "adam", "adamw"] = "sgd"
    learning_rate: float = 0.03
    decay: float = 5e-4
    momentum: float = 0.9
    schedule: Literal["constant", "cosine", "seven_sixteenths"] = "cosine"
    warmup: int = 0  # steps of linear warm-up
    warmup_from_zero: bool = False  # its first step has a rate of 0 and changes nothing
    decay_biases: bool = True  # those of linear layers and convolutions too

    def __post_init__(self) -> None:
        one_of("kind", self.kind, ("sgd", "adam", "adamw"))
        one_of("schedule", self.schedule, ("constant", "cosine", "seven_sixteenths"))
        number("learning_rate", self.learning_rate, above=0)
        number("decay", self.decay, at_least=0)
        number("momentum", self.momentum, at_least=0, below=1)
        whole_number("warmup", self.warmup, at_least=0)
        one_of("warmup_from_zero", self.warmup_from_zero, (True, False))
        one_of("decay_biases", self.decay_biases, (True, False))

    @property
    def sees_scale(self) -> bool:
        """Whether steps depend on the scale of the gradient: SGD's do, and Adam's where a decay is added to it."""
        return self.kind == "sgd" or (self.kind == "adam" and self.decay > 0)

    def build(self, particles: Particles) -> torch.optim.Optimizer:
        """The optimizer of all particles at once. Fused: one pass over memory, many times faster for large stacks."""
        decay = self.decay if self.kind == "adamw" else self.decay / particles.count
        groups = [
            {**group, "params": list(parameters), "fused": fused}
            for group in parameter_groups(particles, decay, biases=self.decay_biases)
            for fused, parameters in groupby(cast(list[Tensor], group["params"]), partial(_is_fused, particles))
        ]
        if self.kind != "sgd":
            make = _without_compiler(torch.optim.Adam if self.kind == "adam" else torch.optim.AdamW)
            return make(groups, lr=self.learning_rate, foreach=False)
        rate, make = self.learning_rate * particles.count, _without_compiler(torch.optim.SGD)
        return make(groups, lr=rate, momentum=self.momentum, nesterov=self.momentum > 0, foreach=False)

    def factor(self, step: int, steps: int) -> float:
        """What the learning rate is multiplied by at `step` of `steps`."""
        if step < self.warmup:
            return (step + (not self.warmup_from_zero)) / self.warmup
        progress = (step - self.warmup) / max(1, steps - self.warmup)
        if self.schedule == "cosine":
            return 0.5 * (1 + math.cos(math.pi * progress))
        if self.schedule == "seven_sixteenths":
            return math.cos(7 / 16 * math.pi * progress)
        return 1.0

    def set_rate(self, optimizer: torch.optim.Optimizer, step: int, steps: int) -> float:
        """Give the optimizer the learning rate of this step, and return it."""
        rate = optimizer.defaults["lr"] * self.factor(step, steps)
        if rate > torch.finfo(torch.float32).max:  # which torch refuses; infinite weights are noticed and said
            rate = math.inf
        for group in optimizer.param_groups:
            group["lr"] = rate
        return float(rate)


@cache
def _without_compiler(kind: type[torch.optim.Optimizer]) -> Callable[..., torch.optim.Optimizer]:
    """The same optimizer, not prepared for `torch.compile`: preparing it imports the compiler, seconds per process."""
    names = ("add_param_group", "state_dict", "load_state_dict", "zero_grad")
    plain = {name: inspect.unwrap(getattr(kind, name)) for name in names}
    return type(kind.__name__, (kind,), {**plain, "step": torch.no_grad()(inspect.unwrap(kind.step))})


def _is_fused(particles: Particles, parameter: Tensor) -> bool:
    """Whether one pass over memory updates a parameter: where torch has it, and where a particle fills whole vectors.

    What is left over at the end of a tensor is rounded otherwise, and where it ends depends on how many particles a
    rank has: they would differ in their last bits. The prior's weights are the same on all ranks.
    """
    whole = parameter is particles.prior_logits or (parameter.dim() > 1 and parameter[0].numel() % _LANES == 0)
    return whole and parameter.device.type in ("cpu", "cuda", "mps")


def parameter_groups(particles: Particles, decay: float, biases: bool = True) -> list[dict[str, object]]:
    """Weights that learn are decayed, and biases if wanted; normalization layers and the prior's weights are not."""
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
    """Divide the gradient of each particle by K π_k: all then have the scale that equal weights give. weights: π, (K,).

    A loss Σ_k π_k ℓ(w_k) has the gradient π_k ∇ℓ(w_k): a particle would be the slower the less it counts. Steps along
    ∇ℓ(w_k) are the gradient flow of the prior's atoms, whatever they weigh. If all are equal, nothing is changed.
    """
    if weights.shape != (particles.count,):
        raise ValueError(f"weights of {tuple(weights.shape)} in the loss: {particles.count} particles have one each")
    if weights.is_meta or bool((weights == weights[0]).all()):  # a tensor without memory has no values
        return
    factor = 1 / (particles.count * weights[particles.mesh.block(particles.count)].clamp(min=_LEAST))
    for gradient in (p.grad for p in particles.network.parameters() if p.grad is not None):
        gradient.mul_(factor.to(gradient).reshape(-1, *[1] * (gradient.dim() - 1)))


@torch.no_grad()
def update_average(teacher: nn.Module, student: nn.Module, decay: float) -> None:
    """teacher ← decay · teacher + (1 - decay) · student; buffers (batch norm's statistics) are copied."""
    for mean, weight in zip(teacher.parameters(), student.parameters(), strict=True):
        mean.lerp_(weight, 1 - decay)
    for copy, statistic in zip(teacher.buffers(), student.buffers(), strict=True):
        copy.copy_(statistic)
