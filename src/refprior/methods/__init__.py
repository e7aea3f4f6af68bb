"""Methods: one frozen dataclass each, whose fields are hyper-parameters and whose call is the loss.

To write a custom method, declare `needs` and return a `Loss` from `__call__(step)`: docs/own.md.

Names that are imported here but not in `__all__` are internal: `refprior.losses` publishes the loss functions, and the
training loop fills `Views`.
"""

from refprior.methods._contrastive import Contrastive
from refprior.methods._contrastive import contrastive as contrastive
from refprior.methods._dash import Dash
from refprior.methods._dash import dash as dash
from refprior.methods._fixmatch import FixMatch
from refprior.methods._fixmatch import fixmatch as fixmatch
from refprior.methods._flexmatch import FlexMatch
from refprior.methods._flexmatch import flexmatch as flexmatch
from refprior.methods._freematch import Beliefs as Beliefs
from refprior.methods._freematch import FreeMatch
from refprior.methods._freematch import freematch as freematch
from refprior.methods._information_only import InformationOnly
from refprior.methods._information_only import information as information
from refprior.methods._mean_teacher import MeanTeacher
from refprior.methods._mean_teacher import mean_teacher as mean_teacher
from refprior.methods._mixmatch import MixMatch
from refprior.methods._mixmatch import mixmatch as mixmatch
from refprior.methods._mixup import Mixup
from refprior.methods._mixup import mixup as mixup
from refprior.methods._reference_prior import ReferencePrior
from refprior.methods._reference_prior import information_loss as information_loss
from refprior.methods._reference_prior import reference_prior as reference_prior
from refprior.methods._softmatch import SoftMatch
from refprior.methods._softmatch import softmatch as softmatch
from refprior.methods._step import Batch, Loss, Method, Needs, Step, split_heads
from refprior.methods._step import Views as Views
from refprior.methods._supervised import Supervised
from refprior.methods._supervised import cross_entropy as cross_entropy
from refprior.methods._supervised import supervised as supervised
from refprior.methods._transfer import Transfer, UnsupervisedTransfer
from refprior.methods._transfer import transfer as transfer
from refprior.methods._transfer import unsupervised_transfer as unsupervised_transfer
from refprior.methods._two_stage import LabeledSource, UnlabeledSource
from refprior.methods._two_stage import labeled_source as labeled_source
from refprior.methods._two_stage import unlabeled_source as unlabeled_source
from refprior.methods._uda import UDA
from refprior.methods._uda import uda as uda
from refprior.methods._vat import VAT
from refprior.methods._vat import vat as vat

__all__ = [
    "UDA",
    "VAT",
    "Batch",
    "Contrastive",
    "Dash",
    "FixMatch",
    "FlexMatch",
    "FreeMatch",
    "InformationOnly",
    "LabeledSource",
    "Loss",
    "MeanTeacher",
    "Method",
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
    "split_heads",
]
