"""Sweeps: many runs of one recipe, and the engines that train them. `refprior.recipes` exports the public names."""

from refprior.recipes.sweeps._cell import Cell, Outcome, Plan, command, folder_name, train_cell
from refprior.recipes.sweeps._dask import Dask
from refprior.recipes.sweeps._local import Local
from refprior.recipes.sweeps._slurm import Slurm
from refprior.recipes.sweeps._status import CellState, noting_failure, running, status, write_cells
from refprior.recipes.sweeps._sweep import Engine, cells, few_label_methods, matrix_cells, run_cells, sweep

__all__ = [
    "Cell",
    "CellState",
    "Dask",
    "Engine",
    "Local",
    "Outcome",
    "Plan",
    "Slurm",
    "cells",
    "command",
    "few_label_methods",
    "folder_name",
    "matrix_cells",
    "noting_failure",
    "run_cells",
    "running",
    "status",
    "sweep",
    "train_cell",
    "write_cells",
]
