"""The objective J(π) and the gain G(w) with its derivatives."""

from refprior.exact.oracle._objective import (
    Objective,
    Point,
    Table,
    divergence,
    evaluate,
    information_matrix,
    is_share,
    log_marginal,
    require_concave,
    safe_log,
    sensitivity,
    two_stage_signs,
)
from refprior.exact.oracle._sampled import (
    APART,
    Mixture,
    candidates,
    fresh_noise,
    into_box,
    normals,
    sampled_gain,
    sampled_maxima,
)
from refprior.exact.oracle._windowed import Band, window_table, windowed_information

__all__ = [
    "APART",
    "Band",
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
    "two_stage_signs",
    "window_table",
    "windowed_information",
]
