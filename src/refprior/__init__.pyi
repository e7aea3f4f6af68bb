# What `import refprior` offers, loaded when it is first used; relative imports are what lazy_loader reads.

from . import (
    data,
    exact,
    geometry,
    information,
    labeling,
    losses,
    methods,
    networks,
    posterior,
    recipes,
    report,
    training,
    variational,
    views,
)
from .data import Task
from .estimators import ReferencePriorClassifier, ReferencePriorClusterer
from .methods import FixMatch, Loss, Needs, ReferencePrior, Step, Supervised, Transfer, UnsupervisedTransfer
from .particles import Particles
from .training import Optimizer, Predictor, Recipe, Run, load, load_predictor, train

__version__: str

__all__ = [
    "FixMatch",
    "Loss",
    "Needs",
    "Optimizer",
    "Particles",
    "Predictor",
    "Recipe",
    "ReferencePrior",
    "ReferencePriorClassifier",
    "ReferencePriorClusterer",
    "Run",
    "Step",
    "Supervised",
    "Task",
    "Transfer",
    "UnsupervisedTransfer",
    "data",
    "exact",
    "geometry",
    "information",
    "labeling",
    "load",
    "load_predictor",
    "losses",
    "methods",
    "networks",
    "posterior",
    "recipes",
    "report",
    "train",
    "training",
    "variational",
    "views",
]
