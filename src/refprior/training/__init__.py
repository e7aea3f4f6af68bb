"""Training: recipes, the one loop, run folders, and runs that read back."""

from refprior.training._estimate import Estimate, estimate
from refprior.training._export import export
from refprior.training._logs import log_to
from refprior.training._predictor import Predictor
from refprior.training._run import Run, Weighting, Weights, load, load_predictor
from refprior.training._session import train
from refprior.training._snapshot import Film, film
from refprior.training._stopping import Stopped
from refprior.training.loop._trouble import NotFiniteError
from refprior.training.recipe._optimizer import Optimizer
from refprior.training.recipe._recipe import EPOCH, Head, Recipe
from refprior.training.store._header import Origin
from refprior.training.store._records import ConsensusScores, Evaluation, PartScores, Record

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
