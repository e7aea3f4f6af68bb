"""The reference prior itself: particles that spread as far as N labels can tell, without any label."""

# K particles, B tuples, N order, C classes

from dataclasses import dataclass
from typing import ClassVar

from refprior.information import conditional_entropy, marginal_entropy
from refprior.methods._step import Loss, Step


@dataclass(frozen=True)
class InformationOnly:
    """Maximises I_π(w; y^n | x^n), eq:ref_ssl, over the particles: fig:manifold_boundary.

    Order 1 is degenerate: the C constant classifiers reach its maximum log C.
    """

    order: int = 2  # N, items in a tuple
    trainable_prior: bool = False  # learn the weights π(w_k)
    label_free: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not isinstance(self.order, int) or self.order < 1:
            raise ValueError(f"order must be a whole number of at least 1, got {self.order}")

    def __call__(self, step: Step) -> Loss:
        (log_p,) = step.predict(step.batch.weak)
        log_prior = step.log_prior if self.trainable_prior else step.log_prior.detach()
        h_y = marginal_entropy(log_p, log_prior).mean()
        h_yw = conditional_entropy(log_p, log_prior).mean()
        terms = {"marginal_entropy": h_y, "conditional_entropy": h_yw, "information": h_y - h_yw}
        return Loss(h_yw - h_y, {name: term.detach() for name, term in terms.items()})
