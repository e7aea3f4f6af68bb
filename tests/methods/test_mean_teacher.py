"""Mean Teacher against a plain loop; which view the teacher sees, and that it gives no gradient."""

import pytest
import torch
from torch import Tensor

from refprior.methods import MeanTeacher
from tests.methods.tables import UNLABELED, C, K, Table, assert_same, each_input, kinds, plain_cross_entropy, seeds


def plain(student: Table, teacher: Table, weight: float) -> Tensor:
    """CE + w · mean over inputs and classes of (p_EMA(u₁) - p(u₂))²."""
    first, second = teacher.part("weak").detach().exp(), student.part("weak_2").exp()
    total = plain_cross_entropy(student)
    for k, i in each_input(first):
        for c in range(C):
            total = total + weight * (first[k, i, c] - second[k, i, c]) ** 2 / (K * UNLABELED * C)
    return total


@kinds
@seeds
def test_the_loss_equals_a_loop(kind: str, seed: int) -> None:
    method = MeanTeacher()
    student, teacher = Table(method, kind, seed), Table(method, kind, seed + 100)
    for progress, weight in ((0.0, 0.0), (0.1, 12.5), (0.4, 50.0), (1.0, 50.0)):
        loss = method(student.step(batch_teacher=teacher, progress=progress))
        assert_same(loss, plain(student, teacher, weight), student)
    assert torch.autograd.grad(loss.total, teacher.logits, allow_unused=True)[0] is None
    assert loss.total > loss.terms["cross_entropy"] + 0.1


def test_without_statistics_of_batches_the_plain_teacher_is_asked() -> None:
    method = MeanTeacher(weight=3.0, ramp=0.0)
    student, teacher = Table(method), Table(method, seed=100)
    assert_same(method(student.step(teacher=teacher)), plain(student, teacher, 3.0), student)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"weight": -1.0}, r"weight must be at least 0, got -1\.0"),
        ({"ramp": 1.5}, r"ramp must be .*at most 1, got 1\.5"),
    ],
)
def test_bad_settings_are_rejected(fields: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MeanTeacher(**fields)
