"""Training: recipes, the one loop, run folders, and runs that read back."""

from refprior.training._estimate import estimate_cost
from refprior.training._export import export
from refprior.training._logs import log_to
from refprior.training._predictor import Predictor
from refprior.training._run import Run, load, load_predictor
from refprior.training._run import Weighting as Weighting  # from here on for other packages of refprior, not public
from refprior.training._run import custom_parts as custom_parts
from refprior.training._session import train
from refprior.training._session import try_out as try_out
from refprior.training._snapshot import Snapshot as Snapshot
from refprior.training._snapshot import Trajectory as Trajectory
from refprior.training._snapshot import read_trajectory
from refprior.training.loop import ConsensusScores as ConsensusScores
from refprior.training.loop import Evaluation as Evaluation
from refprior.training.loop import NotFiniteError, Record, Stopped
from refprior.training.loop import PartScores as PartScores
from refprior.training.recipe import Optimizer, Recipe
from refprior.training.store import Origin

__all__ = [
    "NotFiniteError",
    "Optimizer",
    "Origin",
    "Predictor",
    "Recipe",
    "Record",
    "Run",
    "Stopped",
    "estimate_cost",
    "export",
    "load",
    "load_predictor",
    "log_to",
    "read_trajectory",
    "train",
]
