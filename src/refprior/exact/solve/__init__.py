"""The search for atoms and weights."""

from refprior.exact.solve._ascent import Problem, ascend, equalize, recording
from refprior.exact.solve._blahut_arimoto import blahut_arimoto
from refprior.exact.solve._candidates import check_cost, climb, fisher_grid, peaks
from refprior.exact.solve._solver import continued, solve

__all__ = [
    "Problem",
    "ascend",
    "blahut_arimoto",
    "check_cost",
    "climb",
    "continued",
    "equalize",
    "fisher_grid",
    "peaks",
    "recording",
    "solve",
]
