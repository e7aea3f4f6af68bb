"""Methods: frozen dataclasses whose fields are hyperparameters and whose call is the loss.

To write a custom method, declare `needs` and return a `Loss` from `__call__(step)`: docs/own.md.

Names that are imported here but not in `__all__` are internal: `refprior.losses` publishes the loss functions, and the
training loop uses the others.
"""

from refprior.methods._adaptive import Dash, FlexMatch, FreeMatch, SoftMatch
from refprior.methods._adaptive import dash as dash
from refprior.methods._adaptive import flexmatch as flexmatch
from refprior.methods._adaptive import freematch as freematch
from refprior.methods._adaptive import softmatch as softmatch
from refprior.methods._adaptive_reference_prior import AdaptiveReferencePrior
from refprior.methods._adaptive_reference_prior import adaptive_reference_prior as adaptive_reference_prior
from refprior.methods._consistency import VAT, MeanTeacher
from refprior.methods._consistency import mean_teacher as mean_teacher
from refprior.methods._consistency import vat as vat
from refprior.methods._contrastive import Contrastive
from refprior.methods._contrastive import contrastive as contrastive
from refprior.methods._dbat import DBAT
from refprior.methods._dbat import dbat as dbat
from refprior.methods._divdis import DivDis
from refprior.methods._divdis import divdis as divdis
from refprior.methods._fixmatch import UDA, FixMatch
from refprior.methods._fixmatch import fixmatch as fixmatch
from refprior.methods._fixmatch import uda as uda
from refprior.methods._mixing import MixMatch, Mixup
from refprior.methods._mixing import mixmatch as mixmatch
from refprior.methods._mixing import mixup as mixup
from refprior.methods._reference_prior import InformationOnly, ReferencePrior, Supervised
from refprior.methods._reference_prior import information as information
from refprior.methods._reference_prior import reference_prior as reference_prior
from refprior.methods._reference_prior import supervised as supervised
from refprior.methods._step import Batch, Loss, Needs, Step
from refprior.methods._step import LabelWeights as LabelWeights
from refprior.methods._step import Method as Method
from refprior.methods._step import Views as Views
from refprior.methods._step import split_heads as split_heads
from refprior.methods._transfer import LabeledSource, Transfer, UnlabeledSource, UnsupervisedTransfer
from refprior.methods._transfer import labeled_source as labeled_source
from refprior.methods._transfer import transfer as transfer
from refprior.methods._transfer import unlabeled_source as unlabeled_source
from refprior.methods._transfer import unsupervised_transfer as unsupervised_transfer

__all__ = [
    "DBAT",
    "UDA",
    "VAT",
    "AdaptiveReferencePrior",
    "Batch",
    "Contrastive",
    "Dash",
    "DivDis",
    "FixMatch",
    "FlexMatch",
    "FreeMatch",
    "InformationOnly",
    "LabeledSource",
    "Loss",
    "MeanTeacher",
    "MixMatch",
    "Mixup",
    "Needs",
    "ReferencePrior",
    "SoftMatch",
    "Step",
    "Supervised",
    "Transfer",
    "UnlabeledSource",
    "UnsupervisedTransfer",
]
