"""Methods: one frozen dataclass each, whose fields are hyper-parameters and whose call is the loss.

To write your own, declare `needs` and return a `Loss` from `__call__(step)`: docs/own.md.
"""

from refprior.methods._fixmatch import FixMatch
from refprior.methods._information_only import InformationOnly
from refprior.methods._reference_prior import ReferencePrior
from refprior.methods._step import Batch, Loss, Method, Needs, Step, split_heads
from refprior.methods._supervised import Supervised
from refprior.methods._transfer import Transfer, UnsupervisedTransfer
from refprior.methods._two_stage import LabelledSource, UnlabelledSource

__all__ = [
    "Batch",
    "FixMatch",
    "InformationOnly",
    "LabelledSource",
    "Loss",
    "Method",
    "Needs",
    "ReferencePrior",
    "Step",
    "Supervised",
    "Transfer",
    "UnlabelledSource",
    "UnsupervisedTransfer",
    "split_heads",
]
