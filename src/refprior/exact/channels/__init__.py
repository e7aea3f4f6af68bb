"""Channels: models p(z | w) on a box of parameters."""

from refprior.exact.channels._categorical import Categorical
from refprior.exact.channels._cells import Cells
from refprior.exact.channels._channel import Channel
from refprior.exact.channels._curve import Curve, to_axis
from refprior.exact.channels._function import FunctionChannel, box_of
from refprior.exact.channels._mean import NoisyMean
from refprior.exact.channels._one_parameter import EDGE, Coin, Gaussian, Poisson, log_normal_nodes
from refprior.exact.channels._product import Product
from refprior.exact.channels._repeated import types
from refprior.exact.channels._rows import SMALLEST_LOG, Gains, Rows
from refprior.exact.channels._sampled import SampledMean
from refprior.exact.channels._scipy import from_family
from refprior.exact.channels._slice import Slice
from refprior.exact.channels._two_parameters import ExponentialDecay, TwoCoins
from refprior.exact.channels._validate import check_channel, check_instance
from refprior.exact.channels._windows import Windows, whole_windows

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
    "NoisyMean",
    "Poisson",
    "Product",
    "Rows",
    "SampledMean",
    "Slice",
    "TwoCoins",
    "Windows",
    "box_of",
    "check_channel",
    "check_instance",
    "from_family",
    "log_normal_nodes",
    "to_axis",
    "types",
    "whole_windows",
]
