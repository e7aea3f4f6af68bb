"""Recipes: functions that return a `Recipe`; the docstring of each is its record of results.

`override` changes settings of a recipe by their dotted names, `sweep` trains all combinations of some.
"""

from refprior.recipes._cifar10 import cifar10_ssl
from refprior.recipes._images import (
    cifar10_ssl_patches,
    cifar10_ssl_small,
    digits_ssl,
    fashion_ssl,
    mnist_ssl,
    pretrained,
)
from refprior.recipes._manifold import mnist_manifold
from refprior.recipes._named import RECIPES, Named, named
from refprior.recipes._named import definitions as definitions  # for the command line; not public
from refprior.recipes._own_data import OwnData, with_data
from refprior.recipes._own_data import described as described  # for the command line; not public
from refprior.recipes._settings import override
from refprior.recipes._transfer import (
    cifar100_transfer,
    cifar100_transfer_small,
    digits_transfer,
    fine_tuning,
    label_free_transfer,
)
from refprior.recipes.sweeps import Cell, CellState, Dask, Local, Outcome, Slurm, status, sweep

__all__ = [
    "RECIPES",
    "Cell",
    "CellState",
    "Dask",
    "Local",
    "Named",
    "Outcome",
    "OwnData",
    "Slurm",
    "cifar10_ssl",
    "cifar10_ssl_patches",
    "cifar10_ssl_small",
    "cifar100_transfer",
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
