"""Few labels, asked for where they tell most: which unlabeled inputs to label, a classifier from the answers, and
training that goes on with them.

The questions and answers of a run are kept in its folder, in questions.json.
"""

# K particles, n inputs of the pool, C classes, M clusters

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
from pathlib import Path

import msgspec
import numpy as np
import torch
from sklearn.cluster import KMeans
from torch import Tensor

from refprior._checks import whole_number
from refprior._files import read_record, write_record, write_text
from refprior._words import in_short
from refprior.data import Answered
from refprior.information import uniform
from refprior.posterior import Consensus, predictive, uncertainty
from refprior.training import Recipe, Run
from refprior.training.loop import CONSENSUS_IMAGES, fitting_batch
from refprior.training.recipe import Head
from refprior.training.store import RECIPE, read_header

__all__ = [
    "Ensemble",
    "Questions",
    "answer",
    "classifier",
    "classify",
    "classify_pool",
    "continued",
    "most_informative",
    "most_typical",
    "read_questions",
    "suggest",
    "write_questions",
]

FILE = "questions.json"
FORMAT = 1
_BLOCK = 4096  # inputs at a time
_LOOKED_AT = 4000  # inputs that groups are made of


@dataclass(frozen=True)
class Questions:
    """Inputs of the unlabeled pool whose labels are asked for, and the answers so far.

    >>> import refprior as rp
    >>> questions = rp.labeling.Questions(asked=(7, 3, 9), answers=(0,))
    >>> questions.open
    (3, 9)
    """

    asked: tuple[int, ...] = ()  # indices in the pool, in the order they were asked
    answers: tuple[int, ...] = ()  # classes of the first of them

    @property
    def answered(self) -> tuple[int, ...]:
        """Those with an answer."""
        return self.asked[: len(self.answers)]

    @property
    def open(self) -> tuple[int, ...]:
        """Those without one."""
        return self.asked[len(self.answers) :]


@dataclass(frozen=True)
class Ensemble:
    """The mean of all particles as a classifier.

    >>> import torch
    >>> import refprior as rp
    >>> log_p = torch.tensor([[[0.9, 0.1]], [[0.3, 0.7]]]).log()  # two particles, one input
    >>> rp.labeling.Ensemble(torch.tensor([0.1, 0.9]).log()).predict(log_p)
    tensor([1])
    """

    log_prior: Tensor  # (K,)

    def predict(self, log_p: Tensor) -> Tensor:
        """The class of each input: (K, n, C) -> (n,)."""
        return predictive(log_p, self.log_prior).argmax(-1)


def suggest(run: Run, budget: int, before: Questions | None = None) -> Questions:
    """The inputs to label next. Questions that were not answered are withdrawn.

    A run that has labels asks where one more tells most, and elsewhere too: `most_informative`. A run whose outputs
    have no names, since it has no label or is read by its consensus, asks for the most typical input of each cluster,
    the largest clusters first and those with a labeled input last. There are then at most as many clusters as labels
    in all, or as classes if these are more.

    >>> import refprior as rp
    >>> run = rp.train(rp.recipes.override(rp.recipes.digits_ssl(), {"steps": 5}))
    >>> len(rp.labeling.suggest(run, budget=3).open)
    3
    """
    before = before or Questions()
    _check_questions(run, before)
    by_information, pool = _outputs_are_classes(run), len(run.task.unlabeled)
    most = pool if by_information else min(pool, CONSENSUS_IMAGES)
    free = most - len(before.answers)
    if whole_number("budget", budget, at_least=1) > free:
        limit = "" if most == pool else f", clusters of at most {most}"
        raise ValueError(
            f"can ask for 1 to {free} labels, got {budget}: {pool} unlabeled inputs, {len(before.answers)} answered"
            f"{limit}"
        )
    if by_information:
        log_prior = run.posterior(weighting="prior")
        chosen = most_informative(_pool_log_p(run), budget, log_prior, before.answered).tolist()
    else:
        chosen = _typical(run, budget, before.answered)
    return Questions((*before.answered, *chosen), before.answers)


def most_informative(
    log_p: Tensor,
    budget: int,
    log_prior: Tensor | None = None,
    labeled: Sequence[int] | Tensor | None = None,
    *,
    seed: int = 0,
) -> Tensor:
    """Inputs whose labels tell most about the particles, as a batch: (K, n, C) -> (budget,) different indices.

    They are drawn with probabilities proportional to I + Ī: I = I(w; y | x), what the label tells about the particle,
    and Ī its mean. So half of the batch is where the particles disagree, spread over all such inputs, since the largest
    I alone are often alike; and half is anywhere, since what all particles are wrong about has no I. Of a single
    particle, I is the entropy of its prediction. A larger batch begins with the smaller one.

    labeled: indices of inputs whose labels are known; they are never drawn.

    >>> import torch
    >>> import refprior as rp
    >>> torn = torch.tensor([[0.9, 0.1], [0.1, 0.9]]).log()  # what two particles say of an input that they disagree on
    >>> log_p = torch.full((2, 1000, 2), 0.5).log()
    >>> log_p[:, :9] = torn[:, None]
    >>> int((rp.labeling.most_informative(log_p, budget=12) < 9).sum())
    6
    """
    known = torch.as_tensor([] if labeled is None else labeled, dtype=torch.int64, device=log_p.device).unique()
    free = log_p.shape[1] - len(known)
    if whole_number("budget", budget, at_least=1) > free:
        raise ValueError(f"can choose 1 to {free} inputs, got {budget}: {log_p.shape[1]} inputs, {len(known)} labeled")
    if log_p.isnan().any():
        raise ValueError("the predictions are not numbers: nothing can be chosen by them")
    total, _, between = uncertainty(log_p, uniform(len(log_p), log_p) if log_prior is None else log_prior.detach())
    gain = (total if len(log_p) == 1 else between).double().clamp_min(0).index_fill(0, known, 0)
    weight = (gain + gain.sum() / free).clamp_min(1e-300)
    uniforms = torch.rand(len(gain), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    gumbel = -(-uniforms.log()).log().to(gain.device)  # the largest log-weights with such noise are draws by weight
    return (weight.log() + gumbel).index_fill(0, known, -torch.inf).topk(budget).indices


def most_typical(inputs: Tensor, budget: int, labeled: Tensor, *, seed: int = 0) -> Tensor:
    """Inputs that stand for many others without a label: (n, D), (m, D) labeled ones -> (budget,) different indices.

    k-means divides all of them into m + budget groups. The largest groups without a label come first, and of each the
    input nearest to its center. Among more than 4,000 inputs, 4,000 at equal intervals are looked at.

    With few labels this is better than asking where particles disagree: docs/embeddings.md.

    >>> import torch
    >>> import refprior as rp
    >>> inputs = torch.tensor([[0.0], [0.1], [0.2], [5.0], [5.1], [5.2], [9.0]])  # three groups
    >>> rp.labeling.most_typical(inputs, budget=1, labeled=torch.tensor([[0.05], [9.0]]))
    tensor([4])
    """
    count = whole_number("budget", budget, at_least=1)
    places = torch.linspace(0, len(inputs) - 1, min(len(inputs), max(_LOOKED_AT, count))).round().long()
    if count > len(inputs):
        raise ValueError(f"can choose 1 to {len(inputs)} inputs, got {budget}")
    looked_at = inputs[places].flatten(1).double().cpu().numpy()
    known = labeled.flatten(1).double().cpu().numpy()
    groups = min(len(known) + count, len(np.unique(looked_at, axis=0)))
    found = KMeans(groups, n_init=1, random_state=seed).fit(np.concatenate([known, looked_at]))
    home = torch.from_numpy(found.labels_[len(known) :]).long()
    distance = torch.from_numpy(np.linalg.norm(looked_at - found.cluster_centers_[home], axis=1))
    sizes = torch.bincount(home, minlength=groups)
    sizes[torch.from_numpy(np.unique(found.labels_[: len(known)])).long()] -= len(looked_at)  # last
    rank = sizes.argsort(descending=True, stable=True).argsort()[home]  # of each input's group
    nearest = torch.from_numpy(np.lexsort((distance.numpy(), home.numpy())))  # group by group, the nearest first
    within = torch.empty_like(home)
    within[nearest] = torch.cat([torch.arange(int(size)) for size in torch.bincount(home, minlength=groups)])
    order = np.lexsort((rank.numpy(), within.numpy()))  # the nearest of each group, then the second of each
    return places[torch.from_numpy(order[:count].copy())]


def _typical(run: Run, budget: int, answered: Sequence[int]) -> list[int]:
    """The input nearest to the center of each cluster, then the second nearest, …"""
    known, images = torch.tensor(answered, dtype=torch.int64), run.task.unlabeled
    labeled = run.task.labeled.inputs
    most = min(len(images), CONSENSUS_IMAGES)
    found = run.consensus(min(most, max(len(run.data.classes), len(labeled) + len(known) + budget)))
    log_p = _pool_log_p(run)
    distances = torch.cat([found.distances(part) for part in log_p.split(_BLOCK, dim=1)])  # (n, M)
    home = torch.cat([found.clusters(part) for part in log_p.split(_BLOCK, dim=1)])
    sizes = torch.bincount(home, minlength=distances.shape[-1]).double()
    seen = [home[known], *([found.clusters(run.log_probabilities(labeled))] if len(labeled) else [])]
    sizes[torch.cat(seen)] -= len(images)  # last, the larger first among them
    distances[known] = torch.inf
    chosen: list[int] = []
    for cluster in islice(cycle(sizes.argsort(descending=True, stable=True).tolist()), budget):
        own = distances[:, cluster].where(home == cluster, distances[:, cluster] + 2)  # others are after all members
        chosen.append(int(own.argmin()))
        distances[chosen[-1]] = torch.inf
    return chosen


def answer(questions: Questions, labels: Sequence[int]) -> Questions:
    """The questions with answers to the open ones, in their order; fewer answers than questions are fine.

    >>> import refprior as rp
    >>> rp.labeling.answer(rp.labeling.Questions(asked=(7, 3)), [1]).open
    (3,)
    """
    if not 1 <= len(labels) <= len(questions.open):
        asked = len(questions.open)
        raise ValueError(f"{len(labels)} labels for {asked} open question{'' if asked == 1 else 's'}")
    return replace(questions, answers=(*questions.answers, *labels))


def classifier(run: Run, questions: Questions | None = None) -> Consensus | Ensemble:
    """What a run says after the answers, without training.

    The outputs of a run that has labels are classes: its ensemble says what it said before, and answers count once
    training goes on with them (`continued`). Otherwise there are as many clusters as classes, with the names that
    answers and labels give them: what one label decides is then a whole class and not a part of it, and further labels
    mend a wrong one.

    >>> import refprior as rp
    >>> run = rp.train(rp.recipes.override(rp.recipes.digits_ssl(), {"steps": 5}))
    >>> asked = rp.labeling.suggest(run, budget=2)
    >>> named = rp.labeling.classifier(run, rp.labeling.answer(asked, [3, 5]))
    >>> rp.labeling.classify(run, named, run.task.test.inputs).shape
    torch.Size([600])
    """
    questions, known = questions or Questions(), run.task.labeled
    _check_questions(run, questions)
    if _outputs_are_classes(run):
        return Ensemble(run.posterior(weighting="prior"))
    images = torch.cat([known.inputs, run.task.unlabeled[list(questions.answered)]])
    y = torch.cat([known.labels, known.labels.new_tensor(questions.answers)])
    if not len(y):
        raise ValueError("no input has a label: answer a question first")
    return run.consensus().named(run.log_probabilities(images), y, len(run.data.classes))


def classify(run: Run, named: Consensus | Ensemble, images: Tensor) -> Tensor:
    """The class of each input by a `classifier`: (n, *shape) -> (n,).

    >>> import refprior as rp
    >>> run = rp.train(rp.recipes.override(rp.recipes.digits_ssl(), {"steps": 5}))
    >>> named = rp.labeling.classifier(run, rp.labeling.Questions((0, 1), (3, 5)))
    >>> rp.labeling.classify(run, named, run.task.test.inputs[:3]).shape
    torch.Size([3])
    """
    return torch.cat([named.predict(run.log_probabilities(part)) for part in images.split(_BLOCK)])


def classify_pool(run: Run, named: Consensus | Ensemble, questions: Questions) -> Tensor:
    """The class of each unlabeled input; of those that were asked about, the answer: (n,).

    >>> import refprior as rp
    >>> run = rp.train(rp.recipes.override(rp.recipes.digits_ssl(), {"steps": 5}))
    >>> answered = rp.labeling.Questions((0, 1), (3, 5))
    >>> named = rp.labeling.classifier(run, answered)
    >>> rp.labeling.classify_pool(run, named, answered)[:2]
    tensor([3, 5])
    """
    found = classify(run, named, run.task.unlabeled)
    found[list(questions.answered)] = torch.tensor(questions.answers, device=found.device)
    return found


def continued(run: Run, questions: Questions, recipe: Recipe | None = None) -> Recipe:
    """The recipe that goes on from the weights of a run, with its labels and the answers.

    Its task is that of the run as `data.Answered`, its first stage the run: `train(recipe, out, start=run)` begins with
    the run's weights, and the new folder says so. Where the outputs of the run have no names, the output layer is new.

    recipe: settings to go on with, by default those of the run. What was answered leaves the pool, and batches are no
    larger than what is left.

    >>> import refprior as rp
    >>> run = rp.train(rp.recipes.override(rp.recipes.digits_ssl(), {"steps": 5}))
    >>> recipe = rp.labeling.continued(run, rp.labeling.Questions((0, 1), (3, 5)))
    >>> len(rp.train(recipe, start=run).task.labeled)
    52
    """
    if not questions.answers:
        raise ValueError("no question has been answered yet: there is nothing to go on with")
    _check_questions(run, questions)
    recipe = run.recipe if recipe is None else recipe
    if not recipe.method.needs.labels:
        method = type(recipe.method).__name__
        raise ValueError(f"{method} does not learn from labels: go on with a method that does, such as method=Transfer")
    head: Head = "probe" if recipe.head == "probe" else "same" if _outputs_are_classes(run) else "new"
    task = Answered(run.recipe.task, questions.answered, questions.answers)
    batch = fitting_batch(recipe, len(run.task.unlabeled) - len(questions.answers))
    return replace(recipe, task=task, start=run.recipe, head=head, unlabeled_batch=batch)


def read_questions(folder: Path | str) -> Questions:
    """The questions of a run folder; none if nothing was asked.

    >>> import refprior as rp
    >>> rp.labeling.read_questions("runs/nothing-asked").asked
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
    if len(set(questions.asked)) < len(questions.asked):
        raise ValueError(f"{path} is damaged: it asks about an input twice")
    if record.get("pool") != _pool(Path(folder)):
        raise ValueError(f"{path} asks about other inputs than those of this run: remove it")
    return questions


def write_questions(folder: Path | str, questions: Questions) -> None:
    """Keep the questions in a run folder.

    >>> from pathlib import Path
    >>> import refprior as rp
    >>> Path("runs/asked").mkdir(parents=True)
    >>> rp.labeling.write_questions("runs/asked", rp.labeling.Questions((7, 3), (1,)))
    >>> rp.labeling.read_questions("runs/asked").open
    (3,)
    """
    record = {"pool": _pool(Path(folder)), "asked": questions.asked, "answers": questions.answers}
    write_record(Path(folder) / FILE, FORMAT, record)


def _write_classes(path: Path, run: Run, classes: Tensor) -> None:
    """A table of the class of every unlabeled input, by its name or else its number."""
    names = run.task.names or range(len(classes))
    text = io.StringIO(newline="")
    lines = zip(names, (run.data.classes[y] for y in classes.tolist()), strict=True)
    csv.writer(text).writerows([("input", "class"), *lines])
    write_text(path, text.getvalue())


def _pool(folder: Path) -> str | None:
    """What identifies the inputs that a run asks about; None in a folder without a run."""
    return read_header(folder).data.parts["unlabeled"].sha256 if (folder / RECIPE).exists() else None


def _outputs_are_classes(run: Run) -> bool:
    """Whether labels have given the outputs their names."""
    return run.recipe.readout == "outputs" and len(run.task.labeled) > 0


def _check_questions(run: Run, questions: Questions) -> None:
    """Refuse questions of another run."""
    inputs, classes = len(run.task.unlabeled), len(run.data.classes)
    wrong = [i for i in questions.asked if not 0 <= i < inputs] + [y for y in questions.answers if not 0 <= y < classes]
    if wrong:
        raise ValueError(f"{wrong[0]} does not fit {inputs} inputs and {classes} classes: questions of another run")


def _pool_log_p(run: Run) -> Tensor:
    """What the particles say of all inputs of the pool: (K, n, C)."""
    return torch.cat([run.log_probabilities(part) for part in run.task.unlabeled.split(_BLOCK)], dim=1)
