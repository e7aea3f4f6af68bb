"""Few labels, asked for where they tell most: which unlabelled images to label, and a classifier from the answers.

The questions and answers of a run stand in its folder, in questions.json.
"""

# n pool images, M clusters

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
from pathlib import Path

import torch
from torch import Tensor

from refprior.posterior import Consensus
from refprior.training._folder import write_json
from refprior.training._loop import CONSENSUS_IMAGES, log_probabilities
from refprior.training._run import Run

FILE = "questions.json"


@dataclass(frozen=True)
class Questions:
    """Images of the unlabelled pool whose labels are asked for, and the answers so far."""

    asked: tuple[int, ...] = ()  # indices in the pool, in the order they were asked
    answers: tuple[int, ...] = ()  # classes of the first of them

    @property
    def open(self) -> tuple[int, ...]:
        return self.asked[len(self.answers) :]


def ask(run: Run, budget: int, before: Questions | None = None) -> Questions:
    """The images to label next: the most typical one of each cluster, the largest clusters first.

    There are at most as many clusters as labels in all, or as classes if these are more. Questions that were not
    answered are withdrawn; clusters with an answered image come last.
    """
    before = before or Questions()
    known, images = list(before.answers), run.task.unlabelled
    free = min(len(images), CONSENSUS_IMAGES) - len(known)
    if not 1 <= budget <= free:
        raise ValueError(
            f"can ask for 1 to {free} labels, got {budget}: {len(images)} unlabelled images, {len(known)} answered, "
            f"clusters of at most {CONSENSUS_IMAGES}"
        )
    answered = torch.tensor(before.asked[: len(known)], dtype=torch.int64)
    found = run.consensus(max(len(run.task.classes), len(known) + budget))
    distances, home = _places(run, found)
    sizes = torch.bincount(home, minlength=distances.shape[-1]).double()
    sizes[home[answered]] -= len(images)  # last, the larger first among them
    distances[answered] = torch.inf
    chosen: list[int] = []
    for cluster in islice(cycle(sizes.argsort(descending=True, stable=True).tolist()), budget):
        own = distances[:, cluster].where(home == cluster, distances[:, cluster] + 2)  # others are after all members
        chosen.append(int(own.argmin()))
        distances[chosen[-1]] = torch.inf
    return Questions((*answered.tolist(), *chosen), tuple(known))


def answer(questions: Questions, labels: Sequence[int]) -> Questions:
    """The questions with answers to the open ones, in their order; fewer answers than questions are fine."""
    if not 1 <= len(labels) <= len(questions.open):
        raise ValueError(f"{len(labels)} labels for {len(questions.open)} open questions")
    return replace(questions, answers=(*questions.answers, *labels))


def classifier(run: Run, questions: Questions) -> Consensus:
    """As many clusters as classes, with the names that the answers give them: what one label decides is then a whole
    class and not a part of it, and further labels mend a wrong one."""
    if not questions.answers:
        raise ValueError("no question has been answered yet")
    images, classes = len(run.task.unlabelled), len(run.task.classes)
    wrong = [i for i in questions.asked if not 0 <= i < images] + [y for y in questions.answers if not 0 <= y < classes]
    if wrong:
        raise ValueError(f"{wrong[0]} does not fit {images} images and {classes} classes: questions of another run")
    known = torch.tensor(questions.asked[: len(questions.answers)])
    log_p = log_probabilities(run.ema, run.task, run.task.unlabelled[known])
    labels = torch.tensor(questions.answers)
    return run.consensus().named(log_p, labels, len(run.task.classes))


def classify(run: Run, named: Consensus, images: Tensor) -> Tensor:
    """The class of each image: (n, *shape) -> (n,)."""
    return torch.cat([named.predict(log_probabilities(run.ema, run.task, part)) for part in images.split(4096)])


def read(folder: Path) -> Questions:
    """The questions of a run folder; none if nothing was asked."""
    path = folder / FILE
    if not path.exists():
        return Questions()
    try:
        saved = json.loads(path.read_text(encoding="utf-8"))
        return Questions(tuple(map(int, saved["asked"])), tuple(map(int, saved["answers"])))
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is damaged: {error}") from None


def write(folder: Path, questions: Questions) -> None:
    write_json(folder / FILE, {"asked": questions.asked, "answers": questions.answers})


def _places(run: Run, found: Consensus) -> tuple[Tensor, Tensor]:
    """Distances of all images of the pool to all centres, and their clusters: (n, M), (n,)."""
    places = [_place(found, log_probabilities(run.ema, run.task, part)) for part in run.task.unlabelled.split(4096)]
    return torch.cat([distances for distances, _ in places]), torch.cat([home for _, home in places])


def _place(found: Consensus, log_p: Tensor) -> tuple[Tensor, Tensor]:
    return found.distances(log_p), found.clusters(log_p)
