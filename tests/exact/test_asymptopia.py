"""The numbers of atoms that docs/asymptopia.md states."""

import json
from pathlib import Path

import numpy as np
import pytest
from experiments import asymptopia

RECORDS = [json.loads(line) for line in Path(asymptopia.__file__).with_suffix(".jsonl").read_text().splitlines()]


def test_counts_follow_the_scaling_law() -> None:
    """Two fitted numbers are within one atom of every count."""
    n, atoms = np.array([(r["n"], r["atoms"]) for r in RECORDS if r.get("atoms") and "n" in r], dtype=float).T
    slope, offset = np.polyfit(n ** (2 / 3), atoms, 1)
    assert n.max() == 1000
    assert np.abs(offset + slope * n ** (2 / 3) - atoms).max() < 0.5


@pytest.mark.parametrize("n", [2, 20, 100])
def test_counts_are_solved_to_many_digits(n: int) -> None:
    pytest.importorskip("flint")
    record = asymptopia.counted(n)
    assert record["atoms"] == {2: 3, 20: 7, 100: 17}[n]
    assert record["residual"] < 1e-60
    assert record["between"] < 0


@pytest.mark.parametrize("count", [4, 6])
def test_other_numbers_of_atoms_are_not_counted(count: int) -> None:
    """Ten tosses have five atoms: with four or six the steps do not end, or G exceeds J between atoms."""
    pytest.importorskip("flint")
    found = asymptopia.refined(10, np.linspace(0, np.pi, count), np.full(count, 1 / count))
    assert found is None or found[1] > 0
