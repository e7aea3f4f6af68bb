"""Channels: models p(z | w) on a box of parameters."""

from refprior.exact.channels._channel import (
    SMALLEST_LOG,
    Cells,
    Channel,
    Gains,
    GaussianNoise,
    Rows,
    Sums,
    Symmetry,
    canonical,
    check_channel,
    check_instance,
    check_row_sums,
    is_long,
    log_mixture,
    to_coordinates,
)
from refprior.exact.channels._curve import Curve, Slice, to_axis
from refprior.exact.channels._finite import Categorical, type_number, types
from refprior.exact.channels._function import FunctionChannel, box_of, share_coordinates
from refprior.exact.channels._mean import NoisyMean, SampledMean
from refprior.exact.channels._one_parameter import EDGE, Coin, Gaussian, Poisson, log_normal_nodes
from refprior.exact.channels._product import Product
from refprior.exact.channels._scipy import from_family, panel_nodes
from refprior.exact.channels._two_parameters import ExponentialDecay, TwoCoins
from refprior.exact.channels._windows import (
    WindowMatrix,
    whole_windows,
    windowed_divergence,
    windowed_log_marginal,
)

__all__ = [
    "EDGE",
    "SMALLEST_LOG",
    "Categorical",
    "Cells",
    "Channel",
    "Coin",
    "Curve",
    "ExponentialDecay",
    "FunctionChannel",
    "Gains",
    "Gaussian",
    "GaussianNoise",
    "NoisyMean",
    "Poisson",
    "Product",
    "Rows",
    "SampledMean",
    "Slice",
    "Sums",
    "Symmetry",
    "TwoCoins",
    "WindowMatrix",
    "box_of",
    "canonical",
    "check_channel",
    "check_instance",
    "check_row_sums",
    "from_family",
    "is_long",
    "log_mixture",
    "log_normal_nodes",
    "panel_nodes",
    "share_coordinates",
    "to_axis",
    "to_coordinates",
    "type_number",
    "types",
    "whole_windows",
    "windowed_divergence",
    "windowed_log_marginal",
]
