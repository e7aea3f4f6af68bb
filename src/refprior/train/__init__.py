"""Training: recipes, the one loop, run folders."""

from refprior.train.loop import Record, evaluate
from refprior.train.optimiser import Optimiser
from refprior.train.recipe import EPOCH, Head, Recipe
from refprior.train.run import Kind, Run, Weighting, load, train
from refprior.train.stopping import Stopped
from refprior.train.trouble import NotFiniteError

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
