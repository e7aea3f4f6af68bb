"""Attack the certificates with 2200 random models and count false answers.

    python -m tests.exact.attack [--share 1.0] [--first 0] [--only cusps,jumps] [--out results.json]

Prints each false answer with its family and seed, and a table. `--first` is the first seed of every family.
With `--only`, results of other families in the file stay as they are.
"""

import argparse
import json
import platform
import subprocess
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

from tests.exact.attack.families import FAMILIES

OUT = Path(__file__).with_name("results.json")


def main() -> None:
    """Run the attack and write its counts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--share", type=float, default=1.0, help="of the 2200 models")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--only", default="", help="families, with commas between them")
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)  # unfinished priors are counted
    chosen = {family: count for family, count in FAMILIES.items() if family.__name__ in arguments.only.split(",")}
    old = json.loads(arguments.out.read_text()) if chosen and arguments.out.exists() else {"families": {}, "false": []}
    families = old["families"]
    false = [entry for entry in old["false"] if entry["family"] not in {family.__name__ for family in chosen}]
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout
    began = time.time()
    for family, count in (chosen or FAMILIES).items():
        start, kinds, numbers = time.process_time(), Counter[str](), 0
        seeds = range(arguments.first, arguments.first + max(1, round(arguments.share * count)))
        for seed in seeds:
            answer = family(np.random.default_rng(seed))
            kinds[answer.evidence] += 1
            numbers += answer.atoms_certified
            if answer.false is not None:
                false.append({"family": family.__name__, "seed": seed, "why": answer.false})
                print(f"FALSE {family.__name__} {seed}: {answer.false}", flush=True)
        families[family.__name__] = {
            "commit": commit.strip(),
            "models": len(seeds),
            "first_seed": arguments.first,
            "false": sum(entry["family"] == family.__name__ for entry in false),
            "evidence": dict(kinds),
            "numbers_of_atoms_certified": numbers,
            "seconds": round(time.process_time() - start, 1),
        }
        print(family.__name__, families[family.__name__], flush=True)
    total = sum(int(str(entry["models"])) for entry in families.values())
    record = {
        "models": total,
        "false": false,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "families": families,
    }
    arguments.out.write_text(json.dumps(record, indent=1) + "\n")
    print(f"{len(false)} false answers in {total} models, {time.time() - began:.0f} s")


if __name__ == "__main__":
    main()
