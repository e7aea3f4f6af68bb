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


def test_one_atom_too_few_leaves_a_gain_above_the_information() -> None:
    pytest.importorskip("flint")
    found = asymptopia.refined(10, np.array([0.0, 1.1, np.pi - 1.1, np.pi]), np.array([0.3, 0.2, 0.2, 0.3]))
    assert found is not None
    assert found[1] > 1e-4
