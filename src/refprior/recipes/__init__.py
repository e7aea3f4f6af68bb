"""Recipes: functions that return a `Recipe`; the docstring of each is its record."""

from refprior.recipes._named import RECIPES, Named, again, named
from refprior.recipes._sweep import Cell, Outcome, cells, matrix_cells, run_cells

__all__ = ["RECIPES", "Cell", "Named", "Outcome", "again", "cells", "matrix_cells", "named", "run_cells"]
