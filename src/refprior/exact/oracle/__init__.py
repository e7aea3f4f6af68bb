"""The objective J(π) and the gain G(w) with its derivatives."""

from refprior.exact.oracle._mixture import Mixture, normals
from refprior.exact.oracle._objective import (
    Objective,
    Table,
    divergence,
    is_share,
    log_marginal,
    require_concave,
    safe_log,
    two_stage_signs,
)
from refprior.exact.oracle._optimality import Point, evaluate, information_matrix, sensitivity
from refprior.exact.oracle._sampled import candidates, fresh_noise, into_box, sampled_gain, sampled_maxima, spread_out

__all__ = [
    "Mixture",
    "Objective",
    "Point",
    "Table",
    "candidates",
    "divergence",
    "evaluate",
    "fresh_noise",
    "information_matrix",
    "into_box",
    "is_share",
    "log_marginal",
    "normals",
    "require_concave",
    "safe_log",
    "sampled_gain",
    "sampled_maxima",
    "sensitivity",
    "spread_out",
    "two_stage_signs",
]
