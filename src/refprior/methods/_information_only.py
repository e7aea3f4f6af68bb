"""The reference prior itself: particles that spread as far as N labels can tell, without any label."""

# K particles, n unlabeled images, N order, C classes

from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from refprior._checks import whole_number
from refprior.information import conditional_entropy, marginal_entropy, tuples, uniform
from refprior.methods._step import Loss, Needs, Step


@dataclass(frozen=True)
class InformationOnly:
    """Maximizes I_π(w; y^n | x^n), eq:ref_ssl, over the particles: fig:manifold_boundary.

    Order 1 is degenerate: the C constant classifiers reach its maximum log C.

    >>> from refprior.methods import InformationOnly
    >>> InformationOnly(order=3).needs.labels
    False
    """

    order: int = 2  # N, items in a tuple
    trainable_prior: bool = False  # learn the weights π(w_k)

    def __post_init__(self) -> None:
        whole_number("order", self.order, at_least=1)

    @cached_property
    def needs(self) -> Needs:
        return Needs(labels=False, views=("weak",), tuple_size=self.order, enumerates=self.order, shardable=True)

    def __call__(self, step: Step) -> Loss:
        (log_p,) = step.predict(step.batch.views["weak"])
        return information(log_p, step.log_prior if self.trainable_prior else step.log_prior.detach(), self)


_DEFAULT = InformationOnly()


def information(log_p: Tensor, log_prior: Tensor | None = None, settings: InformationOnly = _DEFAULT) -> Loss:
    """-I_π(w; y^n | x^n), eq:ref_ssl, of consecutive images: (K, n, C), (K,).

    >>> import torch
    >>> import refprior as rp
    >>> constant = torch.eye(2)[:, None].expand(2, 6, 2).log()  # two particles, each certain of its own class
    >>> rp.losses.information(constant).terms["information"]
    tensor(0.6931)
    """
    log_prior = uniform(len(log_p), log_p) if log_prior is None else log_prior
    grouped = tuples(log_p, settings.order)
    h_y = marginal_entropy(grouped, log_prior).mean()
    h_yw = conditional_entropy(grouped, log_prior).mean()
    return Loss.of(h_yw - h_y, marginal_entropy=h_y, conditional_entropy=h_yw, information=h_y - h_yw)
