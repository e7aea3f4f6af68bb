"""Recipes: functions that return a `Recipe`, each with its measured results in the docstring.

`override` changes settings of a recipe by dotted name, and `sweep` trains all combinations of several values.
"""

from refprior.recipes._cifar10 import cifar10_ssl
from refprior.recipes._custom_data import CustomData, with_data
from refprior.recipes._custom_data import described as described  # for the command line; not public
from refprior.recipes._images import (
    cifar10_ssl_medium,
    cifar10_ssl_patches,
    cifar10_ssl_small,
    digits_ssl,
    fashion_ssl,
    mnist_ssl,
    pretrained,
)
from refprior.recipes._manifold import mnist_manifold
from refprior.recipes._settings import RECIPES, named, override
from refprior.recipes._settings import Named as Named  # a result; not public
from refprior.recipes._settings import definitions as definitions  # for the command line; not public
from refprior.recipes._transfer import (
    cifar100_transfer,
    cifar100_transfer_medium,
    cifar100_transfer_small,
    digits_transfer,
    fine_tuning,
    label_free_transfer,
)
from refprior.recipes.sweeps import Cell as Cell  # results of `sweep` and `status`; not public
from refprior.recipes.sweeps import CellState as CellState
from refprior.recipes.sweeps import Dask, Local, Slurm, status, sweep
from refprior.recipes.sweeps import Outcome as Outcome

__all__ = [
    "RECIPES",
    "CustomData",
    "Dask",
    "Local",
    "Slurm",
    "cifar10_ssl",
    "cifar10_ssl_medium",
    "cifar10_ssl_patches",
    "cifar10_ssl_small",
    "cifar100_transfer",
    "cifar100_transfer_medium",
    "cifar100_transfer_small",
    "digits_ssl",
    "digits_transfer",
    "fashion_ssl",
    "fine_tuning",
    "label_free_transfer",
    "mnist_manifold",
    "mnist_ssl",
    "named",
    "override",
    "pretrained",
    "status",
    "sweep",
    "with_data",
]
