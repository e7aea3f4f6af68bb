"""Few labels, asked for where they tell most: which unlabelled images to label, and a classifier from the answers.

The questions and answers of a run are kept in its folder, in questions.json.
"""

# n pool images, M clusters

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
from pathlib import Path

import msgspec
import torch
from torch import Tensor

from refprior._files import read_record, write_record
from refprior._words import in_short
from refprior.posterior import Consensus
from refprior.training import Run
from refprior.training._evaluate import CONSENSUS_IMAGES
from refprior.training._folder import RECIPE
from refprior.training._header import read_header

__all__ = ["Questions", "answer", "classifier", "classify", "read_questions", "suggest", "write_questions"]

FILE = "questions.json"
FORMAT = 1
_BLOCK = 4096  # images at a time


@dataclass(frozen=True)
class Questions:
    """Images of the unlabelled pool whose labels are asked for, and the answers so far.

    >>> import refprior as rp
    >>> questions = rp.labelling.Questions(asked=(7, 3, 9), answers=(0,))
    >>> questions.open
    (3, 9)
    """

    asked: tuple[int, ...] = ()  # indices in the pool, in the order they were asked
    answers: tuple[int, ...] = ()  # classes of the first of them

    @property
    def open(self) -> tuple[int, ...]:
        """Those without an answer."""
        return self.asked[len(self.answers) :]


def suggest(run: Run, budget: int, before: Questions | None = None) -> Questions:
    """The images to label next: the most typical one of each cluster, the largest clusters first.

    There are at most as many clusters as labels in all, or as classes if these are more. Questions that were not
    answered are withdrawn; clusters with an answered image come last.

    >>> import refprior as rp
    >>> run = rp.train(rp.recipes.override(rp.recipes.digits_ssl(), {"steps": 5}))
    >>> len(rp.labelling.suggest(run, budget=3).open)
    3
    """
    before = before or Questions()
    _check_questions(run, before)
    known, images = list(before.answers), run.task.unlabelled
    free = min(len(images), CONSENSUS_IMAGES) - len(known)
    if not 1 <= budget <= free:
        raise ValueError(
            f"can ask for 1 to {free} labels, got {budget}: {len(images)} unlabelled images, {len(known)} answered, "
            f"clusters of at most {CONSENSUS_IMAGES}"
        )
    answered = torch.tensor(before.asked[: len(known)], dtype=torch.int64)
    found = run.consensus(max(len(run.data.classes), len(known) + budget))
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
    """The questions with answers to the open ones, in their order; fewer answers than questions are fine.

    >>> import refprior as rp
    >>> rp.labelling.answer(rp.labelling.Questions(asked=(7, 3)), [1]).open
    (3,)
    """
    if not 1 <= len(labels) <= len(questions.open):
        asked = len(questions.open)
        raise ValueError(f"{len(labels)} labels for {asked} open question{'' if asked == 1 else 's'}")
    return replace(questions, answers=(*questions.answers, *labels))


def classifier(run: Run, questions: Questions) -> Consensus:
    """As many clusters as classes, with the names that the answers give them: what one label decides is then a whole
    class and not a part of it, and further labels mend a wrong one.

    >>> import refprior as rp
    >>> run = rp.train(rp.recipes.override(rp.recipes.digits_ssl(), {"steps": 5}))
    >>> asked = rp.labelling.suggest(run, budget=2)
    >>> named = rp.labelling.classifier(run, rp.labelling.answer(asked, [3, 5]))
    >>> rp.labelling.classify(run, named, run.task.test.images).shape
    torch.Size([600])
    """
    if not questions.answers:
        raise ValueError("no question has been answered yet")
    _check_questions(run, questions)
    known = torch.tensor(questions.asked[: len(questions.answers)])
    log_p = run.log_probabilities(run.task.unlabelled[known])
    return run.consensus().named(log_p, torch.tensor(questions.answers), len(run.data.classes))


def classify(run: Run, named: Consensus, images: Tensor) -> Tensor:
    """The class of each image: (n, *shape) -> (n,); the example is that of `classifier`.

    >>> import refprior as rp
    >>> run = rp.train(rp.recipes.override(rp.recipes.digits_ssl(), {"steps": 5}))
    >>> named = rp.labelling.classifier(run, rp.labelling.Questions((0, 1), (3, 5)))
    >>> set(rp.labelling.classify(run, named, run.task.test.images).tolist()) <= {3, 5}
    True
    """
    return torch.cat([named.predict(run.log_probabilities(part)) for part in images.split(_BLOCK)])


def read_questions(folder: Path | str) -> Questions:
    """The questions of a run folder; none if nothing was asked.

    >>> import refprior as rp
    >>> rp.labelling.read_questions("runs/nothing-asked").asked
    ()
    """
    path = Path(folder) / FILE
    if not path.exists():
        return Questions()
    try:
        record = read_record(path, FORMAT)
        questions = msgspec.convert(record, Questions)
    except msgspec.ValidationError as error:
        raise ValueError(f"{path} is damaged: {in_short(error)}") from None
    if len(questions.answers) > len(questions.asked):
        raise ValueError(f"{path} is damaged: {len(questions.answers)} answers to {len(questions.asked)} questions")
    if record.get("pool") != _pool(Path(folder)):
        raise ValueError(f"{path} asks about other images than those of this run: remove it")
    return questions


def write_questions(folder: Path | str, questions: Questions) -> None:
    """Keep the questions in a run folder.

    >>> from pathlib import Path
    >>> import refprior as rp
    >>> Path("runs/asked").mkdir(parents=True)
    >>> rp.labelling.write_questions("runs/asked", rp.labelling.Questions((7, 3), (1,)))
    >>> rp.labelling.read_questions("runs/asked").open
    (3,)
    """
    record = {"pool": _pool(Path(folder)), "asked": questions.asked, "answers": questions.answers}
    write_record(Path(folder) / FILE, FORMAT, record)


def _pool(folder: Path) -> str | None:
    """What identifies the images that a run asks about; None in a folder without a run."""
    return read_header(folder).data.parts["unlabelled"].sha256 if (folder / RECIPE).exists() else None


def _check_questions(run: Run, questions: Questions) -> None:
    """Refuse questions of another run."""
    images, classes = len(run.task.unlabelled), len(run.data.classes)
    wrong = [i for i in questions.asked if not 0 <= i < images] + [y for y in questions.answers if not 0 <= y < classes]
    if wrong:
        raise ValueError(f"{wrong[0]} does not fit {images} images and {classes} classes: questions of another run")


def _places(run: Run, found: Consensus) -> tuple[Tensor, Tensor]:
    """Distances of all images of the pool to all centres, and their clusters: (n, M), (n,)."""
    log_p = [run.log_probabilities(part) for part in run.task.unlabelled.split(_BLOCK)]
    return torch.cat([found.distances(p) for p in log_p]), torch.cat([found.clusters(p) for p in log_p])
