"""Classes of unequal shares on 8×8 digits: what a class prior in the objective, and in the posterior, is worth.

    OMP_NUM_THREADS=1 python experiments/imbalance.py --seeds 0,1,2 --steps 300

Two cases. In the first, labels and pool are imbalanced alike: class 0 is 20 times as frequent as class 9. In the second
the labels are balanced, and only the pool is skewed. Each is measured on the test part, where all classes are equally
frequent: the mean recall of the classes, the recall of the two rarest, and the accuracy on inputs of the pool's shares.
"Corrected" moves the posterior from the shares that the run was trained with to equal ones. The recipe is `digits_ssl`;
nothing is chosen here. The mean recall on the validation part is printed next to that on the test part.
"""

import argparse
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from refprior.data import Examples, FewLabels, Task
from refprior.data._data_set import long_tail, per_class, without
from refprior.methods import FixMatch, Method, ReferencePrior
from refprior.posterior import change_class_prior
from refprior.recipes import digits_ssl
from refprior.training import Run, train

RATIO, RAREST = 20, 2


@dataclass(frozen=True)
class Case:
    """A task and what is known of its shares, by the labels or by their designer: (C,) each."""

    task: Task
    labels: Tensor
    pool: Tensor


@dataclass(frozen=True)
class Row:
    """Mean recall on the validation part and on the test part, recall of the rarest, accuracy at the pool's shares."""

    validation: float
    test: float
    rarest: float
    natural: float


def case(imbalanced_labels: bool, seed: int) -> Case:
    whole = FewLabels("digits", labels=None, validation=300, seed=seed)()
    train_part, truth = whole.labeled, whole.labeled.labels.numpy()
    most = per_class(truth, 200 if imbalanced_labels else 50, seed)
    labeled = most[long_tail(truth[most], RATIO, seed)] if imbalanced_labels else most
    free = without(len(truth), most)
    pool = free[long_tail(truth[free], RATIO, seed + 1)]
    known: Examples = train_part[torch.from_numpy(labeled)]
    counts = (torch.bincount(torch.from_numpy(truth[part]), minlength=10).double() for part in (labeled, pool))
    task = replace(whole, labeled=known, unlabeled=train_part.inputs[torch.from_numpy(pool)])
    return Case(task, *counts)


def run(found: Case, method: Method, seed: int, steps: int) -> Run:
    recipe = replace(digits_ssl(seed=seed), task=found.task, method=method, steps=steps, evaluate_every=steps)
    return train(recipe)


def told(shares: Tensor, **more: float) -> ReferencePrior:
    return ReferencePrior(class_prior=tuple(shares.tolist()), **more)  # type: ignore[arg-type]


def recalls(trained: Run, part: Examples, corrected: Tensor | None) -> Tensor:
    """Of every class, by the EMA ensemble: (C,)."""
    log_p = torch.as_tensor(trained.predict_proba(part.inputs)).log()
    if corrected is not None:
        log_p = change_class_prior(log_p, corrected, torch.ones(10))
    right = (log_p.argmax(-1) == part.labels).double()
    return torch.stack([right[part.labels == c].mean() for c in range(10)])


def measure(trained: Run, found: Case, corrected: Tensor | None = None) -> Row:
    assert found.task.validation is not None
    validation, test = (recalls(trained, part, corrected) for part in (found.task.validation, found.task.held_out))
    natural = (test * found.pool / found.pool.sum()).sum()
    return Row(*(100 * float(x) for x in (validation.mean(), test.mean(), test[-RAREST:].mean(), natural)))


def both_imbalanced(seed: int, steps: int) -> Iterator[tuple[str, Row]]:
    found = case(True, seed)
    plain = run(found, ReferencePrior(), seed, steps)
    yield "reference prior", measure(plain, found)
    yield "reference prior, corrected", measure(plain, found, found.labels)
    own = run(found, told(found.labels), seed, steps)
    yield "class_prior = labels' shares", measure(own, found)
    yield "class_prior = labels' shares, corrected", measure(own, found, found.labels)
    yield "balance = 1", measure(run(found, ReferencePrior(balance=1), seed, steps), found)
    fixmatch = run(found, FixMatch(), seed, steps)
    yield "FixMatch", measure(fixmatch, found)
    yield "FixMatch, corrected", measure(fixmatch, found, found.labels)


def skewed_pool(seed: int, steps: int) -> Iterator[tuple[str, Row]]:
    found = case(False, seed)
    methods: dict[str, Method] = {"reference prior": ReferencePrior(), "FixMatch": FixMatch()}
    for name, method in methods.items():
        plain = run(found, method, seed, steps)
        yield name, measure(plain, found)
        yield f"{name}, corrected", measure(plain, found, found.pool)
    known = run(found, told(found.pool), seed, steps)
    yield "class_prior = pool's shares", measure(known, found)
    yield "class_prior = pool's shares, corrected", measure(known, found, found.pool)
    half = run(found, ReferencePrior(), seed, steps // 2)
    guess = torch.as_tensor(half.predict_proba(found.task.unlabeled)).double().mean(0)
    yield "class_prior = shares predicted after half the steps", measure(run(found, told(guess), seed, steps), found)
    yield (
        "class_prior = pool's shares, balance = 1",
        measure(run(found, told(found.pool, balance=1), seed, steps), found),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--steps", type=int, default=300)
    arguments = parser.parse_args()
    started = time.process_time()
    for title, rows_of in {"labels and pool 20:1": both_imbalanced, "balanced labels, pool 20:1": skewed_pool}.items():
        rows: dict[str, list[Row]] = defaultdict(list)
        for seed in map(int, arguments.seeds.split(",")):
            for name, row in rows_of(seed, arguments.steps):
                rows[name].append(row)
        print(f"| {title} | mean recall, validation | mean recall, test | two rarest, test | at the pool's shares |")
        print("|---|---|---|---|---|")
        for name, each in rows.items():
            columns = zip(*((r.validation, r.test, r.rarest, r.natural) for r in each), strict=True)
            print(f"| {name} |", " | ".join(_mean(column) for column in columns), "|", flush=True)
        print()
    print(f"{time.process_time() - started:.0f} seconds of one core")


def _mean(values: tuple[float, ...]) -> str:
    return f"{statistics.mean(values):.1f}" + (f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else "")


if __name__ == "__main__":
    main()
