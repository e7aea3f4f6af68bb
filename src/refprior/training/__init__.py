"""Training: recipes, the one loop, run folders, and runs that read back."""

from refprior.training._estimate import Estimate, estimate
from refprior.training._export import export
from refprior.training._logs import log_to
from refprior.training._predictor import Predictor
from refprior.training._run import Run, Weighting, Weights, load, load_predictor
from refprior.training._run import custom_parts as custom_parts  # for the command line; not public
from refprior.training._session import train
from refprior.training._snapshot import Film, Snapshot, film
from refprior.training.loop import ConsensusScores, Evaluation, NotFiniteError, PartScores, Record, Stopped
from refprior.training.recipe import EPOCH, Head, Optimizer, Recipe
from refprior.training.store import Origin

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
    "Snapshot",
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
