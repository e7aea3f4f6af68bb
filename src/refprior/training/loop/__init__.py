"""The training loop: batch, loss, gradient, update, record."""

from refprior.training.loop._begin import (
    Precision,
    State,
    begin,
    check_loading_fits,
    check_stages,
    check_training_fits,
    fitting_batch,
    gathered,
    new_particles,
)
from refprior.training.loop._draw import load_randomness, own_randomness, randomness_state
from refprior.training.loop._evaluate import (
    CONSENSUS_INPUTS,
    evaluate_all,
    evaluate_consensus,
    evenly_spaced,
    log_probabilities,
    output_confusion,
)
from refprior.training.loop._loop import (
    NotFiniteError,
    Trouble,
    differentiate,
    draw,
    find_trouble,
    has_bf16,
    optimize,
    recompute_last_record,
    update,
)
from refprior.training.loop._records import ConsensusScores, Evaluation, PartScores, Record
from refprior.training.loop._stopping import Interrupted, Stop, Stopped, stopping, terminable

__all__ = [
    "CONSENSUS_INPUTS",
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
    "check_loading_fits",
    "check_stages",
    "check_training_fits",
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
]
