"""Channels: models p(z | w) on a box of parameters."""

from refprior.exact.channels._channel import (
    SMALLEST_LOG,
    Channel,
    Gains,
    Rows,
    Symmetry,
    Windows,
    canonical,
    check_channel,
    check_instance,
    check_row_sums,
    is_long,
    to_coordinates,
)
from refprior.exact.channels._curve import Curve, Slice, to_axis
from refprior.exact.channels._finite import Categorical, type_number, types
from refprior.exact.channels._function import FunctionChannel, box_of, in_parameters, share_coordinates
from refprior.exact.channels._mean import NoisyMean, SampledMean
from refprior.exact.channels._one_parameter import EDGE, Coin, Gaussian, Poisson, log_normal_nodes
from refprior.exact.channels._product import Product
from refprior.exact.channels._scipy import from_family, panel_nodes
from refprior.exact.channels._two_parameters import ExponentialDecay, TwoCoins

__all__ = [
    "EDGE",
    "SMALLEST_LOG",
    "Categorical",
    "Channel",
    "Coin",
    "Curve",
    "ExponentialDecay",
    "FunctionChannel",
    "Gains",
    "Gaussian",
    "NoisyMean",
    "Poisson",
    "Product",
    "Rows",
    "SampledMean",
    "Slice",
    "Symmetry",
    "TwoCoins",
    "Windows",
    "box_of",
    "canonical",
    "check_channel",
    "check_instance",
    "check_row_sums",
    "from_family",
    "in_parameters",
    "is_long",
    "log_normal_nodes",
    "panel_nodes",
    "share_coordinates",
    "to_axis",
    "to_coordinates",
    "type_number",
    "types",
]
