"""Mean Teacher: two views of an input, seen by the particles and by their moving average, should look alike."""

# K particles, b labeled inputs, n unlabeled inputs, C classes

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from refprior._checks import number
from refprior.information import average, uniform
from refprior.methods._mixmatch import squared_error
from refprior.methods._step import Loss, Needs, Step
from refprior.methods._supervised import cross_entropy
from refprior.methods._targets import ramp


@dataclass(frozen=True)
class MeanTeacher:
    """Mean Teacher (Tarvainen and Valpola 2017), any number of particles, each with its own teacher.

    The teacher is the moving average of the recipe's `ema`; its batch norm and dropout are as in training.

    >>> import refprior as rp
    >>> rp.methods.MeanTeacher().needs.view_names
    ('weak', 'weak_2')
    """

    weight: float = 50.0  # of the unlabeled inputs, once the ramp is over
    ramp: float = 0.4  # share of training over which the weight rises from 0
    needs: ClassVar[Needs] = Needs(views=("weak", "weak"))

    def __post_init__(self) -> None:
        number("weight", self.weight, at_least=0)
        number("ramp", self.ramp, at_least=0, at_most=1)

    def __call__(self, step: Step) -> Loss:
        views = step.batch.views
        with torch.no_grad():
            teacher = (step.batch_teacher or step.teacher)(views["weak"])
        labeled, student = step.predict(step.batch.labeled, views["weak_2"])
        log_prior = step.log_prior.detach()
        return mean_teacher(labeled, step.batch.labels, teacher, student, log_prior, self, progress=step.progress)


_DEFAULT = MeanTeacher()


def mean_teacher(
    labeled: Tensor,
    y: Tensor,
    teacher: Tensor,
    student: Tensor,
    log_prior: Tensor | None = None,
    settings: MeanTeacher = _DEFAULT,
    *,
    progress: float = 1.0,
) -> Loss:
    """CE(x) + weight · ramp · mean over y of (p_teacher(u₁) - p(u₂))²: (K, b, C), (b,), (K, n, C), (K, n, C), (K,).

    >>> import torch
    >>> import refprior as rp
    >>> labeled, teacher, student = (torch.randn(4, n, 10).log_softmax(-1) for n in (5, 8, 8))
    >>> sorted(rp.losses.mean_teacher(labeled, torch.arange(5), teacher, student).terms)
    ['cross_entropy', 'squared_error']
    """
    log_prior = uniform(len(labeled), labeled) if log_prior is None else log_prior
    likelihood = cross_entropy(labeled, y, log_prior).mean()
    error = average(squared_error(teacher.detach().exp(), student), log_prior).mean()
    weight = settings.weight * ramp(progress, settings.ramp)
    return Loss.of(likelihood + weight * error, cross_entropy=likelihood, squared_error=error)
