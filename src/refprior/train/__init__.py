"""Training: recipes, the one loop, run folders."""

from refprior.train.loop import Record, evaluate
from refprior.train.optimiser import Optimiser
from refprior.train.recipe import EPOCH, Recipe
from refprior.train.run import Kind, Run, Weighting, load, train

__all__ = ["EPOCH", "Kind", "Optimiser", "Recipe", "Record", "Run", "Weighting", "evaluate", "load", "train"]
