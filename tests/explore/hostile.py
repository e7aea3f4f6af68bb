"""A run whose classes, features, settings and folder are all markup that a careless page would obey."""

import csv
from pathlib import Path

import numpy as np

from refprior.recipes import CustomData, named
from refprior.training import train

MARKUP = "<img src=x onerror=\"document.title='obeyed'\">"


def hostile_run(folder: Path) -> Path:
    """Rows of a table; the classes and one column are called so."""
    table, random = folder.parent / f"{MARKUP[:8]}table.csv", np.random.default_rng(0)
    with table.open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["kind", MARKUP, "plain"])
        lines.writerows([f"{MARKUP}{i % 2}", *random.normal(i % 2, 1, 2).round(3)] for i in range(60))
    settings = {"steps": "3", "particles": "2", "labels": "4", "task.target": "kind", "task.test": "10"}
    recipe, origin = named("digits_ssl", settings, CustomData(str(table)), seed=0)
    train(recipe, folder / f"{MARKUP[:9]}<b>run", origin=origin)
    return folder
