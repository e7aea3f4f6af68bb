"""The objectives as functions of plain tensors, for custom training loops.

Each takes log-probabilities of K particles, (K, inputs, classes), and returns a `Loss` with the scalar `total` to
minimize and its `terms`. The argument `settings` is the method whose fields are the hyperparameters:

    loss = rp.losses.reference_prior(labeled, y, weak, strong, log_prior, rp.ReferencePrior(alpha=0.05))
    loss.total.backward()
"""

from refprior.methods import (
    adaptive_reference_prior,
    contrastive,
    dash,
    dbat,
    divdis,
    fixmatch,
    flexmatch,
    freematch,
    information,
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
    "adaptive_reference_prior",
    "contrastive",
    "dash",
    "dbat",
    "divdis",
    "fixmatch",
    "flexmatch",
    "freematch",
    "information",
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
