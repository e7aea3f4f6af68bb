"""Which inputs to label next: what 30 more labels are worth, chosen in several ways, after a run with 20.

    python experiments/asking.py FOLDER [SEEDS, 0,1,2 by default]

For each seed: digits_ssl with 20 labels, then 30 more of the pool, and 300 steps from the weights of the first run with
all 50. Chosen at random; by the entropy of the ensemble; and as `refprior suggest` does. Accuracy on the validation and
the test part. The runs of the first stage are kept in FOLDER.
"""

import statistics
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

import refprior as rp
from refprior.labeling import Questions, continuation, suggest

MORE, STEPS = 30, 300


def at_random(run: rp.Run) -> tuple[int, ...]:
    generator = torch.Generator().manual_seed(run.recipe.seed)
    return tuple(torch.randperm(len(run.task.unlabeled), generator=generator)[:MORE].tolist())


def by_entropy(run: rp.Run) -> tuple[int, ...]:
    return tuple(run.uncertainty(run.task.unlabeled).total.topk(MORE).indices.tolist())


def suggested(run: rp.Run) -> tuple[int, ...]:
    return suggest(run, MORE).open


CHOICES: dict[str, Callable[[rp.Run], tuple[int, ...]]] = {
    "random": at_random,
    "entropy": by_entropy,
    "suggest": suggested,
}


def truth(run: rp.Run) -> list[int]:
    """The labels of the pool, found by comparing images: the task does not have them."""
    data = rp.data.read("digits").train
    known = {image.numpy().tobytes(): int(y) for image, y in zip(data.inputs, data.labels, strict=True)}
    return [known[image.numpy().tobytes()] for image in run.task.unlabeled]


def measure(folder: Path, seed: int) -> dict[str, tuple[float, float]]:
    """Accuracy in per cent on the validation and the test part, after each choice."""
    recipe = replace(rp.recipes.digits_ssl(labels=20, seed=seed), evaluate_every=STEPS)
    run = rp.train(recipe, folder / f"digits-20-{seed}")
    labels, found = truth(run), {"20 labels": _accuracies(run)}
    for name, choose in CHOICES.items():
        asked = choose(run)
        questions = Questions(asked, tuple(labels[i] for i in asked))
        after = rp.train(continuation(run, questions, replace(recipe, steps=STEPS)), first_stage=run)
        found[name] = _accuracies(after)
        print(f"seed {seed}, {name}: {found[name]}", file=sys.stderr, flush=True)
    return found


def _accuracies(run: rp.Run) -> tuple[float, float]:
    evaluation = run.result.evaluation
    assert evaluation is not None
    assert evaluation.validation is not None
    assert evaluation.test is not None
    return tuple(100 * part.ema.accuracy for part in (evaluation.validation, evaluation.test))  # type: ignore[return-value]


def main() -> None:
    if not sys.argv[1:]:
        sys.exit("give a folder for the runs")
    torch.set_num_threads(1)
    seeds = [int(seed) for seed in (sys.argv[2] if len(sys.argv) > 2 else "0,1,2").split(",")]
    rows = [measure(Path(sys.argv[1]), seed) for seed in seeds]
    print("| chosen | validation, % | test, % | test, each seed |\n|---|---|---|---|")
    for name in rows[0]:
        parts = list(zip(*(row[name] for row in rows), strict=True))
        means = (f"{statistics.mean(p):.1f} ± {statistics.stdev(p):.1f}" for p in parts)
        print(f"| {name} |", " | ".join(means), "|", ", ".join(f"{value:.1f}" for value in parts[1]), "|")


if __name__ == "__main__":
    main()
