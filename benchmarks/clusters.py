"""The clusterer beside its peers, without any label: `python -m benchmarks.clusters`.

Embeddings of CIFAR-10, scikit-learn's digits and 64 principal components of Fashion-MNIST, four seeds. Five classes are
clustered without a source, and with the other five classes and their labels as a source; all ten are clustered too. The
peers see the target alone. Every method has the settings of its publication or its defaults, the same for all data:
nothing was chosen by labels. Every cell is a line in benchmarks/clusters.jsonl, so that a stopped run continues;
`--table` prints mean and least accuracy after matching, and what is not finished.
"""

import argparse
import json
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from experiments.vectors import read
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import NearestNeighbors
from torch.nn.functional import one_hot

import refprior as rp
from refprior.estimators._clusterer import STABLE

RESULTS = Path(__file__).with_suffix(".jsonl")
DATA = ("digits", "embeddings", "fashion-mnist")
TARGETS = {"high": range(5, 10), "low": range(5), "all": range(10)}
_ROWS = 5000
Source = tuple[np.ndarray, np.ndarray] | None


class Rows(NamedTuple):
    """Rows of unit variance on average, and their classes."""

    X: np.ndarray  # (n, D)
    y: np.ndarray  # (n,)


@cache
def load(name: str) -> Rows:
    """Read at most 5,000 rows of a data set."""
    if name == "fashion-mnist":
        data = rp.data.read(name)
        inputs, y = data.train.inputs[:_ROWS].flatten(1).float(), data.train.labels[:_ROWS].numpy()
    else:
        found = read(name)
        inputs, y = torch.from_numpy(found.pool[:_ROWS]).float(), found.pool_labels[:_ROWS]
    components = rp.data.PrincipalComponents(64, whitening=0, scaled="all").fit([inputs])
    return Rows(components(inputs).numpy(), y)


def reference_prior(X: np.ndarray, clusters: int, seed: int, source: Source) -> tuple[np.ndarray, np.ndarray]:
    """Return the clusters, and those of the first run, which are the same if it was stable."""
    first = rp.ReferencePriorClusterer(clusters, restarts=0, random_state=seed).fit(X, source=source)
    if not first.stability_ < STABLE:
        return first.labels_, first.labels_
    return rp.ReferencePriorClusterer(clusters, random_state=seed).fit(X, source=source).labels_, first.labels_


def k_means(X: np.ndarray, clusters: int, seed: int) -> np.ndarray:
    return np.asarray(KMeans(clusters, n_init=10, random_state=seed).fit_predict(X))


def turtle(X: np.ndarray, clusters: int, seed: int, steps: int = 2000, inner: int = 10) -> np.ndarray:
    """TURTLE (Gadetsky et al., 2024) on one space: labels that a linear classifier, trained on them, predicts best.

    min_θ CE(f_w(x), τ_θ(x)) - γ H(mean of τ_θ), with w after some gradient steps on τ_θ from the previous w.
    """
    generator = torch.Generator().manual_seed(seed)
    z = torch.from_numpy(X)
    z = z / z.norm(dim=1, keepdim=True).clamp(min=1e-9)
    task = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(z.shape[1], clusters))
    with torch.no_grad():
        for tensor in task.parameters():
            tensor.copy_(torch.randn(tensor.shape, generator=generator) / z.shape[1] ** 0.5)
    model = torch.nn.Linear(z.shape[1], clusters)
    with torch.no_grad():
        model.weight.copy_(torch.randn(model.weight.shape, generator=generator) / z.shape[1] ** 0.5)
        model.bias.zero_()
    outer = torch.optim.Adam(task.parameters(), lr=1e-3)
    learner = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _step in range(steps):
        rows = z[torch.randperm(len(z), generator=generator)[:2048]]
        labels = task(rows).softmax(-1)
        for _inner in range(inner):
            learner.zero_grad()
            torch.nn.functional.cross_entropy(model(rows), labels.detach()).backward()
            learner.step()
        mean = labels.mean(0)
        loss = -(labels * model(rows).log_softmax(-1).detach()).sum(-1).mean() + 10 * (mean * mean.log()).sum()
        outer.zero_grad()
        loss.backward()
        outer.step()
    with torch.no_grad():
        return np.asarray(task(z).argmax(-1))


def consensus_of_heads(X: np.ndarray, clusters: int, seed: int, heads: int = 16) -> np.ndarray:
    """Clusters of neighbors by many linear heads, their consensus, and a classifier of it, after ICCE (2025).

    A head minimizes -log Σ_c (p_c(x) p_c(x'))^0.6 / p_c for neighbors x and x', p_c the mean of the head (TEMI).
    """
    generator = torch.Generator().manual_seed(seed)
    z = torch.from_numpy(X)
    z = z / z.norm(dim=1, keepdim=True).clamp(min=1e-9)
    near = torch.from_numpy(NearestNeighbors(n_neighbors=21).fit(z.numpy()).kneighbors(return_distance=False)[:, 1:])
    weight = (torch.randn(heads, z.shape[1], clusters, generator=generator) * 3).requires_grad_()
    optimizer = torch.optim.Adam([weight], lr=0.05)
    for _step in range(500):
        rows = torch.randint(len(z), (512,), generator=generator)
        other = near[rows, torch.randint(near.shape[1], (512,), generator=generator)]
        p, q = ((z[chosen] @ weight).softmax(-1) for chosen in (rows, other))  # (H, B, C)
        mean = ((p + q) / 2).mean(1, keepdim=True)
        loss = -((p * q).pow(0.6) / mean).sum(-1).log().mean(1).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    labels = one_hot((z @ weight.detach()).argmax(-1), clusters)  # (H, n, C)
    code = labels.transpose(0, 1).flatten(1).float().numpy()
    found = KMeans(clusters, n_init=10, random_state=seed).fit_predict(code)
    return np.asarray(LogisticRegression(max_iter=300).fit(X, found).predict(X))


Method = Callable[[np.ndarray, int, int], np.ndarray]
PEERS: dict[str, Method] = {"k-means": k_means, "TURTLE": turtle, "consensus of heads": consensus_of_heads}
OURS = ("reference prior", "reference prior, source")


def matched_accuracy(clusters: np.ndarray, y: np.ndarray) -> float:
    """Return the accuracy, %, after the best assignment of clusters to classes."""
    counts = np.zeros((clusters.max() + 1, y.max() + 1))
    np.add.at(counts, (clusters, y), 1)
    return 100 * float(counts[linear_sum_assignment(-counts)].sum() / len(y))


def measure(data: str, target: str, method: str, seed: int) -> dict[str, float]:
    """Return accuracy after matching, %, and processor seconds of a cell."""
    rows, start = load(data), time.process_time()
    inside = np.isin(rows.y, list(TARGETS[target]))
    y = np.unique(rows.y[inside], return_inverse=True)[1]
    if method in PEERS:
        found = PEERS[method](rows.X[inside], len(TARGETS[target]), seed)
        return {"accuracy": matched_accuracy(found, y), "seconds": time.process_time() - start}
    source = (rows.X[~inside], rows.y[~inside]) if method == OURS[1] else None
    found, first = reference_prior(rows.X[inside], len(TARGETS[target]), seed, source)
    seconds = time.process_time() - start
    return {"accuracy": matched_accuracy(found, y), "first": matched_accuracy(first, y), "seconds": seconds}


def cells() -> list[dict[str, object]]:
    return [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []


def wanted(seeds: int) -> list[tuple[str, str, str, int]]:
    """Return all cells: data, target, method, seed."""
    return [
        (data, target, method, seed)
        for seed in range(seeds)
        for data in DATA
        for target in TARGETS
        for method in (OURS[0], *PEERS, *([] if target == "all" else OURS[1:]))
    ]


def print_table(seeds: int) -> None:
    """Print mean and least accuracy after matching over the seeds, and the number of seeds where some are missing."""
    found = {tuple(cell[key] for key in ("data", "target", "method", "seed")): cell for cell in cells()}
    columns = [(data, target) for data in DATA for target in TARGETS]
    print("| method |", " | ".join(f"{data}, {target}" for data, target in columns), "|")
    print("|---|" + "---|" * len(columns))
    lines = [(method, "accuracy") for method in (*OURS, *PEERS)] + [(method, "first") for method in OURS]
    for method, score in lines:
        texts = []
        for data, target in columns:
            some = [found[key] for seed in range(seeds) if (key := (data, target, method, seed)) in found]
            right = [float(str(cell[score])) for cell in some]
            count = "" if len(some) == seeds else f", {len(some)} seeds"
            texts.append(f"{np.mean(right):.1f} ({min(right):.1f}{count})" if right else "–")
        print(f"| {method}{', one run' * (score == 'first')} |", " | ".join(texts), "|")
    missing = [key for key in wanted(seeds) if key not in found]
    print(f"\nunfinished: {len(missing)} of {len(wanted(seeds))} cells")


def main() -> None:
    chosen = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    chosen.add_argument("--seeds", type=int, default=4)
    chosen.add_argument("--data", nargs="+", default=list(DATA), choices=DATA)
    chosen.add_argument("--table", action="store_true", help="print the table of what is finished")
    options = chosen.parse_args()
    torch.set_num_threads(1)
    there = {tuple(cell[key] for key in ("data", "target", "method", "seed")) for cell in cells()}
    for key in () if options.table else wanted(options.seeds):
        if key in there or key[0] not in options.data:
            continue
        line = json.dumps(dict(zip(("data", "target", "method", "seed"), key, strict=True)) | measure(*key))
        with RESULTS.open("a") as file:
            file.write(line + "\n")
        print(line, flush=True)
    print_table(options.seeds)


if __name__ == "__main__":
    main()
