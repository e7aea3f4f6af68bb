"""The objective against independent plain versions, both presets, every option that changes a number."""

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from refprior.information import mutual_information, tuples, uniform
from refprior.methods import Batch, ReferencePrior, Step
from refprior.methods._reference_prior import (
    conditional_term,
    confident,
    jensen_entropy,
    marginal_term,
    marginal_view,
    mixture_of_views,
    view_entropy,
)

K, LABELED, TUPLES, ORDER, C = 3, 4, 5, 2, 3


class Logits:
    """A model that looks its logits up: input i is row i. Gradients with respect to the logits are visible."""

    def __init__(self, seed: int = 0, scale: float = 2.0, order: int = ORDER) -> None:
        self.order = order
        rows = LABELED + 2 * TUPLES * order
        generator = torch.Generator().manual_seed(seed)
        logits = scale * torch.randn(K, rows, C, generator=generator, dtype=torch.float64)
        self.logits = logits.requires_grad_()
        self.prior = torch.randn(K, generator=generator, dtype=torch.float64).requires_grad_()

    def step(self, uniform_prior: bool = True) -> Step:
        rows = torch.arange(self.logits.shape[1], dtype=torch.float64).unsqueeze(1)
        weak, strong = rows[LABELED:].chunk(2)
        views = {"weak": weak, "strong": strong}
        batch = Batch(labeled=rows[:LABELED], labels=torch.tensor([0, 2, 1, 1]), views=views)
        log_prior = uniform(K, self.logits) if uniform_prior else self.prior.log_softmax(0)
        return Step(batch=batch, student=self, teacher=self, log_prior=log_prior)

    def __call__(self, x: Tensor) -> Tensor:
        return self.logits.log_softmax(-1)[:, x.squeeze(-1).long()]


def loss_and_gradients(method: ReferencePrior, model: Logits) -> tuple[Tensor, Tensor]:
    loss = method(model.step()).total
    return loss, torch.autograd.grad(loss, model.logits)[0]


def parts(model: Logits) -> tuple[Tensor, Tensor, Tensor]:
    """Probabilities of the labeled images (K, b, C), weak and strong tuples (K, B, N, C), with gradient."""
    p = model.logits.softmax(-1)
    weak, strong = p[:, LABELED:].reshape(K, 2, TUPLES, model.order, C).unbind(1)
    return p[:, :LABELED], weak, strong


def plain_paper(
    model: Logits,
    tau: float = 1 / 3,
    alpha: float = 0.1,
    gamma: float | None = None,
    jensen: bool = True,
    stop_gradient: bool = True,
) -> Tensor:
    """The pseudo-code box, line by line, in probabilities, with its tricks as switches."""
    labeled, weak, strong = parts(model)
    weak = weak.detach() if stop_gradient else weak
    f = tau * weak + (1 - tau) * strong
    f_log = tau * weak.log() + (1 - tau) * strong.log() if jensen else f.log()
    h_yw = torch.zeros((), dtype=torch.float64)
    h_y = torch.zeros((), dtype=torch.float64)
    for i in range(TUPLES):
        for k in range(K):
            for j in range(model.order):
                h_yw = h_yw - (f[k, i, j] * f_log[k, i, j]).sum() / (TUPLES * K)
        for labels in itertools.product(range(C), repeat=model.order):
            mass = sum(math_product([f[k, i, j, y] for j, y in enumerate(labels)]) for k in range(K)) / K
            h_y = h_y - mass * torch.log(torch.as_tensor(mass)) / TUPLES
    y = [0, 2, 1, 1]
    l_x = -sum(labeled[k, i, y[i]].log() for i in range(LABELED) for k in range(K)) / (LABELED * K)
    return torch.as_tensor(l_x - (1 / (1 - tau**2) if gamma is None else gamma) * (alpha * h_y - h_yw))


def plain_authors(model: Logits) -> Tensor:
    """What the released run computes, from the table of differences: blocks of images, weak views in h_y with
    gradient, both entropies per item, a mask per sample and particle that leaves zeros in the mean."""
    tau, alpha = 0.333, 0.05
    labeled, weak, strong = parts(model)
    frozen = weak.detach()
    f = tau * frozen + (1 - tau) * strong
    f_log = tau * frozen.log() + (1 - tau) * strong.log()
    items = -(f * f_log).sum(-1)  # (K, B, N)
    mask = (frozen.max(-1).values >= 0.95).double()
    h_yw = (items * mask).mean()
    first, second = weak[:, :, 0], weak[:, :, 1]
    pair = torch.einsum("kbi,kbj->bij", first, second) / K
    h_y = -(pair * pair.log()).sum((1, 2)).mean() / 2
    nll = torch.stack([-labeled[:, i, y].log().mean() for i, y in enumerate([0, 2, 1, 1])]).mean()
    return nll + (h_yw - alpha * h_y) / (1 - tau**2)


def math_product(factors: list[Tensor]) -> Tensor:
    product = factors[0]
    for factor in factors[1:]:
        product = product * factor
    return product


SATURATED = (
    ReferencePrior.paper(),
    ReferencePrior.authors_code(),
    ReferencePrior(jensen=False),
    ReferencePrior(class_prior=(8, 1, 1), balance=1),
)


@pytest.mark.parametrize("seed", range(3))
def test_paper_preset_equals_the_pseudo_code(seed: int) -> None:
    model = Logits(seed)
    expected = plain_paper(model)
    loss, gradient = loss_and_gradients(ReferencePrior.paper(), model)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(gradient, torch.autograd.grad(expected, model.logits)[0])


@pytest.mark.parametrize(
    "option", [{"alpha": 0.7}, {"tau": 0.6}, {"gamma": 0.5}, {"jensen": False}, {"stop_gradient": False}], ids=str
)
def test_each_trick_equals_the_pseudo_code_with_it(option: dict[str, Any]) -> None:
    model = Logits(7)
    expected = plain_paper(model, **option)
    loss, gradient = loss_and_gradients(ReferencePrior(**option), model)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(gradient, torch.autograd.grad(expected, model.logits)[0])


def test_impossible_labels_have_finite_losses_and_gradients() -> None:
    model = Logits()
    logits = model.logits.detach().clone()
    logits[..., 2] = -math.inf
    logits[:, 1, 2] = 0.0  # the label of the second image
    model.logits = logits.requires_grad_()
    for method in SATURATED:
        loss, gradient = loss_and_gradients(method, model)
        assert loss.isfinite()
        assert gradient.isfinite().all()


@pytest.mark.parametrize("seed", range(3))
def test_authors_preset_equals_the_released_run(seed: int) -> None:
    model = Logits(seed, scale=6.0)  # some predictions above the threshold, some below
    mask = (parts(model)[1].max(-1).values >= 0.95).double().mean()
    assert 0.2 < mask < 0.9
    expected = plain_authors(model)
    loss, gradient = loss_and_gradients(ReferencePrior.authors_code(), model)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(gradient, torch.autograd.grad(expected, model.logits)[0])


@pytest.mark.parametrize("order", [1, 3])
def test_other_orders_equal_the_pseudo_code(order: int) -> None:
    model = Logits(order=order)
    torch.testing.assert_close(ReferencePrior(order=order)(model.step()).total, plain_paper(model))


OPTIONS: list[dict[str, Any]] = [
    {"alpha": 0.05},
    {"tau": 0.5},
    {"gamma": 0.5},
    {"jensen": False},
    {"stop_gradient": False},
    {"threshold": 0.6},
    {"marginal_views": "weak", "marginal_gradient": True},
    {"marginal_gradient": True},
    {"per_item": True},
    {"class_prior": (0.5, 0.3, 0.2)},
    {"balance": 0.5},
    {"particle_balance": 0.5},
]


@pytest.mark.parametrize("option", OPTIONS, ids=str)
def test_every_option_changes_the_gradient(option: dict[str, Any]) -> None:
    model = Logits()
    base = loss_and_gradients(ReferencePrior(), model)[1]
    assert not torch.allclose(base, loss_and_gradients(replace(ReferencePrior(), **option), model)[1])


def test_gamma_defaults_to_the_normalization_of_the_appendix() -> None:
    assert ReferencePrior().information_weight == pytest.approx(9 / 8)
    assert ReferencePrior(gamma=0.5).information_weight == 0.5


def test_per_item_divides_both_entropies_by_the_order() -> None:
    model = Logits()
    whole, item = (ReferencePrior(per_item=flag)(model.step()).terms for flag in (False, True))
    torch.testing.assert_close(whole["marginal_entropy"], 2 * item["marginal_entropy"])
    torch.testing.assert_close(whole["conditional_entropy"], 2 * item["conditional_entropy"])


def test_stop_gradient_leaves_the_weak_views_alone() -> None:
    model = Logits()
    weak = slice(LABELED, LABELED + TUPLES * ORDER)
    assert loss_and_gradients(ReferencePrior(), model)[1][:, weak].abs().max() == 0
    assert loss_and_gradients(ReferencePrior(stop_gradient=False), model)[1][:, weak].abs().max() > 0
    marginal = ReferencePrior(marginal_gradient=True)
    torch.testing.assert_close(
        loss_and_gradients(marginal, model)[1][:, weak],
        -marginal.information_weight
        * marginal.alpha
        * torch.autograd.grad(marginal(model.step()).total * 0 + h_y(marginal, model), model.logits)[0][:, weak],
    )


def h_y(method: ReferencePrior, model: Logits) -> Tensor:
    step = model.step()
    weak, strong = (tuples(p, model.order) for p in step.predict(*step.batch.views.values()))
    return marginal_term(marginal_view(weak, strong, method), step.log_prior, method).mean()


def test_masked_entries_stay_in_the_mean_as_zeros() -> None:
    weak = torch.tensor([[0.97, 0.03], [0.6, 0.4]], dtype=torch.float64).log().reshape(1, 2, 1, 2)
    method = ReferencePrior(order=1, threshold=0.95)
    values = conditional_term(weak, weak, uniform(1, weak), method)
    torch.testing.assert_close(values[1], torch.zeros((), dtype=torch.float64))
    assert values[0] > 0
    assert confident(weak, 0.97 - 1e-9).flatten().tolist() == [1.0, 0.0]


@given(st.integers(0, 2**31), st.floats(0, 1), st.integers(2, 6))
@settings(max_examples=50, deadline=None)
def test_the_jensen_bound_is_never_below_the_entropy(seed: int, tau: float, classes: int) -> None:
    logits = 4 * torch.randn(2, 7, classes, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    weak, strong = logits.log_softmax(-1)
    assert (jensen_entropy(weak, strong, tau) >= view_entropy(weak, strong, tau) - 1e-12).all()
    torch.testing.assert_close(jensen_entropy(weak, weak, tau), view_entropy(weak, weak, tau))


def test_with_tau_a_third_entropy_and_cross_entropies_have_equal_weight() -> None:
    weak, strong = torch.randn(2, 5, 3, dtype=torch.float64).log_softmax(-1)
    strong.requires_grad_()

    def cross(p: Tensor, q: Tensor) -> Tensor:
        return -(p.exp() * q).sum(-1)

    terms = [cross(weak, weak), cross(strong, weak), cross(weak, strong), cross(strong, strong)]
    weights = [1 / 9, 2 / 9, 2 / 9, 4 / 9]
    bound = jensen_entropy(weak, strong, 1 / 3)
    torch.testing.assert_close(bound, sum((w * h for w, h in zip(weights, terms, strict=True)), torch.zeros(5)))
    assert weights[3] == weights[1] + weights[2]
    assert ReferencePrior().information_weight == pytest.approx(1 / sum(weights[1:]))
    seen = sum((w * h for w, h in zip(weights[1:], terms[1:], strict=True)), torch.zeros(5)).sum()
    gradients = [torch.autograd.grad(value, strong, retain_graph=True)[0] for value in (bound.sum(), seen)]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize(("tau", "expected"), [(0.0, "strong"), (1.0, "weak")])
def test_the_ends_of_tau_are_single_views(tau: float, expected: str) -> None:
    weak, strong = torch.randn(2, 4, 3).log_softmax(-1)
    weak.requires_grad_()
    strong.requires_grad_()
    mixed = mixture_of_views(weak, strong, tau)
    mixed.sum().backward()
    torch.testing.assert_close(mixed, {"weak": weak, "strong": strong}[expected])
    assert weak.grad is not None
    assert weak.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_saturated_predictions_have_finite_gradients(dtype: torch.dtype) -> None:
    model = Logits()
    signs = torch.randint(0, 2, model.logits.shape, generator=torch.Generator().manual_seed(0))
    model.logits = (1600.0 * signs - 800).to(dtype).requires_grad_()
    for method in SATURATED:
        loss, gradient = loss_and_gradients(method, model)
        assert loss.isfinite()
        assert gradient.isfinite().all()


def test_the_prior_learns_only_if_asked_to() -> None:
    model = Logits()
    for trainable in (False, True):
        loss = ReferencePrior(trainable_prior=trainable)(model.step(uniform_prior=False)).total
        (gradient,) = torch.autograd.grad(loss, model.prior, allow_unused=True)
        assert (gradient is not None) is trainable
    assert gradient is not None
    assert gradient.abs().max() > 1e-3


def test_a_sampled_marginal_is_close_to_the_exact_one() -> None:
    model = Logits()
    exact = ReferencePrior()(model.step()).terms["marginal_entropy"]
    sampled = ReferencePrior(samples=4000)(model.step()).terms["marginal_entropy"]
    assert sampled.item() == pytest.approx(exact.item(), rel=0.02)
    assert sampled.item() != exact.item()


def test_alpha_one_and_no_views_is_the_negative_information() -> None:
    """With one view, α = γ = 1 and no tricks, the unlabeled part of the loss is -I(w; y^n), eq:ref_ssl."""
    model = Logits()
    step = model.step()
    method = ReferencePrior(alpha=1, gamma=1, tau=0, jensen=False, stop_gradient=False)
    labeled, strong = step.predict(step.batch.labeled, step.batch.views["strong"])
    information = mutual_information(tuples(strong, ORDER), step.log_prior).mean()
    loss = method(step)
    torch.testing.assert_close(loss.total, loss.terms["cross_entropy"] - information)
    assert labeled.shape == (K, LABELED, C)


@pytest.mark.parametrize("per_item", [False, True])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_equal_shares_are_the_entropy(order: int, per_item: bool) -> None:
    model = Logits(order=order)
    plain = ReferencePrior(order=order, per_item=per_item)
    expected, slopes = loss_and_gradients(plain, model)
    loss, gradient = loss_and_gradients(replace(plain, class_prior=(7, 7, 7)), model)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(gradient, slopes)


def test_a_class_prior_is_the_divergence_of_all_labelings() -> None:
    """N log C - KL(p(y^n) ‖ q^n), labeling by labeling, for shares and for counts in the same proportion."""
    model, q = Logits(), torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    _, weak, strong = parts(model)
    f = weak.detach() / 3 + strong * 2 / 3
    expected = torch.full((), 2 * math.log(3), dtype=torch.float64)
    for i, a, b in itertools.product(range(TUPLES), range(C), range(C)):
        mass = (f[:, i, 0, a] * f[:, i, 1, b]).mean()
        expected = expected - mass * (mass.log() - q[a].log() - q[b].log()) / TUPLES
    (slopes,) = torch.autograd.grad(expected, model.logits)
    for shares in ((0.5, 0.3, 0.2), (50, 30, 20)):
        found = h_y(ReferencePrior(class_prior=shares), model)
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(torch.autograd.grad(found, model.logits)[0], slopes)


def test_h_y_is_largest_at_the_class_prior() -> None:
    shares = (0.7, 0.2, 0.1)
    at = torch.tensor(shares, dtype=torch.float64).log().expand(2, 1, 2, 3).clone().requires_grad_()
    method, prior = ReferencePrior(class_prior=shares), uniform(2, at)
    value = marginal_term(at.log_softmax(-1), prior, method)
    torch.testing.assert_close(value, torch.tensor([2 * math.log(3)], dtype=torch.float64))
    torch.testing.assert_close(torch.autograd.grad(value.sum(), at)[0], torch.zeros_like(at))
    equal = torch.zeros_like(at).log_softmax(-1)
    assert marginal_term(equal, prior, method) < value - 0.1


def test_a_class_prior_goes_with_a_sampled_marginal() -> None:
    exact, sampled = (
        ReferencePrior(class_prior=(0.5, 0.3, 0.2), samples=samples)(Logits().step()).terms["marginal_entropy"].item()
        for samples in (None, 4000)
    )
    assert sampled == pytest.approx(exact, rel=0.02)


@pytest.mark.parametrize("shares", [None, (5, 3, 2)])
def test_balance_is_the_divergence_of_the_mean_prediction(shares: tuple[float, ...] | None) -> None:
    model = Logits()
    _, weak, strong = parts(model)
    mean = (weak.detach() / 3 + strong * 2 / 3).mean((0, 1, 2))
    q = torch.tensor(shares or (1, 1, 1), dtype=torch.float64)
    expected = (mean * (mean / (q / q.sum())).log()).sum()
    without = ReferencePrior(class_prior=shares)(model.step())
    loss = ReferencePrior(class_prior=shares, balance=0.7)(model.step())
    assert "skew" not in without.terms
    torch.testing.assert_close(loss.terms["skew"], expected.detach())
    torch.testing.assert_close(loss.total, without.total + 0.7 * expected)
    apart = torch.autograd.grad(loss.total - without.total, model.logits)[0]
    torch.testing.assert_close(apart, 0.7 * torch.autograd.grad(expected, model.logits)[0])


@pytest.mark.parametrize("shares", [None, (5, 3, 2)])
def test_particle_balance_is_the_mean_divergence_of_each_particle(shares: tuple[float, ...] | None) -> None:
    model = Logits()
    _, weak, strong = parts(model)
    q = torch.tensor(shares or (1, 1, 1), dtype=torch.float64)
    means = [(w.detach() / 3 + s * 2 / 3).mean((0, 1)) for w, s in zip(weak, strong, strict=True)]
    expected = torch.stack([(mean * (mean / (q / q.sum())).log()).sum() for mean in means]).mean()
    without = ReferencePrior(class_prior=shares)(model.step())
    loss = ReferencePrior(class_prior=shares, particle_balance=0.7)(model.step())
    torch.testing.assert_close(loss.terms["particle_skew"], expected.detach())
    torch.testing.assert_close(loss.total, without.total + 0.7 * expected)


def test_shares_of_another_number_of_classes_are_rejected() -> None:
    with pytest.raises(ValueError, match="expected 3 class shares in class_prior, got 2"):
        ReferencePrior(class_prior=(0.5, 0.5))(Logits().step())


def test_shares_become_plain_numbers() -> None:
    shares: Any = np.array([2, 1, 1])
    assert ReferencePrior(class_prior=shares) == ReferencePrior(class_prior=(2.0, 1.0, 1.0))


BAD: list[tuple[dict[str, Any], str]] = [
    ({"order": 0}, "order must be a whole number of at least 1, got 0"),
    ({"alpha": -0.1}, "alpha must be at least 0, got -0.1"),
    ({"alpha": math.nan}, "alpha must be at least 0, got nan"),
    ({"tau": 1.5}, "tau must be at least 0 and at most 1, got 1.5"),
    ({"tau": 1.0}, "set gamma"),
    ({"gamma": -1.0}, "gamma must be at least 0"),
    ({"threshold": 0.0}, "threshold must be above 0 and at most 1, got 0.0"),
    ({"order": 2.5}, "order must be a whole number of at least 1, got 2.5"),
    ({"alpha": math.inf}, "alpha must be at least 0, got inf"),
    ({"samples": 10**12}, "samples must be a whole number of at least 2 and at most 1000000, got 1000000000000"),
    ({"marginal_views": "weak"}, "h_y would have no gradient"),
    ({"class_prior": (0.5, 0.0)}, "each share of class_prior must be above 0, got 0.0"),
    ({"class_prior": (0.5, math.nan)}, "each share of class_prior must be above 0, got nan"),
    ({"class_prior": 0.5}, "class_prior must be numbers, one for each class, got 0.5"),
    ({"class_prior": "0.5,0.5"}, "class_prior must be numbers, one for each class, got '0.5,0.5'"),
    ({"particle_balance": -1.0}, "particle_balance must be at least 0, got -1.0"),
    ({"balance": -1.0}, "balance must be at least 0, got -1.0"),
    ({"marginal_views": "strong"}, "must be 'mixture' or 'weak', got 'strong'"),
]


@pytest.mark.parametrize(("fields", "message"), BAD, ids=str)
def test_bad_hyper_parameters_are_rejected_in_words(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ReferencePrior(**fields)


def test_underspecified_starts_where_agreement_is_neutral() -> None:
    free, balanced = ReferencePrior.underspecified(), ReferencePrior.underspecified(balanced=True)
    assert free.alpha == balanced.alpha == 1
    assert min(free.order, balanced.order) >= 2
    assert (free.particle_balance, balanced.particle_balance > 0) == (0, True)


def test_alpha_moves_in_a_straight_line() -> None:
    method, model = ReferencePrior(alpha=0.4, final_alpha=0.0), Logits()
    for progress, alpha in ((0.0, 0.4), (0.5, 0.2), (1.0, 0.0)):
        moved = method(replace(model.step(), progress=progress)).total
        torch.testing.assert_close(moved, ReferencePrior(alpha=alpha)(model.step()).total)
    with pytest.raises(ValueError, match="final_alpha must be at least 0, got -1"):
        ReferencePrior(final_alpha=-1)
