"""Cells of an experiment: each is measured once per seed, as a line of a .jsonl file, and never again."""

import argparse
import json
import re
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import torch

Cell = tuple[str, Callable[[int], dict[str, float]]]  # its name, and the function that measures it for a seed
Rows = dict[str, dict[int, dict[str, float]]]  # by cell and seed
EMBEDDINGS = Path(__file__).parents[2] / "shared/data/cifar10_effnetlite0_pca128.npz"


def read(path: Path) -> Rows:
    """Return the rows of a file by cell and seed."""
    rows: Rows = defaultdict(dict)
    for line in path.read_text("utf-8").splitlines() if path.exists() else ():
        record = json.loads(line)
        rows[record["cell"]][record["seed"]] = record
    return rows


def spread(values: Sequence[float]) -> tuple[float, float]:
    """Return mean and standard deviation."""
    return statistics.mean(values), statistics.stdev(values) if len(values) > 1 else 0.0


def marks(program: str) -> tuple[str, str]:
    """Return the lines of a page between which the tables of a program go."""
    return f"<!-- tables of experiments/{Path(program).name} -->\n", "<!-- end -->\n"


def main(
    description: str | None, tiers: Iterable[Iterable[Cell]], tables: Callable[[Rows, set[int]], str], seeds: str
) -> None:
    """Measure the missing cells, tier by tier and seed by seed, or print the tables or write them into a page."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="file of results, one line per cell and seed")
    parser.add_argument("--only", default="", help="pattern of the names of cells")
    parser.add_argument("--seeds", default=seeds)
    parser.add_argument("--minutes", type=float, default=60, help="processor time")
    parser.add_argument("--table", action="store_true", help="print the tables of the file")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="replace the tables between two marks of a page")
    options = parser.parse_args()
    chosen, rows = [int(seed) for seed in options.seeds.split(",")], read(options.results)
    if options.table:
        print(tables(rows, set(chosen)))
    if options.write is not None:
        begin, end = marks(sys.argv[0])
        before, found, rest = options.write.read_text("utf-8").partition(begin)
        _, closed, after = rest.partition(end)
        if not (found and closed):
            parser.error(f"{options.write} has no lines {begin.strip()} and {end.strip()} for the tables")
        options.write.write_text(f"{before}{begin}{tables(rows, set(chosen))}{end}{after}", "utf-8")
    if options.table or options.write is not None:
        return
    torch.set_num_threads(1)
    for tier in tiers:
        cells = [cell for cell in tier if re.search(options.only, cell[0])]
        for seed in chosen:
            for name, measure in cells:
                if seed in rows[name]:
                    continue
                if time.process_time() > 60 * options.minutes:
                    return
                try:
                    rows[name][seed] = measure(seed)
                except ValueError as error:  # such as labels that cannot be divided into folds
                    print(f"{name}, seed {seed}: {error}", file=sys.stderr)
                    continue
                with options.results.open("a", encoding="utf-8") as file:
                    record = {"cell": name, "seed": seed, **rows[name][seed]}
                    print(json.dumps(record, ensure_ascii=False), file=file)
