"""Identities, brute force over C^N, finite differences, saturated predictions, memory."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from refprior.information import (
    _COPIES,
    MEMORY_BUDGET,
    _tuples_at_once,
    average,
    class_surprise,
    conditional_entropy,
    divergence,
    entropy,
    joint,
    marginal_entropy,
    mixture,
    mutual_information,
    probabilities,
    sampled_marginal_entropy,
    tuples,
    uniform,
)
from tests.cli.running import Program

sizes = st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(1, 3), st.integers(1, 4), st.integers(0, 2**31))


def predictions(
    particles: int, tuples: int, order: int, classes: int, seed: int = 0, scale: float = 2.0
) -> tuple[Tensor, Tensor]:
    """Random log-probabilities (K, B, N, C) and a random prior (K,)."""
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(particles, tuples, order, classes, generator=generator, dtype=torch.float64)
    prior = torch.randn(particles, generator=generator, dtype=torch.float64)
    return logits.log_softmax(-1), prior.log_softmax(0)


def brute_force(log_p: Tensor, log_prior: Tensor) -> Tensor:
    """H(y^n | x^n) by a plain sum over labelings, in probabilities."""
    p, prior = log_p.exp(), log_prior.exp()
    particles, tuples, order, classes = p.shape
    values = []
    for b in range(tuples):
        total = 0.0
        for labels in itertools.product(range(classes), repeat=order):
            mass = sum(
                float(prior[k]) * math.prod(float(p[k, b, j, y]) for j, y in enumerate(labels))
                for k in range(particles)
            )
            total -= mass * math.log(mass) if mass > 0 else 0.0
        values.append(total)
    return torch.tensor(values, dtype=torch.float64)


def log_space(log_p: Tensor, log_prior: Tensor) -> Tensor:
    """H(y^n | x^n) without a product of probabilities: the plain alternative."""
    return entropy(mixture(joint(log_p), log_prior))


@given(sizes)
@settings(max_examples=40, deadline=None)
def test_marginal_entropy_equals_brute_force(size: tuple[int, int, int, int, int]) -> None:
    log_p, log_prior = predictions(*size)
    torch.testing.assert_close(marginal_entropy(log_p, log_prior), brute_force(log_p, log_prior))


@given(sizes)
@settings(max_examples=40, deadline=None)
def test_information_lies_between_zero_and_its_bounds(size: tuple[int, int, int, int, int]) -> None:
    log_p, log_prior = predictions(*size)
    information = mutual_information(log_p, log_prior)
    particles, _, order, classes = log_p.shape
    assert (information >= -1e-12).all()
    assert (information <= min(math.log(particles), order * math.log(classes)) + 1e-12).all()
    assert (information <= entropy(log_prior) + 1e-12).all()


@given(sizes)
@settings(max_examples=20, deadline=None)
def test_information_ignores_the_order_of_particles_and_a_relabeling(size: tuple[int, int, int, int, int]) -> None:
    log_p, log_prior = predictions(*size)
    particles = torch.randperm(log_p.shape[0])
    classes = torch.randperm(log_p.shape[-1])
    shuffled = mutual_information(log_p[particles][..., classes], log_prior[particles])
    torch.testing.assert_close(shuffled, mutual_information(log_p, log_prior))


def test_joint_enumerates_labelings_in_base_c() -> None:
    log_p, _ = predictions(2, 3, 3, 4)
    together = joint(log_p)
    assert together.shape == (2, 3, 4**3)
    for number, labels in enumerate(itertools.product(range(4), repeat=3)):
        expected = sum(log_p[:, :, j, y] for j, y in enumerate(labels))
        torch.testing.assert_close(together[..., number], expected)
    torch.testing.assert_close(together.logsumexp(-1), torch.zeros(2, 3, dtype=torch.float64))


@pytest.mark.parametrize("order", [1, 2, 3, 6])
def test_consecutive_items_are_tuples(order: int) -> None:
    log_p, _ = predictions(2, 6, 1, 4)
    flat = log_p[:, :, 0]
    grouped = tuples(flat, order)
    assert grouped.shape == (2, 6 // order, order, 4)
    for b in range(6 // order):
        assert grouped[:, b].equal(flat[:, b * order : (b + 1) * order])


def test_items_that_make_no_whole_tuples_are_rejected() -> None:
    with pytest.raises(ValueError, match="7 items do not make tuples of 2"):
        tuples(torch.zeros(3, 7, 2), 2)
    assert tuples(torch.zeros(3, 0, 2), 2).shape[1] == 0


def test_mixture_is_the_weighted_mean_of_probabilities() -> None:
    log_p, log_prior = predictions(3, 2, 1, 5)
    expected = torch.einsum("k,kbnc->bnc", log_prior.exp(), log_p.exp()).log()
    torch.testing.assert_close(mixture(log_p, log_prior), expected)


def test_average_weights_particles() -> None:
    values, log_prior = torch.tensor([[1.0, 2.0], [3.0, 6.0]]), torch.tensor([0.25, 0.75]).log()
    torch.testing.assert_close(average(values, log_prior), torch.tensor([2.5, 5.0]))


def test_identical_particles_carry_no_information() -> None:
    log_p, log_prior = predictions(1, 4, 3, 5)
    same = mutual_information(log_p.expand(6, -1, -1, -1), uniform(6, log_p))
    torch.testing.assert_close(same, torch.zeros(4, dtype=torch.float64), atol=1e-13, rtol=0)
    torch.testing.assert_close(mutual_information(log_p, log_prior), torch.zeros_like(same), atol=1e-13, rtol=0)


@pytest.mark.parametrize("order", [1, 2, 4])
def test_constant_particles_give_log_c_at_every_order(order: int) -> None:
    constant = torch.eye(3).log().reshape(3, 1, 1, 3).expand(-1, 1, order, -1)
    torch.testing.assert_close(mutual_information(constant, uniform(3, constant)), torch.tensor([math.log(3)]))


def test_all_labelings_give_n_log_c() -> None:
    labels = torch.tensor(list(itertools.product(range(3), repeat=2)))  # (9, 2)
    log_p = torch.nn.functional.one_hot(labels, 3).float().log().unsqueeze(1)
    torch.testing.assert_close(mutual_information(log_p, uniform(9, log_p)), torch.tensor([2 * math.log(3)]))


def test_two_items_tell_at_most_twice_as_much_as_one() -> None:
    """I_2 ≤ 2 I_1 for the average over all pairs of inputs: the items are independent given the weights."""
    log_p, log_prior = predictions(4, 6, 1, 3)
    pairs = torch.tensor(list(itertools.product(range(6), repeat=2)))
    both = torch.stack([log_p[:, pairs[:, 0], 0], log_p[:, pairs[:, 1], 0]], dim=2)
    assert mutual_information(both, log_prior).mean() <= 2 * mutual_information(log_p, log_prior).mean() + 1e-12


@pytest.mark.parametrize("order", [1, 2, 3])
def test_gradients_equal_finite_differences(order: int) -> None:
    logits = torch.randn(3, 2, order, 3, dtype=torch.float64, requires_grad=True)
    prior = torch.randn(3, dtype=torch.float64, requires_grad=True)

    def information(logits: Tensor, prior: Tensor) -> Tensor:
        return mutual_information(logits.log_softmax(-1), prior.log_softmax(0))

    assert torch.autograd.gradcheck(information, (logits, prior))


def test_gradient_of_the_marginal_entropy_at_order_one() -> None:
    """∂h_y/∂p = -(log p̄ + 1) / K at order 1."""
    p = torch.rand(4, 3, 1, 5, dtype=torch.float64).softmax(-1).requires_grad_()
    marginal_entropy(p.log(), uniform(4, p)).sum().backward()
    expected = -(p.detach().mean(0).log() + 1) / 4
    torch.testing.assert_close(p.grad, expected.expand(4, -1, -1, -1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_saturated_predictions_have_finite_values_and_gradients(dtype: torch.dtype) -> None:
    signs = torch.randint(0, 2, (4, 5, 2, 3), generator=torch.Generator().manual_seed(0))
    logits = (1600.0 * signs - 800).to(dtype).requires_grad_()
    information = mutual_information(logits.log_softmax(-1), uniform(4, logits))
    information.sum().backward()
    assert information.isfinite().all()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


def saturated(order: int, smallest: float) -> tuple[Tensor, Tensor]:
    """Log-probabilities near 0, -5 and `smallest`, those of some labels for all particles, and a prior of three."""
    generator = torch.Generator().manual_seed(order)
    log_p = torch.randn(3, 4, order, 4, generator=generator, dtype=torch.float64) / 10
    log_p[..., 1] -= 5
    log_p[..., 2:] += smallest
    log_p[1, :2, :, 2] = log_p[1, :2, :, 0]  # a label that only one particle thinks possible
    return log_p.log_softmax(-1), torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64).log()


@pytest.mark.parametrize("smallest", [-40.0, -60.0, -95.0, -400.0, -1e4, -math.inf])
@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_saturated_predictions_equal_the_log_space_in_double(dtype: torch.dtype, order: int, smallest: float) -> None:
    """Probabilities that underflow, alone or in a product: in float32, in both, or only as exp(-inf)."""
    log_p, log_prior = (t.to(dtype).double() for t in saturated(order, smallest))
    plain = log_p.clone().requires_grad_()
    expected = log_space(plain, log_prior)
    leaf = log_p.to(dtype).requires_grad_()
    values = marginal_entropy(leaf, log_prior.to(dtype))
    slopes = [
        torch.autograd.grad((v * v.detach()).sum(), t)[0].double() for v, t in ((values, leaf), (expected, plain))
    ]
    rounding = 20 * torch.finfo(dtype).eps
    torch.testing.assert_close(values.double(), expected, rtol=rounding, atol=rounding)
    torch.testing.assert_close(slopes[0], slopes[1], rtol=rounding, atol=rounding)
    representable = log_p > math.log(torch.finfo(dtype).tiny) + 3  # their small slopes are right too, sign and size
    torch.testing.assert_close(slopes[0][representable], slopes[1][representable], rtol=5e-4, atol=0)


def test_impossible_labels_count_as_zero() -> None:
    log_p = torch.tensor([[0.0, -math.inf], [-math.inf, 0.0]]).reshape(2, 1, 1, 2).requires_grad_()
    information = mutual_information(log_p, uniform(2, log_p))
    information.sum().backward()
    torch.testing.assert_close(information, torch.tensor([math.log(2)]))
    assert log_p.grad is not None
    assert log_p.grad.isfinite().all()


def test_bfloat16_input_is_computed_in_float32() -> None:
    log_p = predictions(3, 2, 2, 4)[0]
    half = log_p.to(torch.bfloat16)
    exact = marginal_entropy(half.float(), uniform(3, half.float()))
    assert marginal_entropy(half, uniform(3, half.float())).equal(exact)


def test_chunks_change_neither_values_nor_gradients() -> None:
    log_p, log_prior = predictions(3, 7, 3, 4)
    results = []
    one = MEMORY_BUDGET // _tuples_at_once(log_p, MEMORY_BUDGET) + 1
    for memory in (2**30, 2 * one, one // 2, one // 6):  # all tuples, two at a time, a half of one, less
        leaf = log_p.clone().requires_grad_()
        values = marginal_entropy(leaf, log_prior, memory)
        results.append((values, torch.autograd.grad(values.square().sum(), leaf)[0]))
    for other in results[1:]:
        torch.testing.assert_close(results[0], other)


def test_what_cannot_be_enumerated_is_rejected_in_words() -> None:
    log_p = torch.zeros(4, 1, 9, 10).log_softmax(-1)
    with pytest.raises(ValueError, match=r"order 9 of 10 classes has 1\.0e9 labelings, at most 1\.0e8 .* lower"):
        marginal_entropy(log_p, uniform(4, log_p))
    huge = torch.zeros(2, 1, 400, 10).log_softmax(-1)
    with pytest.raises(ValueError, match=r"1\.0e400 labelings"):
        marginal_entropy(huge, uniform(2, huge))
    with pytest.raises(ValueError, match="exceeds memory=100 bytes: increase memory"):
        marginal_entropy(log_p[:, :, :2], uniform(4, log_p), memory=100)


@pytest.mark.parametrize("name", ["float32", "bfloat16"])
def test_autocast_changes_nothing(name: str) -> None:
    log_p, log_prior = (t.float() for t in predictions(4, 3, 2, 5))
    plain = mutual_information(log_p, log_prior)
    sampled = sampled_marginal_entropy(log_p, log_prior, 4, torch.Generator().manual_seed(0))
    with torch.autocast("cpu", torch.bfloat16, enabled=name == "bfloat16"):
        assert mutual_information(log_p, log_prior).equal(plain)
        again = sampled_marginal_entropy(log_p, log_prior, 4, torch.Generator().manual_seed(0))
    assert again.equal(sampled)


def test_sampling_in_chunks_changes_nothing() -> None:
    log_p, log_prior = predictions(4, 6, 3, 5)
    results = []
    for memory in (2**30, 2 * _COPIES * 16 * 3 * 8):
        leaf = log_p.clone().requires_grad_()
        values = sampled_marginal_entropy(leaf, log_prior, 4, torch.Generator().manual_seed(0), memory)
        results.append((values, torch.autograd.grad(values.square().sum(), leaf)[0]))
    torch.testing.assert_close(results[0], results[1])
    with pytest.raises(ValueError, match=r"4 particles need .* bytes per tuple, memory is 10"):
        sampled_marginal_entropy(log_p, log_prior, 4, memory=10)


MEMORY_PROBE = """
import ctypes, torch
from refprior.information import marginal_entropy, uniform
torch.set_num_threads(1)
M_MMAP_THRESHOLD = -3  # memory that is free is not kept: it would count
assert ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 2**20) == 1
log_p = torch.randn(8, 128, 5, 10, requires_grad=True)
marginal_entropy(log_p[:, :2, :2].log_softmax(-1), uniform(8, log_p), memory=20000).sum().backward()
def peak():  # of this process alone; ru_maxrss would begin with the parent's
    return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0])
for budget in (64 * 2**20, 2**31):
    before = peak()
    marginal_entropy(log_p.log_softmax(-1), uniform(8, log_p), memory=budget).sum().backward()
    print(peak() - before)
"""


def test_memory_stays_within_the_budget() -> None:
    """Forward and backward at order 5: at once it takes more than 200 MB, in chunks no more than the budget."""
    with Program(MEMORY_PROBE) as process:
        said, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    small, large = (int(kilobytes) * 1024 for kilobytes in said.split())
    assert small < 64 * 2**20
    assert large > 200 * 2**20  # more than in chunks


def test_sampled_entropy_is_unbiased_in_value_and_gradient() -> None:
    log_p, log_prior = predictions(3, 2, 2, 3)
    logits, prior = log_p.clone().requires_grad_(), log_prior.clone().requires_grad_()
    direction = torch.tensor([1.0, -0.5], dtype=torch.float64)
    generator = torch.Generator().manual_seed(1)

    def gradients(values: Tensor) -> Tensor:
        return torch.cat([g.flatten() for g in torch.autograd.grad((values * direction).sum(), (logits, prior))])

    exact = marginal_entropy(logits.log_softmax(-1), prior.log_softmax(0))
    at_once = 20  # draws, of as many copies of the tuples; each has a slope of its own
    directions = torch.block_diag(*[direction] * at_once)
    values, slopes = [], []
    for _ in range(400 // at_once):
        copies = logits.log_softmax(-1).repeat(1, at_once, 1, 1)
        drawn = sampled_marginal_entropy(copies, prior.log_softmax(0), 20, generator)
        values.append(drawn.detach().view(at_once, -1))
        each = torch.autograd.grad(drawn, (logits, prior), directions, is_grads_batched=True)
        slopes.append(torch.cat([g.flatten(1) for g in each], 1))
    for sample, truth in ((torch.cat(values), exact.detach()), (torch.cat(slopes), gradients(exact))):
        assert len(sample) == 400
        error = (sample.mean(0) - truth) / (sample.std(0) / math.sqrt(len(sample)) + 1e-9)
        assert error.abs().max() < 4.5


def test_sampling_needs_two_samples() -> None:
    log_p, log_prior = predictions(2, 1, 1, 2)
    with pytest.raises(ValueError, match="samples must be at least 2"):
        sampled_marginal_entropy(log_p, log_prior, 1)


@given(sizes)
@settings(max_examples=20, deadline=None)
def test_surprise_less_entropy_is_the_divergence_from_independent_items(size: tuple[int, int, int, int, int]) -> None:
    log_p, log_prior = predictions(*size)
    log_q = torch.randn(size[3], dtype=torch.float64).log_softmax(0)
    found = class_surprise(log_p, log_prior, log_q) - marginal_entropy(log_p, log_prior)
    items = joint(log_q.expand(size[2], -1))  # (C^N,)
    mass = torch.einsum("k,kbl->bl", log_prior.exp(), joint(log_p).exp())
    torch.testing.assert_close(found, (mass * (mass.log() - items)).sum(-1))
    torch.testing.assert_close(divergence(mixture(joint(log_p), log_prior), items), found)


def test_divergence_and_surprise_of_impossible_labels() -> None:
    log_q = torch.tensor([0.25, 0.75]).log()
    log_p = torch.tensor([[0.0, -math.inf], [-1e4, 0.0]]).reshape(2, 1, 1, 2).requires_grad_()
    apart = divergence(log_p, log_q)
    torch.testing.assert_close(apart.flatten(), torch.tensor([math.log(4), math.log(4 / 3)]))
    surprise = class_surprise(log_p, uniform(2, log_p), log_q)
    torch.testing.assert_close(surprise, torch.tensor([(math.log(4) + math.log(4 / 3)) / 2]))
    assert torch.autograd.grad(apart.sum() + surprise.sum(), log_p)[0].isfinite().all()


def test_conditional_entropy_adds_up_the_items() -> None:
    log_p, log_prior = predictions(2, 3, 4, 5)
    expected = sum(log_prior[k].exp() * entropy(log_p[k, :, j]) for k in range(2) for j in range(4))
    torch.testing.assert_close(conditional_entropy(log_p, log_prior), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_probabilities_are_exponentials_without_those_too_small_for_the_dtype(dtype: torch.dtype) -> None:
    """To the last bit, and gradients too; what is not a number stays such."""
    log_p = -torch.logspace(-3, 4, 4001, dtype=dtype).requires_grad_()
    p, plain = probabilities(log_p), log_p.exp()
    large = plain > 4 * torch.finfo(dtype).tiny
    assert torch.equal(p, plain.where(large, 0.0))
    assert torch.equal(torch.autograd.grad(p.sum(), log_p)[0], plain.where(large, 0.0))
    assert 0 < int(large.sum()) < len(large)
    assert probabilities(torch.tensor([-math.inf, math.nan], dtype=dtype)).isnan().tolist() == [False, True]
