"""Methods: one small frozen dataclass each, whose fields are hyper-parameters and whose call is the loss."""

from refprior.methods.fixmatch import FixMatch
from refprior.methods.information_only import InformationOnly
from refprior.methods.reference_prior import ReferencePrior
from refprior.methods.step import Batch, Loss, Method, Model, Step, split_heads
from refprior.methods.supervised import Supervised
from refprior.methods.transfer import Transfer, UnsupervisedTransfer
from refprior.methods.two_stage import LabelledSource, UnlabelledSource

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
