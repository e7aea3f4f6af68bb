"""How far a prior can be from the optimum, judged without knowing how it was found."""

from refprior.exact.certify._bound import MOST_CELLS
from refprior.exact.certify._case import GRIDS, MOST_POINTS, SEARCHED
from refprior.exact.certify._certificate import Certificate, judge
from refprior.exact.certify._proof import Proof
from refprior.exact.certify._prove import prove

__all__ = ["GRIDS", "MOST_CELLS", "MOST_POINTS", "SEARCHED", "Certificate", "Proof", "judge", "prove"]
