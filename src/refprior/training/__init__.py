"""Training: recipes, the one loop, run folders."""

from refprior.training._loop import Record, evaluate
from refprior.training._optimiser import Optimiser
from refprior.training._recipe import EPOCH, Head, Recipe
from refprior.training._run import Kind, Run, Weighting, load, train
from refprior.training._stopping import Stopped
from refprior.training._trouble import NotFiniteError

__all__ = [
    "EPOCH",
    "Head",
    "Kind",
    "NotFiniteError",
    "Optimiser",
    "Recipe",
    "Record",
    "Run",
    "Stopped",
    "Weighting",
    "evaluate",
    "load",
    "train",
]
