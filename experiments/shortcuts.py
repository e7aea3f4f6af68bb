"""Labels that admit several rules: which methods find all of them, and what a few new labels decide.

    python -m experiments.shortcuts RESULTS.jsonl [--only PATTERN] [--seeds 21,22,23,24,25] [--minutes 60]

Each cell trains particles on labeled inputs whose cues agree and on a pool in which they are independent, then asks for
labels of pool inputs under each possible truth and weights the particles by the answers. Cells that RESULTS.jsonl
already holds are skipped. `--table` prints the table of the file.
"""

import math
import re
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import refprior as rp
from experiments.cells import EMBEDDINGS, Cell, Rows, main, spread
from refprior.labeling import most_decisive
from refprior.posterior import Evidence, find_rules, predictive

QUESTIONS = 4


@dataclass(frozen=True)
class Scene:
    """Inputs with several cues, each of which predicts all labels."""

    task: rp.Task
    pool: Tensor  # (n, cues) values of the cues, 0 or 1
    test: Tensor  # (m, cues)


def truths(cues: Tensor) -> dict[str, Tensor]:
    """Return the rules that agree with the labels where all cues agree: each cue, all of them, any of them."""
    named = {f"cue {i + 1}": cues[:, i] for i in range(cues.shape[1])}
    return {**named, "and": cues.amin(1), "or": cues.amax(1)}


def scene(
    build: Callable[[Tensor, int, torch.Generator], Tensor],
    *,
    cues: int = 2,
    labels: int = 1000,
    pool: int = 4000,
    test: int = 2000,
    contradicting: float = 1.0,
    shortcut: bool = True,
    seed: int = 0,
) -> Scene:
    """Build a task whose label is the last cue; the other cues agree with it on the labeled inputs."""
    draw = torch.Generator().manual_seed(seed)

    def values(count: int, free: float) -> Tensor:
        found = torch.randint(0, 2, (count, cues), generator=draw)
        found[:, -1] = torch.arange(count) % 2
        agree = torch.rand(count, generator=draw) >= free
        found = torch.where(agree[:, None], found[:, -1:], found)
        return found[torch.randperm(count, generator=draw)]

    parts = [values(labels, 0.0 if shortcut else 1.0), values(pool, contradicting), values(test, 1.0)]
    x = [build(part, split, draw) for part, split in zip(parts, (0, 0, 1), strict=True)]
    task = rp.data.task_from_arrays(
        (x[0].numpy(), parts[0][:, -1].numpy()), x[1].numpy(), (x[2].numpy(), parts[2][:, -1].numpy())
    )
    return Scene(task, parts[1], parts[2])


@cache
def images(name: str, side: int) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Read the training and the test part of a data set with images of side × side pixels."""
    data = rp.data.read(name)
    assert data.test is not None
    shrunk = [
        (nn.functional.interpolate(part.inputs.float(), (side, side), mode="area").round().byte(), part.labels)
        for part in (data.train, data.test)
    ]
    return shrunk[0], shrunk[1]


def one_of_two(name: str, side: int, zero: int, one: int, cue: Tensor, split: int, draw: torch.Generator) -> Tensor:
    """Draw an image of class `zero` where the cue is 0 and of class `one` where it is 1."""
    x, y = images(name, side)[split]
    found = x.new_empty(len(cue), *x.shape[1:])
    for value, label in ((0, zero), (1, one)):
        wanted, there = (cue == value).nonzero()[:, 0], (y == label).nonzero()[:, 0]
        there = there[torch.randperm(len(there), generator=draw)]
        found[wanted] = x[there[torch.arange(len(wanted)) % len(there)]]
    return found


def dominoes(cues: Tensor, split: int, draw: torch.Generator) -> Tensor:
    """MNIST 0 or 1 beside Fashion-MNIST coat or dress, and beside sneaker or bag for a third cue: 14 × 14 each."""
    kinds = [("mnist", 0, 1), ("fashion-mnist", 4, 3), ("fashion-mnist", 7, 8)]
    if cues.shape[1] == 3:
        kinds = [kinds[0], kinds[2], kinds[1]]
    return torch.cat(
        [
            one_of_two(name, 14, zero, one, cues[:, i], split, draw)
            for i, (name, zero, one) in enumerate(kinds[: cues.shape[1]])
        ],
        dim=3,
    )


def cifar_dominoes(cues: Tensor, split: int, draw: torch.Generator) -> Tensor:
    """MNIST 0 or 1 above CIFAR-10 car or truck: 3 × 32 × 16."""
    digit = one_of_two("mnist", 16, 0, 1, cues[:, 0], split, draw).expand(-1, 3, -1, -1)
    return torch.cat([digit, one_of_two("cifar10", 16, 1, 9, cues[:, 1], split, draw)], dim=2)


def colored(cues: Tensor, split: int, draw: torch.Generator) -> Tensor:
    """MNIST digits 0–4 or 5–9 (second cue) in red or green (first cue): 2 × 14 × 14."""
    x, y = images("mnist", 14)[split]
    found = x.new_zeros(len(cues), 2, 14, 14)
    for value in (0, 1):
        wanted, there = (cues[:, 1] == value).nonzero()[:, 0], ((y >= 5).long() == value).nonzero()[:, 0]
        there = there[torch.randperm(len(there), generator=draw)][: len(wanted)]
        found[wanted, cues[wanted, 0]] = x[there, 0]
    return found


def table(cues: Tensor, split: int, draw: torch.Generator) -> Tensor:
    """Eight columns for each cue, shifted along a fixed direction by 2 and 1, and eight columns of noise."""
    fixed = torch.Generator().manual_seed(0)
    blocks = [0.5 * torch.randn(len(cues), 8, generator=draw)]
    for i, shift in enumerate((2.0, 1.0)):
        direction = torch.randn(8, generator=fixed)
        center = shift * (2.0 * cues[:, i, None] - 1) * direction / direction.norm()
        blocks.append(center + 0.5 * torch.randn(len(cues), 8, generator=draw))
    return torch.cat(blocks, 1)


def embedded(cues: Tensor, split: int, draw: torch.Generator) -> Tensor:
    """Embeddings of two photos, airplane or ship (first cue) and car or truck (second cue): 2 × 128 columns."""
    blocks = []
    for i, (zero, one) in enumerate(((0, 8), (1, 9))):
        x, y = embeddings()[split]
        found = x.new_empty(len(cues), x.shape[1])
        for value, label in ((0, zero), (1, one)):
            wanted, there = (cues[:, i] == value).nonzero()[:, 0], (y == label).nonzero()[:, 0]
            there = there[torch.randperm(len(there), generator=draw)]
            found[wanted] = x[there[torch.arange(len(wanted)) % len(there)]]
        blocks.append(found)
    return torch.cat(blocks, 1)


@cache
def embeddings() -> list[tuple[Tensor, Tensor]]:
    """Read EfficientNet-Lite0 features of CIFAR-10, training and test part."""
    with np.load(EMBEDDINGS) as file:
        return [
            (torch.from_numpy(file[part].astype(np.float32)), torch.from_numpy(file[f"{part}_labels"].astype(np.int64)))
            for part in ("train", "test")
        ]


class ReLU(nn.Sequential):
    """A perceptron with two hidden layers of 48."""

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        wide = math.prod(shape)
        super().__init__(
            nn.Flatten(), nn.Linear(wide, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, classes)
        )


METHODS: dict[str, rp.methods.Method] = {
    "ensemble": rp.Supervised(),
    "FixMatch": rp.FixMatch(),
    "default": rp.ReferencePrior(),
    "α 1, order 1": rp.ReferencePrior(alpha=1, order=1),
    "α 1, order 2": rp.ReferencePrior(alpha=1, order=2),
    "α 1, order 3": rp.ReferencePrior(alpha=1, order=3),
    "α 1, order 4": rp.ReferencePrior(alpha=1, order=4),
    "α from 1.5": rp.ReferencePrior(alpha=1.5, final_alpha=0.3, order=3),
    "α from 2": rp.ReferencePrior(alpha=2, final_alpha=0.3, order=3),
    "underspecified": rp.ReferencePrior.underspecified(),
    "balanced": rp.ReferencePrior.underspecified(balanced=True),
    "DivDis": rp.methods.DivDis(),
    "D-BAT": rp.methods.DBAT(),
}


COMPARED = [
    ("ensemble", 16),
    ("FixMatch", 16),
    ("default", 8),
    ("underspecified", 16),
    ("balanced", 16),
    ("DivDis", 2),
    ("DivDis", 4),
    ("D-BAT", 4),
]
FEWER = [COMPARED[0], *COMPARED[3:6]]


def recipe_for(
    found: Scene, method: rp.methods.Method, particles: int, *, network: str, rate: float, seed: int
) -> rp.Recipe:
    shape = found.task.shape
    kinds: dict[str, Callable[..., nn.Module]] = {"cnn": rp.networks.SmallCNN, "linear": rp.networks.Linear}
    inputs: rp.data.Standardize | rp.data.PatchComponents = rp.data.Standardize()
    if network == "patches":
        inputs, shape = rp.data.PatchComponents(64, filters=200, images=4000), (64,)
    weak, strong = rp.views.Noise(0.1), rp.views.Corrupt(0.1, 0.3)
    return rp.Recipe(
        inputs=inputs,
        task=found.task,
        network=partial(kinds.get(network, ReLU), shape=shape, classes=2),
        method=method,
        particles=particles,
        steps=400,
        labeled_batch=min(64, len(found.task.labeled)),
        unlabeled_batch=132,
        weak=weak,
        strong=strong,
        optimizer=rp.Optimizer(kind="adam", learning_rate=rate, decay=0.0),
        ema=0.98,
        evaluate_every=400,
        seed=seed,
    )


def ask(pool: Tensor, truth: Tensor, count: int, prior: Tensor) -> Iterator[Evidence]:
    """Yield the evidence after 0, 1, … count answers, each to the question that is most decisive at that time."""
    evidence, free = Evidence(prior), torch.arange(pool.shape[1])
    yield evidence
    for _ in range(count):
        (place,) = most_decisive(pool[:, free], 1, evidence.log_selected)
        asked, free = free[place : place + 1], torch.cat([free[:place], free[place + 1 :]])
        evidence = evidence.update(pool[:, asked], truth[asked])
        yield evidence


def measure(found: Scene, recipe: rp.Recipe) -> dict[str, float]:
    """Train, and score each truth after 0 … 4 questions, by selection, by the average and by both."""
    start = time.perf_counter()
    run = rp.train(recipe)
    assert found.task.test is not None
    pool, test, labeled = (
        run.log_probabilities(x) for x in (found.task.unlabeled, found.task.test.inputs, found.task.labeled.inputs)
    )
    prior = rp.information.uniform(len(pool), pool)
    rules = find_rules(pool, prior, labeled=labeled)
    row = {"seconds": time.perf_counter() - start, "rules": len(rules), "disagreement": rules.disagreement}
    row["warned"] = float(rules.ambiguous)
    for name, truth in truths(found.test).items():
        right = (test.argmax(-1) == truth).double().mean(1)
        row |= {f"best {name}": right.max().item(), f"mean {name}": right.mean().item()}
        for m, evidence in enumerate(ask(pool, truths(found.pool)[name], QUESTIONS, prior)):
            for how, weights in {"select": evidence.log_selected, "both": evidence.log_weights}.items():
                hit = predictive(test, weights.to(test)).argmax(-1) == truth
                row[f"{how} {m} {name}"] = hit.double().mean().item()
    return {key: round(value, 4) for key, value in row.items()}


def cells() -> Iterator[Cell]:
    """Yield the name of each cell of the table, and the function that measures it for a seed."""
    builders = {
        "dominoes": dominoes,
        "cifar": cifar_dominoes,
        "colored": colored,
        "table": table,
        "embeddings": embedded,
    }

    def cell(
        data: str, method: str, particles: int, network: str = "mlp", *, rate: float = 2e-3, **settings: float
    ) -> Cell:
        def run(seed: int) -> dict[str, float]:
            found = scene(builders[data], seed=seed, **settings)  # type: ignore[arg-type]
            return measure(found, recipe_for(found, METHODS[method], particles, network=network, rate=rate, seed=seed))

        shown = settings if rate == 2e-3 else settings | {"rate": rate}
        words = " ".join(f"{name}={value}" for name, value in shown.items())
        return f"{data} {network} {method} K{particles} {words}".strip(), run

    everywhere: list[dict[str, Any]] = [{}, {"shortcut": False}]
    for method, particles in COMPARED:
        yield cell("dominoes", method, particles)
        yield cell("dominoes", method, particles, contradicting=0.1)
        for labels in (40, 200, 1000):
            yield cell("dominoes", method, particles, labels=labels, shortcut=False)
        yield cell("dominoes", method, particles, labels=40)
    for method, particles in FEWER:
        for shortcut in everywhere:
            yield cell("table", method, particles, labels=60, **shortcut)
            yield cell("colored", method, particles, **shortcut)
            if EMBEDDINGS.exists():
                yield cell("embeddings", method, particles, "linear", labels=200, **shortcut)
        yield cell("cifar", method, particles, "patches")
        yield cell("dominoes", method, particles, cues=3)
        for labels in (20, 100, 200):
            yield cell("dominoes", method, particles, labels=labels)
        for share in (0.3, 0.5):
            yield cell("dominoes", method, particles, contradicting=share)
    yield cell("dominoes", "DivDis", 3, cues=3)
    for particles in (2, 4, 8, 32):
        yield cell("dominoes", "underspecified", particles)
    for order in (1, 2, 3, 4):
        yield cell("dominoes", f"α 1, order {order}", 16)
    for start in ("α from 1.5", "α from 2"):
        yield cell("dominoes", start, 16)
        yield cell("dominoes", start, 16, contradicting=0.1)
        yield cell("colored", start, 16)
    yield cell("dominoes", "α from 1.5", 16, contradicting=0.3)
    for settings in everywhere:
        yield cell("dominoes", "α from 1.5", 16, labels=40, **settings)
    yield cell("dominoes", "α from 1.5", 16, labels=1000, shortcut=False)
    for method, particles in FEWER:
        yield cell("dominoes", method, particles, "cnn")
    for method, particles in [*FEWER, ("α 1, order 3", 16)]:
        yield cell("dominoes", method, particles, "cnn", rate=5e-4)
    for method, particles in FEWER:
        yield cell("cifar", method, particles, "cnn")


def last(row: dict[str, float]) -> str:
    """Return the name of the cue that the labels mean, the last one."""
    return max(key.removeprefix("best ") for key in row if key.startswith("best cue"))


COLUMNS: dict[str, Callable[[dict[str, float]], float]] = {
    "best": lambda r: r[f"best {last(r)}"],
    "mean": lambda r: r[f"mean {last(r)}"],
    "0 answers": lambda r: r[f"both 0 {last(r)}"],
    "4 answers": lambda r: r[f"both 4 {last(r)}"],
    "selected": lambda r: r[f"select 4 {last(r)}"],
    "worst truth": lambda r: min(value for key, value in r.items() if key.startswith("both 4")),
}


def tables(rows: Rows, seeds: set[int]) -> str:
    """Format accuracies in percent, mean and standard deviation over seeds, and paired differences.

    Of the best particle, of a particle on average, of the mixture before and after 4 answers under the truth "last
    cue", of the particles weighted by their likelihoods alone, and of the mixture under the worst truth; and the share
    of runs with a warning that the labels may not determine the task, of those that recorded it. Differences are of the
    mixture.
    """
    lines = [" ".join([f"{'cell':56} seeds rules warned", *(f"{name:>12}" for name in COLUMNS)])]
    for name, found in sorted(rows.items()):
        records = [record for seed, record in found.items() if seed in seeds]
        if records:
            cells = ["{:5.1f} ± {:4.1f}".format(*spread([100 * get(r) for r in records])) for get in COLUMNS.values()]
            warned = [100 * r["warned"] for r in records if "warned" in r]
            shown = f"{statistics.mean(warned):6.0f}" if warned else f"{'–':>6}"
            count = statistics.mean(r["rules"] for r in records)
            lines.append(" ".join([f"{name:56} {len(records):5} {count:5.1f} {shown}", *cells]))
    lines += [
        "",
        "underspecified K16 - another method, paired mean ± standard error: truth after 0 and 4 answers, worst truth",
    ]
    ours = "underspecified K16"
    for name, other in product(
        filter(re.compile(ours).search, sorted(rows)), ("DivDis K2", "DivDis K3", "ensemble K16")
    ):
        theirs = rows.get(name.replace(ours, other), {})
        common = sorted(set(rows[name]) & set(theirs) & seeds)
        if common:
            gaps = (
                [100 * (get(rows[name][s]) - get(theirs[s])) for s in common]
                for get in map(COLUMNS.__getitem__, ("0 answers", "4 answers", "worst truth"))
            )
            cells = [f"{mean:6.1f} ± {sd / math.sqrt(len(common)):4.1f}" for mean, sd in map(spread, gaps)]
            lines.append(" ".join([f"{name:64} {other:12} {len(common):5}", *cells]))
    return "\n".join(lines)


if __name__ == "__main__":
    main(__doc__, [cells()], tables, seeds="21,22,23,24,25")
