"""Recipes: functions that return a `Recipe`; the docstring of each is its record of results.

`override` changes settings of a recipe by their dotted names, `sweep` trains all combinations of some.
"""

from refprior.recipes._cell import Cell, Outcome
from refprior.recipes._cifar10 import cifar10_ssl
from refprior.recipes._dask import Dask
from refprior.recipes._images import (
    cifar10_ssl_patches,
    cifar10_ssl_small,
    digits_ssl,
    fashion_ssl,
    mnist_ssl,
    pretrained,
)
from refprior.recipes._local import Local
from refprior.recipes._manifold import mnist_manifold
from refprior.recipes._named import RECIPES, Named, named
from refprior.recipes._own_data import OwnData, with_data
from refprior.recipes._settings import override
from refprior.recipes._slurm import Slurm
from refprior.recipes._status import CellState, status
from refprior.recipes._sweep import sweep
from refprior.recipes._transfer import (
    cifar100_transfer,
    cifar100_transfer_small,
    digits_transfer,
    fine_tuning,
    label_free_transfer,
)

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
