"""The objectives as functions of plain tensors, for people with their own training loop.

Each takes log-probabilities of K particles, (K, images, classes), and returns a `Loss` with the scalar `total` to
minimize and its `terms`. The last argument, `settings`, is the method whose fields are the hyper-parameters:

    loss = rp.losses.reference_prior(labeled, y, weak, strong, log_prior, rp.ReferencePrior(alpha=0.05))
    loss.total.backward()
"""

from refprior.methods._contrastive import contrastive
from refprior.methods._dash import dash
from refprior.methods._fixmatch import fixmatch
from refprior.methods._flexmatch import flexmatch
from refprior.methods._freematch import Beliefs, freematch
from refprior.methods._information_only import information
from refprior.methods._mean_teacher import mean_teacher
from refprior.methods._mixmatch import mixmatch
from refprior.methods._mixup import mixup
from refprior.methods._reference_prior import information_loss, reference_prior
from refprior.methods._softmatch import softmatch
from refprior.methods._supervised import cross_entropy, supervised
from refprior.methods._transfer import transfer, unsupervised_transfer
from refprior.methods._two_stage import labeled_source, unlabeled_source
from refprior.methods._uda import uda
from refprior.methods._vat import vat

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
