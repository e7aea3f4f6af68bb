"""The objectives as functions of plain tensors, for people with their own training loop.

Each takes log-probabilities of K particles, (K, images, classes), and returns a `Loss` with the scalar `total` to
minimize and its `terms`. The last argument, `settings`, is the method whose fields are the hyper-parameters:

    loss = rp.losses.reference_prior(labeled, y, weak, strong, log_prior, rp.ReferencePrior(alpha=0.05))
    loss.total.backward()
"""

from refprior.methods import (
    Beliefs,
    contrastive,
    cross_entropy,
    dash,
    fixmatch,
    flexmatch,
    freematch,
    information,
    information_loss,
    labeled_source,
    mean_teacher,
    mixmatch,
    mixup,
    reference_prior,
    softmatch,
    supervised,
    transfer,
    uda,
    unlabeled_source,
    unsupervised_transfer,
    vat,
)

__all__ = [
    "Beliefs",
    "contrastive",
    "cross_entropy",
    "dash",
    "fixmatch",
    "flexmatch",
    "freematch",
    "information",
    "information_loss",
    "labeled_source",
    "mean_teacher",
    "mixmatch",
    "mixup",
    "reference_prior",
    "softmatch",
    "supervised",
    "transfer",
    "uda",
    "unlabeled_source",
    "unsupervised_transfer",
    "vat",
]
