"""Methods: one frozen dataclass each, whose fields are hyper-parameters and whose call is the loss.

To write your own, declare `needs` and return a `Loss` from `__call__(step)`: docs/own.md.
"""

from refprior.methods._contrastive import Contrastive
from refprior.methods._dash import Dash
from refprior.methods._fixmatch import FixMatch
from refprior.methods._flexmatch import FlexMatch
from refprior.methods._freematch import FreeMatch
from refprior.methods._information_only import InformationOnly
from refprior.methods._mean_teacher import MeanTeacher
from refprior.methods._mixmatch import MixMatch
from refprior.methods._mixup import Mixup
from refprior.methods._reference_prior import ReferencePrior
from refprior.methods._softmatch import SoftMatch
from refprior.methods._step import Batch, Loss, Method, Needs, Step, split_heads
from refprior.methods._supervised import Supervised
from refprior.methods._transfer import Transfer, UnsupervisedTransfer
from refprior.methods._two_stage import LabeledSource, UnlabeledSource
from refprior.methods._uda import UDA
from refprior.methods._vat import VAT

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
