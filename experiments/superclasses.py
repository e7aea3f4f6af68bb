"""Do unlabeled images pay between superclasses of CIFAR-100? Objectives on stored views, by validation images.

    python experiments/superclasses.py [SEEDS]

Vehicles 2 teaches vehicles 1 (fig:matrix): 1,000 source and 100 target labels, 500 validation images, never a test
image. A first stage without labels, `PatchComponents` with 200 filters, is fitted to the images of both tasks. The
networks are small and see views that were made once, 3 weak and 4 strong ones, so that a run takes seconds. By default
seeds 10, 11, 12; every line has the mean ± standard deviation of the seeds finished so far, and each of them.
"""

import sys
from collections import defaultdict
from dataclasses import replace
from functools import partial

import torch

import refprior as rp
from experiments.patches import RECIPE, STRONG, WEAK, OnFirst, Stored, show, views_of
from refprior.data import Identity, PatchComponents, Task
from refprior.methods import AdaptiveReferencePrior, FixMatch, FreeMatch, ReferencePrior, Supervised, Transfer
from refprior.recipes._transfer import superclass
from refprior.training import Recipe

MASK = ReferencePrior(threshold=0.95)  # of cifar100_transfer_medium
BALANCED = ReferencePrior(threshold=0.6, balance=3.0)  # of cifar10_ssl_patches


def stored(seed: int) -> Task:
    """Return vehicles 1 with the source vehicles 2, with stored views; its test part are validation images."""
    target = replace(superclass("vehicles_1", 100, seed), validation=500)()
    source = superclass("vehicles_2", 1000, seed)()
    fitted = PatchComponents(filters=200, view=RECIPE.strong).fit([*target.training_inputs, *source.training_inputs])
    generator = torch.Generator().manual_seed(seed)
    views = partial(views_of, fitted=fitted, generator=generator)
    assert target.validation is not None
    seen = fitted(target.validation.inputs)[:, None].repeat(1, 1 + WEAK + STRONG, 1)
    task = rp.data.task_from_arrays(
        (views(target.labeled.inputs), target.labeled.labels),
        views(target.unlabeled),
        (seen, target.validation.labels),
        name="vehicles-1",
    )
    pool = views(source.unlabeled[:1])  # not used: a task has a pool
    return task.with_source(
        rp.data.task_from_arrays((views(source.labeled.inputs), source.labeled.labels), pool, name="vehicles-2")
    )


def recipes(task: Task, seed: int) -> dict[str, Recipe]:
    """Return what to compare; a start is supervised learning of the source, and its new head that of the target."""
    weak, strong = Stored(1, WEAK), Stored(1 + WEAK, STRONG)
    network = partial(OnFirst, 5)
    base = replace(
        RECIPE, task=task, network=network, inputs=Identity(), weak=weak, strong=strong, source_batch=32, seed=seed
    )
    alone = replace(base, task=replace(task, source=None))
    assert task.source is not None
    source = rp.data.task_from_arrays((task.source.inputs, task.source.labels), task.source.inputs[:1])
    first = replace(base, task=source, method=Supervised())
    found = {
        "supervised": replace(alone, method=Supervised()),
        "FixMatch, threshold 0.8": replace(alone, method=FixMatch(threshold=0.8)),
        "FreeMatch": replace(alone, method=FreeMatch()),
        "reference prior, threshold 0.95": replace(alone, method=MASK),
        "reference prior, threshold 0.6, balance 3": replace(alone, method=BALANCED),
        "AdaptiveReferencePrior": replace(alone, method=AdaptiveReferencePrior()),
        "transfer, threshold 0.95, shared outputs": replace(base, method=Transfer(MASK)),
        "transfer, threshold 0.6, balance 3, shared outputs": replace(base, method=Transfer(BALANCED)),
        "transfer, threshold 0.6, balance 3, separate outputs": replace(
            base, method=Transfer(BALANCED), network=partial(OnFirst, 10)
        ),
    }
    started = {
        "fine-tuning": "supervised",
        "FreeMatch from the source's weights": "FreeMatch",
        "AdaptiveReferencePrior from the source's weights": "AdaptiveReferencePrior",
        "reference prior, threshold 0.6, balance 3, from the source's weights": (
            "reference prior, threshold 0.6, balance 3"
        ),
    }
    return found | {name: replace(found[to], start=first, head="new") for name, to in started.items()}


def main(seeds: list[int]) -> None:
    found = defaultdict[str, list[float]](list)
    for seed in seeds:
        for name, recipe in recipes(stored(seed), seed).items():
            evaluation = rp.train(recipe).result.evaluation
            assert evaluation is not None
            assert evaluation.accuracy is not None
            found[name].append(100 * evaluation.accuracy)
            show(name, found[name])


if __name__ == "__main__":
    torch.set_num_threads(1)
    main([int(seed) for seed in (sys.argv[1] if len(sys.argv) > 1 else "10,11,12").split(",")])
