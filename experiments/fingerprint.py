"""Fingerprint trained weights and exact priors, to compare two versions of refprior on one machine.

    python experiments/fingerprint.py before.json          # with the old version
    python experiments/fingerprint.py after.json           # with the new one
    python experiments/fingerprint.py --compare before.json after.json

A run's fingerprint is a hash of all its weights after a few steps. A prior's are its
atoms, weights, information and gap.
"""

import argparse
import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from refprior import exact
from refprior.exact import models

RUNS: dict[str, dict[str, Any]] = {
    "digits_ssl": {},
    "label_free_transfer": {"data": "digits"},
    "fine_tuning": {"data": "digits"},
}
COINS = (1, 2, 3, 4, 5, 7, 10, 15, 20, 25, 30, 40, 50, 70, 100, 150, 200, 300, 400, 3000)
GAUSSIANS = (0.5, 1.0, 1.6, 1.7, 2.0, 2.8, 2.95, 4.0, 6.0, 10.0, 20.0)
POISSONS = (0.5, 1.0, 2.0, 3.3, 3.4, 5.0, 10.0, 30.0, 100.0, 400.0)
TWO_STAGES = [(1, 1), (2, 1), (1, 2), (5, 5), (10, 5), (20, 20)]  # m, n


def priors() -> Mapping[str, Callable[[], exact.Solution]]:
    """Return 70 problems by name: one and two stages, one and two parameters, tables, and ready-made models."""
    rng = np.random.default_rng(0)
    sizes = ((2, 2), (3, 2), (4, 4), (10, 5), (30, 8))
    one_stage: dict[str, Callable[[], exact.Channel]] = {
        **{f"Coin({n})": partial(exact.Coin, n) for n in COINS},
        **{f"Gaussian({a})": partial(exact.Gaussian, a) for a in GAUSSIANS},
        **{f"Poisson({a})": partial(exact.Poisson, a) for a in POISSONS},
        **{f"table {r}x{c}": partial(exact.Categorical, rng.dirichlet(np.ones(c), r)) for r, c in sizes},
        "Z-channel": lambda: exact.Categorical([[1.0, 0.0], [0.3, 0.7]]),
        **{f"TwoCoins({n})": partial(exact.TwoCoins, n) for n in (1, 3, 6, 12)},
        "Product(Coin(3), Gaussian(2))": lambda: exact.Product(exact.Coin(3), exact.Gaussian(2.0)),
        "weather, 10 days": lambda: exact.Categorical([[0.9, 0.1], [0.6, 0.4]]).repeat(10),
        "rasch": lambda: models.rasch([-1.0, 0.0, 1.0]),
        "hardy_weinberg": lambda: models.hardy_weinberg(20),
        "negative_binomial": lambda: models.negative_binomial(3),
        "exponential_lifetime": lambda: models.exponential_lifetime(),
        "multinomial": lambda: models.multinomial(3, 4),
    }
    two_stages = {
        f"coins, {m} then {n}, beta {beta}": partial(exact.two_stage_prior, exact.Coin, m=m, n=n, beta=beta)
        for m, n in TWO_STAGES
        for beta in (1.0, 0.5)
    }
    return {name: partial(_solve, make) for name, make in one_stage.items()} | two_stages


def _solve(make: Callable[[], exact.Channel]) -> exact.Solution:
    return exact.reference_prior(make())


def prior_record(solution: exact.Solution) -> dict[str, Any]:
    """Return what identifies a solution, in plain numbers."""
    return {
        "atoms": np.asarray(solution.atoms).tolist(),
        "weights": solution.weights.tolist(),
        "information": solution.information,
        "gap": solution.gap,
        "evidence": solution.evidence,
        "atoms_certified": solution.atoms_certified,
    }


def weights_hash(name: str, settings: dict[str, Any], steps: int) -> str:
    """Train a recipe for a few steps and hash its weights, their moving average included."""
    import torch

    import refprior as rp

    torch.set_num_threads(1)
    recipe = getattr(rp.recipes, name)(**settings)
    start = {"start.steps": steps} if recipe.start is not None else {}
    run = rp.train(rp.recipes.override(recipe, {"steps": steps, **start}))
    digest = hashlib.sha256()
    for particles in (run.particles, run.ema):
        for tensor in particles.state_dict().values():
            digest.update(tensor.contiguous().numpy().tobytes())
    return digest.hexdigest()


def compare(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Print what differs, and a summary."""
    for name in before["weights"].keys() & after["weights"].keys():
        found = before["weights"][name]
        print(f"{name:40} {'identical' if after['weights'][name] == found else 'DIFFERENT'}")
    equal = 0
    for name, old in before["priors"].items():
        new = after["priors"][name]
        if all(new[key] == old[key] for key in ("atoms", "weights", "information")):
            equal += 1
            if (new["gap"], new["evidence"]) != (old["gap"], old["evidence"]):
                print(f"{name:40} gap {old['gap']:.2g} → {new['gap']:.2g}, {old['evidence']} → {new['evidence']}")
            continue
        atoms = f"{len(old['atoms'])} → {len(new['atoms'])} atoms"
        shift = new["information"] - old["information"]
        print(
            f"{name:40} {atoms}, information {shift:+.1e}, gap {old['gap']:.2g} → {new['gap']:.2g}, {new['evidence']}"
        )
    seconds = [sum(run["seconds"].values()) for run in (before, after)]
    print(f"{equal} of {len(before['priors'])} priors are bit-identical; {seconds[0]:.1f} s → {seconds[1]:.1f} s")


def main() -> None:
    """Write fingerprints to a file, or compare two files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, nargs="?", help="file for the fingerprints")
    parser.add_argument("--compare", type=Path, nargs=2, metavar=("BEFORE", "AFTER"))
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--only", choices=("weights", "priors"))
    arguments = parser.parse_args()
    if arguments.compare:
        compare(*(json.loads(path.read_text()) for path in arguments.compare))
        return
    record: dict[str, Any] = {"weights": {}, "priors": {}, "seconds": {}}
    if arguments.only != "priors":
        for name, settings in RUNS.items():
            record["weights"][name] = weights_hash(name, settings, arguments.steps)
            print(name, record["weights"][name][:16])
    if arguments.only != "weights":
        problems = priors()
        for name, solve in problems.items():
            began = time.perf_counter()
            record["priors"][name] = prior_record(solve())
            record["seconds"][name] = time.perf_counter() - began
            print(f"{name:40} {record['seconds'][name]:7.2f} s  {record['priors'][name]['gap']:.1e}")
        print(len(problems), "priors")
    arguments.out.write_text(json.dumps(record, indent=1) + os.linesep)


if __name__ == "__main__":
    main()
