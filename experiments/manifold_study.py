"""How many particles, and which order? The information reached on MNIST 3 against 5, for K = 10 … 3000, order 2 … 6.

    python experiments/manifold_study.py study.png          # all orders: some 20 minutes on two free cores
    python experiments/manifold_study.py study.png 2 3      # some orders

Each is the recipe mnist_manifold on images of 14×14 with Adam 3e-3 and 300 steps, seed 0; all is measured on test
images: I_N and exp I_N on all of them cut into tuples, clusters at distance 0.3 and constant particles on 200.
"""

import argparse
import math
import re
import time
from pathlib import Path
from typing import NamedTuple

import torch
from matplotlib.figure import Figure

from refprior._style import INK, MARKERS, SERIES, SOFT, styled
from refprior.geometry import cover, embedding, information_of_tuples, is_constant
from refprior.recipes import named
from refprior.report._figures import as_png
from refprior.training import train

COUNTS = (10, 30, 100, 300, 1000, 3000)
ORDERS = (2, 3, 4, 5, 6)
RESOLUTION = 0.3  # two models at this distance, both certain, differ on 9 % of the images


class Reached(NamedTuple):
    """What K particles of one order came to."""

    particles: int
    order: int
    information: float
    clusters: int
    constant: float


def reach(count: int, order: int) -> Reached:
    settings = {"shrink": "2", "order": str(order), "particles": str(count), "optimizer.learning_rate": "3e-3"}
    run = train(named("mnist_manifold", {**settings, "snapshots": "0"}, seed=0).recipe)
    log_p = run.log_probabilities(run.task.held_out.inputs, ema=False)
    log_prior = run.particles.log_prior.detach()
    information = information_of_tuples(log_p, log_prior, order).mean().item()
    few = log_p[:, :200]
    clusters = len(cover(embedding(few), RESOLUTION))
    return Reached(count, order, information, clusters, is_constant(few).double().mean().item())


def read_table(page: Path) -> list[Reached]:
    """What `main` printed, from a text that holds it."""
    row = re.compile(r"^ *(\d+) +(\d+) +([\d.]+) +[\d.]+% +[\d.]+ +(\d+) +([\d.]+) +[\d.]+$", re.MULTILINE)
    found = row.findall(page.read_text())
    return [Reached(int(k), int(order), float(i), int(near), float(c) / 100) for order, k, i, near, c in found]


@styled
def figure(results: list[Reached]) -> Figure:
    drawn = Figure(figsize=(9.6, 3.4), layout="constrained")
    left, right = drawn.subplots(1, 2)
    orders = sorted({r.order for r in results})
    for order, color, marker in zip(orders, SERIES, MARKERS, strict=False):
        line = [r for r in results if r.order == order]
        counts, largest = [r.particles for r in line], order * math.log(2)
        style = {"color": color, "marker": marker, "ms": 4}
        left.semilogx(counts, [r.information / largest for r in line], label=f"order {order}", **style)
        right.loglog(counts, [math.exp(r.information) for r in line], **style)
        right.axhline(2**order, color=SOFT, lw=0.8, ls=":")
        right.text(COUNTS[-1], 2**order, f"$2^{order}$", va="bottom", ha="right", fontsize=7, color=SOFT)
        end = 0.97 * math.exp(line[-1].information)
        right.text(counts[-1], end, f"order {order}", va="top", ha="right", fontsize=7)
    most = orders[-1]
    bound = [min(1.0, math.log(k) / (most * math.log(2))) for k in COUNTS]
    left.plot(COUNTS, bound, "--", color=INK, lw=1, label=f"log K bounds order {most}")
    left.set(xlabel="particles K", ylabel="information / (N log 2)", ylim=(0, 1.03))
    right.set(xlabel="particles K", ylabel="exp(information)")
    right.set_yticks([2**n for n in orders], [str(2**n) for n in orders])
    right.set_yticks([], minor=True)
    left.legend()
    return drawn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("figure", type=Path, help="the picture to write (.png)")
    parser.add_argument("orders", type=int, nargs="*", default=ORDERS)
    parser.add_argument("--table", type=Path, help="draw what this text has of an earlier run, and train nothing")
    asked = parser.parse_args()
    if asked.table is not None:
        asked.figure.write_bytes(as_png(figure(read_table(asked.table))))
        return
    results = []
    print("order     K  information  of N log 2  exp(information)  clusters at 0.3  constant %  seconds")
    for order in asked.orders:
        for count in COUNTS if order == 2 else COUNTS[:-1]:  # K = 3000 adds nothing to K = 1000 at order 2
            started = time.perf_counter()
            r = reach(count, order)
            results.append(r)
            share, number = r.information / (order * math.log(2)), math.exp(r.information)
            cells = f"{order:5} {count:5}  {r.information:11.3f}  {100 * share:9.1f}%  {number:16.1f}  {r.clusters:15}"
            print(f"{cells}  {100 * r.constant:10.2f}  {time.perf_counter() - started:7.1f}", flush=True)
    asked.figure.write_bytes(as_png(figure(results)))


if __name__ == "__main__":
    torch.set_num_threads(min(2, torch.get_num_threads()))
    main()
