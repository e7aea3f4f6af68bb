"""What a consensus without labels is worth: against clusters of the pixels, and with labels asked for or drawn.

    python experiments/label_free.py RUNS…

RUNS are folders of `refprior train label_free_transfer`. For each target task: accuracy of the consensus on the test
part, the label-free score beside it, k-means of the same code, k-means and spectral clusters of the pixels of the same
images, and accuracy with 5, 10 and 20 labels, asked for (`refprior suggest`) or drawn at random (mean of ten draws). At
the end, the rank correlation of score and accuracy, in each data set and over all runs.
"""

import math
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import torch
from scipy.stats import spearmanr
from sklearn.cluster import KMeans, SpectralClustering
from sklearn.neighbors import KNeighborsClassifier
from torch import Tensor

from refprior.data import FewLabels, Pair, Task
from refprior.labeling import classifier, classify, suggest
from refprior.posterior import match, output_code
from refprior.training import Run, load
from refprior.training.loop import CONSENSUS_INPUTS, evenly_spaced

BUDGETS, DRAWS = (5, 10, 20), 10
Row = dict[str, float]


def pixels(images: Tensor) -> np.ndarray:
    return images.flatten(1).numpy() / 255.0


def matched(clusters: np.ndarray, task: Task) -> float:
    """Accuracy of clusters of the test part, matched to its classes."""
    found, labels = torch.from_numpy(clusters).long(), task.held_out.labels
    return 100 * (match(found, labels, len(task.classes))[found] == labels).double().mean().item()


def k_means_of_pixels(task: Task) -> float:
    found = KMeans(len(task.classes), n_init=10, random_state=0)
    return matched(
        found.fit(pixels(evenly_spaced(task.unlabeled, CONSENSUS_INPUTS))).predict(pixels(task.held_out.inputs)), task
    )


def spectral_of_pixels(task: Task) -> float:
    """The same kind of clusters as the consensus has, of pixels: 3 % of the images as neighbors, ten votes."""
    pool = pixels(evenly_spaced(task.unlabeled, CONSENSUS_INPUTS))
    found = SpectralClustering(
        len(task.classes),
        affinity="nearest_neighbors",
        n_neighbors=round(0.03 * len(pool)),
        assign_labels="cluster_qr",
        random_state=0,
    ).fit_predict(pool)
    return matched(KNeighborsClassifier(10).fit(pool, found).predict(pixels(task.held_out.inputs)), task)


def k_means_of_code(run: Run) -> float:
    """The other way to cluster the code of a run."""
    pool, unseen = (_code(run, images) for images in (evenly_spaced(run.task.unlabeled, CONSENSUS_INPUTS), test(run)))
    return matched(KMeans(len(run.task.classes), n_init=10, random_state=0).fit(pool).predict(unseen), run.task)


def _code(run: Run, images: Tensor) -> np.ndarray:
    return output_code(run.log_probabilities(images), run.ema.log_prior.detach()).numpy()


@cache
def of_pixels(clusters: Callable[[Task], float], target: FewLabels) -> float:
    return clusters(target())


def few_labels(run: Run, truth: Tensor, budget: int) -> tuple[float, float]:
    """Accuracy on the test part with labels asked for, and with labels drawn at random."""
    questions = suggest(run, budget)
    asked = classifier(run, questions.answer(truth[list(questions.open)].tolist()))
    found, generator, drawn = run.consensus(), torch.Generator().manual_seed(run.recipe.seed), []
    for _ in range(DRAWS):
        chosen = torch.randperm(len(truth), generator=generator)[:budget]
        log_p = run.log_probabilities(run.task.unlabeled[chosen])
        drawn.append(accuracy(run, classify(run, found.named(log_p, truth[chosen], len(run.task.classes)), test(run))))
    return accuracy(run, classify(run, asked, test(run))), statistics.mean(drawn)


def test(run: Run) -> Tensor:
    return run.task.held_out.inputs


def accuracy(run: Run, classes: Tensor) -> float:
    return 100 * (classes == run.task.held_out.labels).double().mean().item()


def measure(path: Path) -> tuple[tuple[str, str], Row]:
    """(data set, target) of a run, and its numbers."""
    run = load(path)
    pair, evaluation = run.recipe.task, run.result.evaluation
    if not isinstance(pair, Pair) or evaluation is None or evaluation.consensus is None:
        raise ValueError(f"{path} is not a run of label_free_transfer")
    full = replace(pair.target, labels=None)().labeled
    if not torch.equal(full.inputs, run.task.unlabeled):
        raise ValueError(f"the labels of {run.data.name} do not belong to the images of {path}")
    row = {
        "consensus": 100 * (evaluation.consensus.test or math.nan),
        "stability": 100 * (evaluation.consensus.stability or math.nan),
    }
    row["k-means, code"] = k_means_of_code(run)
    row["k-means, pixels"] = of_pixels(k_means_of_pixels, replace(pair.target, seed=0))
    row["spectral, pixels"] = of_pixels(spectral_of_pixels, replace(pair.target, seed=0))
    for budget in BUDGETS:
        row[f"{budget} asked"], row[f"{budget} drawn"] = few_labels(run, full.labels, budget)
    return (str(pair.target.data), "-".join(run.data.classes)), row | {"seconds": run.result.seconds}


def main() -> None:
    if not sys.argv[1:]:
        sys.exit("give run folders of label_free_transfer")
    rows: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for path in map(Path, sys.argv[1:]):
        name, row = measure(path)
        rows[name].append(row)
        print(f"{path.name}: consensus {row['consensus']:.1f} %, stability {row['stability']:.1f} %", flush=True)
    columns = list(next(iter(rows.values()))[0])
    print("\n| data, target | runs |", " | ".join(columns), "|")
    print("|---|---|" + "---|" * len(columns))
    for (data, target), each in rows.items():
        values = [[row[column] for row in each] for column in columns]
        cells = [f"{np.mean(v):.1f} ± {np.std(v, ddof=1):.1f}" if len(set(v)) > 1 else f"{v[0]:.1f}" for v in values]
        print(f"| {data}, {target} | {len(each)} |", " | ".join(cells), "|")
    print()
    for data in [*sorted({name[0] for name in rows}), ""]:
        chosen = [row for name, each in rows.items() for row in each if data in ("", name[0])]
        if len(chosen) > 2:
            rank = spearmanr([r["stability"] for r in chosen], [r["consensus"] for r in chosen]).statistic
            print(f"rank correlation of stability and accuracy, {data or 'all'}: {rank:.2f} ({len(chosen)} runs)")


if __name__ == "__main__":
    main()
