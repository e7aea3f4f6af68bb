"""The training loop: batch, loss, gradient, update, record."""

from refprior.training.loop._device import usable_device
from refprior.training.loop._evaluate import (
    CONSENSUS_IMAGES,
    evaluate_all,
    evaluate_consensus,
    evenly_spaced,
    log_probabilities,
    output_confusion,
)
from refprior.training.loop._loop import State, begin, differentiate, draw, optimize, recompute_last_record, update
from refprior.training.loop._precision import Precision, has_bf16
from refprior.training.loop._randomness import load_randomness, own_randomness, randomness_state
from refprior.training.loop._records import ConsensusScores, Evaluation, PartScores, Record
from refprior.training.loop._stages import check_stages, gathered, new_particles
from refprior.training.loop._stopping import Interrupted, Stop, Stopped, stopping, terminable
from refprior.training.loop._trouble import NotFiniteError, Trouble, find_trouble
from refprior.training.loop._validate import fitting_batch

__all__ = [
    "CONSENSUS_IMAGES",
    "ConsensusScores",
    "Evaluation",
    "Interrupted",
    "NotFiniteError",
    "PartScores",
    "Precision",
    "Record",
    "State",
    "Stop",
    "Stopped",
    "Trouble",
    "begin",
    "check_stages",
    "differentiate",
    "draw",
    "evaluate_all",
    "evaluate_consensus",
    "evenly_spaced",
    "find_trouble",
    "fitting_batch",
    "gathered",
    "has_bf16",
    "load_randomness",
    "log_probabilities",
    "new_particles",
    "optimize",
    "output_confusion",
    "own_randomness",
    "randomness_state",
    "recompute_last_record",
    "stopping",
    "terminable",
    "update",
    "usable_device",
]
