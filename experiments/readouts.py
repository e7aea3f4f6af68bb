"""Ways to read the particles of a semi-supervised run: what they predict together, and clusters that the labels name.

    python experiments/readouts.py RUNS…

RUNS are folders of runs with labels. For each recipe: accuracy on the validation and the test part of the posterior
predictive with the prior's and with the likelihood's weights, of the mean of logarithms, and of the consensus: as many
clusters as classes, and three times as many, named by the labeled images.
"""

import statistics
import sys
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from refprior.report import summarize
from refprior.training import Run, load


def consensus(run: Run, images: Tensor, times: int = 1) -> Tensor:
    """Clusters without labels, `times` as many as classes, named by the labeled images."""
    labeled, classes = run.task.labeled, len(run.data.classes)
    found = run.consensus(times * classes).named(run.log_probabilities(labeled.inputs), labeled.labels, classes)
    return found.predict(run.log_probabilities(images))


def predicted(run: Run, images: Tensor, **how: str) -> Tensor:
    return torch.as_tensor(run.predict_proba(images, **how)).argmax(-1)  # type: ignore[call-overload]


READOUTS: dict[str, Callable[[Run, Tensor], Tensor]] = {
    "prior's weights": predicted,
    "likelihood's weights": partial(predicted, weighting="likelihood"),
    "mean of logarithms": partial(predicted, average="logits"),
    "consensus": consensus,
    "consensus, 3 C clusters": partial(consensus, times=3),
}


def measure(path: Path) -> tuple[str, dict[str, list[float]]]:
    """What a run is called, and the accuracies of each readout on the validation and the test part."""
    run = load(path)
    parts = [part for part in (run.task.validation, run.task.test) if part is not None]
    row = {
        name: [100 * (readout(run, part.inputs) == part.labels).double().mean().item() for part in parts]
        for name, readout in READOUTS.items()
    }
    return summarize(path).label, row


def main() -> None:
    if not sys.argv[1:]:
        sys.exit("give folders of runs with labels")
    rows: dict[str, list[dict[str, list[float]]]] = defaultdict(list)
    for path in map(Path, sys.argv[1:]):
        name, row = measure(path)
        rows[name].append(row)
        print(f"{path}: done", file=sys.stderr, flush=True)
    print("| validation / test, % | runs |", " | ".join(READOUTS), "|")
    print("|---|---|" + "---|" * len(READOUTS))
    for name, each in rows.items():
        cells = [
            " / ".join(_mean(values) for values in zip(*(row[readout] for row in each), strict=True))
            for readout in READOUTS
        ]
        print(f"| {name} | {len(each)} |", " | ".join(cells), "|")


def _mean(values: tuple[float, ...]) -> str:
    return f"{statistics.mean(values):.2f}" + (f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else "")


if __name__ == "__main__":
    main()
