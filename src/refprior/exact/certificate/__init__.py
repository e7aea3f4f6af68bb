"""How far a prior can be from the optimum, judged without knowing how it was found."""

from refprior.exact.certificate._bound import MOST_CELLS
from refprior.exact.certificate._certificate import Certificate, judge
from refprior.exact.certificate._maxima import GRIDS, MOST_POINTS, SEARCHED
from refprior.exact.certificate._proof import Proof, prove

__all__ = ["GRIDS", "MOST_CELLS", "MOST_POINTS", "SEARCHED", "Certificate", "Proof", "judge", "prove"]
