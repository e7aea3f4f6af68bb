"""Methods: one small frozen dataclass each, whose fields are hyper-parameters and whose call is the loss."""

from refprior.methods._fixmatch import FixMatch
from refprior.methods._information_only import InformationOnly
from refprior.methods._reference_prior import ReferencePrior
from refprior.methods._step import Batch, Loss, Method, Model, Step, split_heads
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
    "Model",
    "ReferencePrior",
    "Step",
    "Supervised",
    "Transfer",
    "UnlabelledSource",
    "UnsupervisedTransfer",
    "split_heads",
]
