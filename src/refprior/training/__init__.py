"""Training: recipes, the one loop, run folders, and runs that read back."""

from refprior.training._estimate import Estimate, estimate
from refprior.training._export import export
from refprior.training._header import Origin
from refprior.training._logs import log_to
from refprior.training._optimizer import Optimizer
from refprior.training._predictor import Predictor
from refprior.training._recipe import EPOCH, Head, Recipe
from refprior.training._records import ConsensusScores, Evaluation, PartScores, Record
from refprior.training._run import Run, Weighting, Weights, load, load_predictor
from refprior.training._session import train
from refprior.training._snapshot import Film, film
from refprior.training._stopping import Stopped
from refprior.training._trouble import NotFiniteError

__all__ = [
    "EPOCH",
    "ConsensusScores",
    "Estimate",
    "Evaluation",
    "Film",
    "Head",
    "NotFiniteError",
    "Optimizer",
    "Origin",
    "PartScores",
    "Predictor",
    "Recipe",
    "Record",
    "Run",
    "Stopped",
    "Weighting",
    "Weights",
    "estimate",
    "export",
    "film",
    "load",
    "load_predictor",
    "log_to",
    "train",
]
