"""Objectives as functions of plain tensors: what a method computes in a step, in value and gradient, and no more."""

from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

import refprior as rp
from refprior.information import uniform
from refprior.methods import Batch, InformationOnly, LabeledSource, Loss, Method, Step, UnlabeledSource
from refprior.methods._reference_prior import information_of_views

K, C, LABELED, UNLABELED, SOURCE = 3, 4, 5, 6, 6
Y, SOURCE_Y = torch.tensor([0, 3, 1, 1, 2]), torch.tensor([2, 0, 1, 3, 3, 0])
PARTS = dict(zip(("labeled", "weak", "strong", "source"), (LABELED, UNLABELED, UNLABELED, SOURCE), strict=True))


class Table:
    """A model that looks its predictions up: input i is row i of its logits."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        shape = K, sum(PARTS.values()), C
        self.logits = (2 * torch.randn(*shape, generator=generator, dtype=torch.float64)).requires_grad_()
        self.prior = torch.randn(K, generator=generator, dtype=torch.float64).requires_grad_()

    def __call__(self, x: Tensor) -> Tensor:
        return self.logits.log_softmax(-1)[:, x.squeeze(-1).long()]

    def log_p(self) -> dict[str, Tensor]:
        """Log-probabilities of every part: (K, n, C) each."""
        return dict(zip(PARTS, self.logits.log_softmax(-1).split(list(PARTS.values()), 1), strict=True))

    def step(self, progress: float = 0.0) -> Step:
        rows = torch.arange(sum(PARTS.values()), dtype=torch.float64).unsqueeze(1)
        labeled, weak, strong, source = rows.split(list(PARTS.values()))
        batch = Batch(
            labeled=labeled,
            labels=Y,
            views={"weak": weak, "strong": strong},
            source=source,
            source_labels=SOURCE_Y,
        )
        return Step(
            batch=batch,
            student=self,
            teacher=self,
            log_prior=self.prior.log_softmax(0),
            progress=progress,
            generator=torch.Generator().manual_seed(7),
        )


@dataclass(frozen=True)
class Case:
    """A method, and the same objective from log-probabilities of all parts and a prior."""

    method: Method
    loss: Callable[[dict[str, Tensor], Tensor, Any, dict[str, Any]], Loss]
    learns_prior: bool = False


def reference_prior(p: dict[str, Tensor], prior: Tensor, method: Any, more: dict[str, Any]) -> Loss:
    return rp.losses.reference_prior(p["labeled"], Y, p["weak"], p["strong"], prior, method, **more)


def transfer(p: dict[str, Tensor], prior: Tensor, method: Any, more: dict[str, Any]) -> Loss:
    parts = p["labeled"], Y, p["weak"], p["strong"], p["source"], SOURCE_Y
    return rp.losses.transfer(*parts, prior, method, **more)


def unsupervised_transfer(p: dict[str, Tensor], prior: Tensor, method: Any, more: dict[str, Any]) -> Loss:
    return rp.losses.unsupervised_transfer(p["weak"], p["strong"], p["source"], SOURCE_Y, prior, method, **more)


def without_source(p: dict[str, Tensor], prior: Tensor, method: Any, more: dict[str, Any]) -> Loss:
    return rp.losses.unsupervised_transfer(p["weak"], p["strong"], None, None, prior, method, **more)


def fixmatch(p: dict[str, Tensor], prior: Tensor, method: Any, more: dict[str, Any]) -> Loss:
    return rp.losses.fixmatch(p["labeled"], Y, p["weak"], p["strong"], prior, method)


def supervised(p: dict[str, Tensor], prior: Tensor, method: Any, more: dict[str, Any]) -> Loss:
    return rp.losses.supervised(p["labeled"], Y, prior)


def information(p: dict[str, Tensor], prior: Tensor, method: Any, more: dict[str, Any]) -> Loss:
    return rp.losses.information(p["weak"], prior, method)


def unlabeled_source(p: dict[str, Tensor], prior: Tensor, method: Any, more: dict[str, Any]) -> Loss:
    return rp.losses.unlabeled_source(p["weak"], p["source"], prior, method)


def labeled_source(p: dict[str, Tensor], prior: Tensor, method: Any, more: dict[str, Any]) -> Loss:
    return rp.losses.labeled_source(p["weak"], p["source"], SOURCE_Y, prior, method)


CASES = [
    Case(rp.ReferencePrior(), reference_prior),
    Case(rp.ReferencePrior.authors_code(), reference_prior),
    Case(rp.ReferencePrior(order=3, stop_gradient=False, jensen=False), reference_prior),
    Case(rp.ReferencePrior(samples=5, alpha=0.5, final_alpha=0.1), reference_prior),
    Case(rp.ReferencePrior(trainable_prior=True), reference_prior, learns_prior=True),
    Case(rp.ReferencePrior(class_prior=(0.4, 0.3, 0.2, 0.1), balance=0.5), reference_prior),
    Case(rp.Transfer(beta=0.25), transfer),
    Case(rp.Transfer(rp.ReferencePrior(class_prior=(4, 3, 2, 1))), transfer),
    Case(rp.Transfer(rp.ReferencePrior(trainable_prior=True, order=3)), transfer, learns_prior=True),
    Case(rp.Transfer(beta=1), lambda p, prior, method, more: reference_prior(p, prior, method.target, more)),
    Case(rp.UnsupervisedTransfer(beta=0.25), unsupervised_transfer),
    Case(rp.UnsupervisedTransfer(beta=1), without_source),
    Case(rp.FixMatch(threshold=0.5, weight=0.7), fixmatch),
    Case(rp.Supervised(), supervised),
    Case(InformationOnly(order=3), information),
    Case(InformationOnly(trainable_prior=True), information, learns_prior=True),
    Case(UnlabeledSource(order=2, source_order=2, beta=0.3), unlabeled_source),
    Case(UnlabeledSource(order=3, source_order=3), unlabeled_source),
    Case(LabeledSource(order=2, beta=0.3), labeled_source),
]


def gradients(loss: Loss, model: Table) -> tuple[Tensor, Tensor | None]:
    logits, prior = torch.autograd.grad(loss.total, (model.logits, model.prior), allow_unused=True)
    return logits, prior


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.method))
@pytest.mark.parametrize("progress", [0.0, 0.75])
def test_a_method_in_a_step_is_its_loss_of_plain_tensors(case: Case, progress: float) -> None:
    model = Table()
    step = model.step(progress)
    prior = model.prior.log_softmax(0) if case.learns_prior else model.prior.log_softmax(0).detach()
    more = {"progress": progress, "generator": torch.Generator().manual_seed(7)}
    found, expected = case.method(step), case.loss(model.log_p(), prior, case.method, more)
    torch.testing.assert_close(found.total, expected.total)
    torch.testing.assert_close(found.terms, expected.terms)
    (logits, weights), (plain, plain_weights) = gradients(found, model), gradients(expected, model)
    torch.testing.assert_close(logits, plain)
    assert logits.abs().max() > 0
    assert (weights is not None) == (plain_weights is not None) == case.learns_prior
    if weights is not None:
        torch.testing.assert_close(weights, plain_weights)


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.method))
def test_without_a_prior_the_particles_count_equally(case: Case) -> None:
    model = Table()
    nothing: Any = None
    first, second = (
        case.loss(model.log_p(), prior, case.method, {"generator": torch.Generator().manual_seed(7)})
        for prior in (nothing, uniform(K, model.logits))
    )
    torch.testing.assert_close(first, second)


def test_the_information_of_views_is_the_reference_prior_without_labels() -> None:
    p, prior, settings = Table().log_p(), uniform(K, Table().logits), rp.ReferencePrior(alpha=0.3)
    whole = rp.losses.reference_prior(p["labeled"], Y, p["weak"], p["strong"], prior, settings)
    part = information_of_views(p["weak"], p["strong"], prior, settings)
    labels = rp.losses.supervised(p["labeled"], Y, prior).total
    torch.testing.assert_close(whole.total, part.total + labels)
    torch.testing.assert_close(whole.terms, {"cross_entropy": labels.detach(), **part.terms})


ODD = [
    rp.ReferencePrior(order=4),
    rp.Transfer(rp.ReferencePrior(order=4)),
    rp.UnsupervisedTransfer(rp.ReferencePrior(order=4)),
    InformationOnly(order=4),
    UnlabeledSource(order=4),
    LabeledSource(order=4),
]


@pytest.mark.parametrize("method", ODD, ids=lambda method: type(method).__name__)
def test_images_that_make_no_whole_tuples_are_refused_in_words(method: Method) -> None:
    loss = next(case.loss for case in CASES if type(case.method) is type(method))
    model = Table()
    with pytest.raises(ValueError, match="6 items do not make tuples of 4"):
        method(model.step())
    with pytest.raises(ValueError, match="6 items do not make tuples of 4"):
        loss(model.log_p(), uniform(K, model.logits), method, {})


def test_source_images_that_make_no_whole_tuples_are_refused_in_words() -> None:
    p = Table().log_p()
    with pytest.raises(ValueError, match="6 items do not make tuples of 4"):
        rp.losses.unlabeled_source(p["weak"], p["source"], None, UnlabeledSource(source_order=4))


def test_every_method_has_its_objective_here() -> None:
    """A function per method, named as the method is."""
    named = {name.replace("_", "") for name in rp.losses.__all__}
    things = {name: getattr(rp.methods, name) for name in rp.methods.__all__}
    methods = [name for name, thing in things.items() if is_dataclass(thing) and hasattr(thing, "needs")]
    assert {name.lower().removesuffix("only") for name in methods} <= named
