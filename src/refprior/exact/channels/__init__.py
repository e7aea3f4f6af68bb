"""Channels: models p(z | w) on a box of parameters."""

from refprior.exact.channels._categorical import Categorical
from refprior.exact.channels._channel import Channel, canonical, check_channel, check_instance, is_long, to_coordinates
from refprior.exact.channels._charted import share_coordinates
from refprior.exact.channels._curve import Curve, to_axis
from refprior.exact.channels._function import FunctionChannel, box_of
from refprior.exact.channels._mean import NoisyMean
from refprior.exact.channels._one_parameter import EDGE, Coin, Gaussian, Poisson, log_normal_nodes
from refprior.exact.channels._product import Product
from refprior.exact.channels._repeated import types
from refprior.exact.channels._rows import SMALLEST_LOG, Rows, check_row_sums, log_mixture
from refprior.exact.channels._sampled import SampledMean
from refprior.exact.channels._scipy import from_family
from refprior.exact.channels._slice import Slice
from refprior.exact.channels._traits import Cells, Gains, GaussianNoise, Sums, Symmetry
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
    "share_coordinates",
    "to_axis",
    "to_coordinates",
    "types",
    "whole_windows",
    "windowed_divergence",
    "windowed_log_marginal",
]
