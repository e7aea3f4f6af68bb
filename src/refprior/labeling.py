"""Active learning: which unlabeled inputs to label, a classifier from the answers, and continued training.

The questions and answers of a run are stored in its folder, in questions.json.
"""

# K particles, n inputs of the pool, C classes, M clusters, R rules, S label configurations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import cycle, islice
from pathlib import Path
from typing import Literal, get_args

import msgspec
import numpy as np
import torch
from sklearn.cluster import KMeans
from torch import Tensor

from refprior._checks import one_of, whole_number
from refprior._files import read_record, write_csv, write_record
from refprior._words import counted, in_short
from refprior.data import Answered, fingerprints, survey
from refprior.data.sources import is_folder
from refprior.information import finite, uniform
from refprior.posterior import NOISE, Consensus, Evidence, Rules, predictive, uncertainty, with_noise
from refprior.training import Predictor, Recipe, Run
from refprior.training.loop import CONSENSUS_INPUTS, fitting_batch
from refprior.training.recipe import Head, labels_since
from refprior.training.store import RECIPE, read_header

__all__ = [
    "Questions",
    "classifier",
    "classify",
    "classify_pool",
    "continuation",
    "most_informative",
    "most_typical",
    "move_answered",
    "suggest",
]

FILE = "questions.json"
FORMAT = 1
_BLOCK = 4096  # inputs at a time
_CLUSTERED = 4000  # inputs that k-means groups
_FEWEST, _MOST = 16, 1024  # labelings of a batch that are summed over, or sampled if there are more
_SOFTER = 3  # temperature of the particles in questions
_WORK = 1 << 24  # probabilities of all inputs and labelings at most, unless that would be too few labelings
SETTLED = 0.99  # probability of a rule beyond which no question about rules is left
About = Literal["auto", "rule", "inputs"]  # subject of a question


@dataclass(frozen=True)
class Questions:
    """Inputs of the unlabeled pool whose labels are requested, and the answers so far.

    Parameters
    ----------
    asked : tuple of int
        Indices in the pool, in the order in which they were asked.
    answers : tuple of int
        Classes of the first of them.
    checked : tuple of (int, int)
        Labels of the run that were checked: positions in its labeled part, and the right classes.
    message : str
        Message of `suggest`. It is not saved.

    Examples
    --------
    >>> import refprior as rp
    >>> questions = rp.labeling.Questions(asked=(7, 3, 9)).answer([0])
    >>> questions.answered, questions.open
    ((7,), (3, 9))
    >>> questions.save("runs")
    >>> rp.labeling.Questions.load("runs") == questions
    True
    """

    asked: tuple[int, ...] = ()
    answers: tuple[int, ...] = ()
    checked: tuple[tuple[int, int], ...] = ()
    message: str = field(default="", compare=False)

    @property
    def answered(self) -> tuple[int, ...]:
        """Indices of the inputs with an answer."""
        return self.asked[: len(self.answers)]

    @property
    def open(self) -> tuple[int, ...]:
        """Indices of the inputs without an answer."""
        return self.asked[len(self.answers) :]

    def answer(self, labels: Sequence[int]) -> "Questions":
        """Answer the first open questions.

        Parameters
        ----------
        labels : sequence of int
            Classes of the open inputs, in their order; there may be fewer labels than questions.

        Returns
        -------
        Questions
            The questions with these answers.
        """
        if not 1 <= len(labels) <= len(self.open):
            raise ValueError(f"expected 1 to {len(self.open)} labels for the open questions, got {len(labels)}")
        return replace(self, answers=(*self.answers, *labels))

    def save(self, folder: Path | str) -> None:
        """Write the questions into a run folder.

        Parameters
        ----------
        folder : path
            The run folder.
        """
        record = {
            "pool": _pool(Path(folder)),
            "asked": self.asked,
            "answers": self.answers,
            "checked": self.checked,
        }
        write_record(Path(folder) / FILE, FORMAT, record)

    @classmethod
    def load(cls, folder: Path | str) -> "Questions":
        """Read the questions of a run folder.

        Parameters
        ----------
        folder : path
            The run folder.

        Returns
        -------
        Questions
            The questions; empty if there are none.

        Raises
        ------
        ValueError
            If the file is damaged or belongs to another run.
        """
        path = Path(folder) / FILE
        if not path.exists():
            return cls()
        try:
            record = read_record(path, FORMAT)
            questions = replace(msgspec.convert(record, cls), message="")
        except msgspec.ValidationError as error:
            raise ValueError(f"{path} is damaged: {in_short(error)}") from None
        if len(questions.answers) > len(questions.asked):
            raise ValueError(f"{path} is damaged: {len(questions.answers)} answers to {len(questions.asked)} questions")
        if len(set(questions.asked)) < len(questions.asked):
            raise ValueError(f"{path} is damaged: it asks about an input twice")
        if len(dict(questions.checked)) < len(questions.checked):
            raise ValueError(f"{path} is damaged: it has two checks of a label")
        if record.get("pool") != _pool(Path(folder)):
            raise ValueError(f"{path} belongs to a run with other inputs: delete it")
        return questions


@dataclass(frozen=True)
class Ensemble:
    """The weighted mean of all particles as a classifier."""

    log_weights: Tensor  # (K,)

    def predict(self, log_p: Tensor) -> Tensor:
        """Return the class of each input: (K, n, C) -> (n,)."""
        return predictive(log_p, self.log_weights).argmax(-1)


def suggest(run: Run, budget: int, before: Questions | None = None, *, about: About = "auto") -> Questions:
    """Choose the inputs to label next.

    Questions are either about the *rule*, if the labels admit several (`Rules.ambiguous`), or about *inputs* whose
    labels are worth training on. Particles count by their posterior given the answers so far.

    About the rule, the batch of at most 4,000 inputs is chosen greedily to maximize the mutual information between the
    rule and all labels of the batch. Once a rule has a probability of 0.99, there is no open question, and `message`
    states the reason.

    Equal inputs count once. About inputs, a run with labels chooses by `most_informative`. A run whose outputs are not
    classes, because it has no labels or is read out by consensus, chooses the most typical input of each cluster: the
    largest clusters first, and those with a labeled input last. The number of clusters is the number of labels in
    total, or of classes if that is larger.

    Parameters
    ----------
    run : Run
        A trained run with an unlabeled pool.
    budget : int
        Number of inputs to choose.
    before : Questions, optional
        Earlier questions of the run. Answers are kept, open questions are withdrawn.
    about : {"auto", "rule", "inputs"}, default: "auto"
        What the questions decide. "auto" asks about the rule if the labels admitted several before any answer.

    Returns
    -------
    Questions
        The earlier answers and the new open questions.

    Raises
    ------
    ValueError
        If the pool has fewer inputs than the budget, or if there are no rules because outputs are not classes.

    Examples
    --------
    >>> import refprior as rp
    >>> run = rp.train(rp.recipes.override(rp.recipes.digits_ssl(), {"steps": 5}))
    >>> len(rp.labeling.suggest(run, budget=3).open)
    3
    """
    before = before or Questions()
    _check_questions(run, before)
    one_of("about", about, get_args(About))
    by_information, pool = outputs_are_classes(run), len(run.task.unlabeled)
    if about == "rule" and not by_information:
        raise ValueError("about='rule' needs a run whose outputs are classes: answer questions about inputs first")
    most = pool if by_information else min(pool, CONSENSUS_INPUTS)
    marks, known = fingerprints(run.task.unlabeled).tolist(), {*before.answered, *labeled_in_pool(run)}
    free = first_places(marks, {marks[place] for place in known})
    least = min(len(free), most - len(known))
    if whole_number("budget", budget, at_least=1) > least:
        counts = {
            "labeled already": len(known) - len(before.answers),
            "equal to another": pool - len(known) - len(free),
            "answered": len(before.answers),
        }
        left = ", ".join(f"{count} {name}" for name, count in counts.items() if count or name == "answered")
        limit = "" if most == pool else f", clusters of at most {most}"
        raise ValueError(f"can ask for 1 to {least} labels, got {budget}: {pool} inputs in the pool, {left}{limit}")
    rules = run.rules() if by_information and about != "inputs" else None
    if rules is not None and (about == "rule" or rules.ambiguous):
        some = sorted({*free} & {*rules.places})
        log_p = run.log_probabilities(run.task.unlabeled[some])
        places, message = about_rules(log_p, rules, evidence(run, before), budget)
        return replace(before, asked=(*before.answered, *(some[place] for place in places)), message=message)
    if by_information:
        taken = sorted({*range(pool)} - {*free})
        chosen = most_informative(_pool_log_p(run), budget, log_weights(run, before), taken).tolist()
    else:
        chosen = _typical(run, budget, sorted(known), free)
    return replace(before, asked=(*before.answered, *chosen), message="")


def labeled_in_pool(run: Run) -> list[int]:
    """Return the places in the pool of the inputs whose labels trained the run, and of their duplicates."""
    marks = _labeled_marks(run)
    return torch.isin(fingerprints(run.task.unlabeled), marks).nonzero()[:, 0].tolist() if len(marks) else []


def first_places(marks: Sequence[int], known: Set[int]) -> list[int]:
    """Return the first place of each fingerprint that is not known: equal inputs count once."""
    first: dict[int, int] = {}
    for place, mark in enumerate(marks):
        if mark not in known:
            first.setdefault(mark, place)
    return [*first.values()]


def about_rules(log_p: Tensor, rules: Rules, evidence: Evidence, budget: int) -> tuple[list[int], str]:
    """Return the most decisive inputs, none if one rule is settled, and a message: (K, n, C) -> up to budget places."""
    best = max(rule_probabilities(evidence.log_selected, rules))
    if best >= SETTLED:
        return [], f"one rule remains, with probability {best:.2f}: no question about rules is left"
    found = f"{counted(len(rules), 'rule')} fit the labels"
    if not rules.fits:
        found = f"{counted(len(rules), 'group')} of particles agree on only {100 * rules.agreement:.0f} % of the labels"
    message = f"{found}, the likeliest with probability {best:.2f}: these inputs separate them"
    return most_decisive(log_p, budget, evidence.log_selected), message


def rule_probabilities(log_weights: Tensor, rules: Rules) -> list[float]:
    """Return the posterior probability of each rule from the log-weights of the particles."""
    weights = log_weights.double().exp()
    return [float(weights[list(members)].sum()) for members in rules.members]


def most_decisive(log_p: Tensor, budget: int, log_weights: Tensor, *, noise: float = NOISE) -> list[int]:
    """Choose inputs whose labels together have the most information about which particle is right.

    Greedy: each input maximizes I(w; y_1 … y_b | x_1 … x_b) given those before it. One particle generates all labels of
    a batch, each replaced by a uniform one with probability `noise`. The sum over the C^b labelings of the inputs
    before is exact up to S of them, and then an average over S draws; S is 16 to 1,024, fewer for more inputs and
    classes. The particles are overconfident: softened by a temperature of 3, they prefer inputs that are easy under
    every rule, whose labels follow the rule. Groups of particles would hide inputs on which few particles differ.
    log_p: (K, n, C), log_weights: (K,).
    """
    if whole_number("budget", budget, at_least=1) > log_p.shape[1]:
        raise ValueError(f"can ask about the rule with labels of 1 to {log_p.shape[1]} different inputs, got {budget}")
    soft = (finite(log_p.detach().double().cpu()) / _SOFTER).log_softmax(-1)
    p = with_noise(soft, noise, log_p.shape[-1]).exp()
    own = -torch.xlogy(p, p).sum(-1)  # (K, n)
    share, weights = torch.ones(1, dtype=torch.float64), log_weights.double().cpu().softmax(0)[None]  # (S,), (S, K)
    most = min(_MOST, max(_FEWEST, _WORK // p[0].numel()))
    draw, chosen = torch.Generator().manual_seed(0), list[int]()
    for _ in range(budget):
        mixed = (weights @ p.flatten(1)).reshape(-1, *p.shape[1:])  # (S, n, C)
        gain = share @ (-torch.xlogy(mixed, mixed).sum(-1) - weights @ own)  # (n,)
        gain[chosen] = -torch.inf
        chosen.append(int(gain.argmax()))
        joint = weights[:, None] * p[:, chosen[-1]].T  # (S, C, K)
        total = joint.sum(-1)
        share, weights = (share[:, None] * total).flatten(), (joint / total[..., None]).flatten(0, 1)
        if len(share) > most:  # systematic draws
            start = torch.rand(1, generator=draw, dtype=torch.float64)
            points = (torch.arange(most) + start) / most * share.sum()
            weights = weights[torch.searchsorted(share.cumsum(0), points).clamp_max(len(share) - 1)]
            share = torch.full((most,), 1 / most, dtype=torch.float64)
    return chosen


def most_informative(
    log_p: Tensor,
    budget: int,
    log_prior: Tensor | None = None,
    labeled: Sequence[int] | Tensor | None = None,
    *,
    seed: int = 0,
) -> Tensor:
    """Draw a batch of inputs whose labels are informative about the particles.

    Inputs are drawn with probabilities proportional to I + Ī, where I = I(w; y | x) is the mutual information between
    particle and label and Ī its mean. Half of the batch is thus spread over the inputs on which the particles disagree,
    because the inputs of largest I are often similar; the other half is uniform, because I is zero where all particles
    make the same mistake. For a single particle, I is the entropy of its prediction. A larger batch starts with the
    smaller one.

    Parameters
    ----------
    log_p : Tensor
        Log-probabilities, (K, n, C).
    budget : int
        Number of inputs to draw.
    log_prior : Tensor, optional
        Log-weights of the particles, (K,). Defaults to uniform.
    labeled : sequence of int or Tensor, optional
        Indices of inputs with known labels, which are never drawn.
    seed : int, default: 0
        Seed for the draws.

    Returns
    -------
    Tensor
        Distinct indices, (budget,).

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> torn = torch.tensor([[0.9, 0.1], [0.1, 0.9]]).log()  # two particles that disagree
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
        raise ValueError("log_p contains NaN")
    total, _, between = uncertainty(log_p, uniform(len(log_p), log_p) if log_prior is None else log_prior.detach())
    gain = (total if len(log_p) == 1 else between).double().clamp_min(0).index_fill(0, known, 0)
    weight = (gain + gain.sum() / free).clamp_min(1e-300)
    uniforms = torch.rand(len(gain), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    gumbel = -(-uniforms.log()).log().to(gain.device)  # Gumbel noise: the largest sums are draws by weight
    return (weight.log() + gumbel).index_fill(0, known, -torch.inf).topk(budget).indices


def most_typical(inputs: Tensor, budget: int, labeled: Tensor, *, seed: int = 0) -> Tensor:
    """Choose inputs that represent many others without a label.

    k-means divides m labeled inputs and the others into m + budget groups. The largest groups without a label come
    first, each represented by the input nearest to its center. Of more than 4,000 inputs, 4,000 at equal intervals are
    used. With few labels this is better than choosing by disagreement: docs/embeddings.md.

    Parameters
    ----------
    inputs : Tensor
        Inputs to choose from, (n, D).
    budget : int
        Number of inputs to choose.
    labeled : Tensor
        Inputs with known labels, (m, D).
    seed : int, default: 0
        Seed for k-means.

    Returns
    -------
    Tensor
        Distinct indices, (budget,).

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> inputs = torch.tensor([[0.0], [0.1], [0.2], [5.0], [5.1], [5.2], [9.0]])  # three groups
    >>> rp.labeling.most_typical(inputs, budget=1, labeled=torch.tensor([[0.05], [9.0]]))
    tensor([4])
    """
    count = whole_number("budget", budget, at_least=1)
    places = torch.linspace(0, len(inputs) - 1, min(len(inputs), max(_CLUSTERED, count))).round().long()
    if count > len(inputs):
        raise ValueError(f"can choose 1 to {len(inputs)} inputs, got {budget}")
    clustered = inputs[places].flatten(1).double().cpu().numpy()
    known = labeled.flatten(1).double().cpu().numpy()
    groups = min(len(known) + count, len(np.unique(clustered, axis=0)))
    found = KMeans(groups, n_init=1, random_state=seed).fit(np.concatenate([known, clustered]))
    home = torch.from_numpy(found.labels_[len(known) :]).long()
    distance = torch.from_numpy(np.linalg.norm(clustered - found.cluster_centers_[home], axis=1))
    sizes = torch.bincount(home, minlength=groups)
    sizes[torch.from_numpy(np.unique(found.labels_[: len(known)])).long()] -= len(clustered)  # last
    rank = sizes.argsort(descending=True, stable=True).argsort()[home]  # of each input's group
    nearest = torch.from_numpy(np.lexsort((distance.numpy(), home.numpy())))  # group by group, the nearest first
    within = torch.empty_like(home)
    within[nearest] = torch.cat([torch.arange(int(size)) for size in torch.bincount(home, minlength=groups)])
    order = np.lexsort((rank.numpy(), within.numpy()))  # the nearest of each group, then the second of each
    return places[torch.from_numpy(order[:count].copy())]


def _typical(run: Run, budget: int, answered: Sequence[int], free: Sequence[int]) -> list[int]:
    """Return the input nearest to the center of each cluster, then the second nearest, …"""
    known, pool = torch.tensor(answered, dtype=torch.int64), run.task.unlabeled
    labeled = run.task.labeled.inputs
    most = min(len(pool), CONSENSUS_INPUTS)
    found = run.consensus(min(most, max(len(run.data.classes), len(labeled) + len(known) + budget)))
    log_p = _pool_log_p(run)
    distances = torch.cat([found.distances(part) for part in log_p.split(_BLOCK, dim=1)])  # (n, M)
    home = torch.cat([found.clusters(part) for part in log_p.split(_BLOCK, dim=1)])
    sizes = torch.bincount(home, minlength=distances.shape[-1]).double()
    seen = [home[known], *([found.clusters(run.log_probabilities(labeled))] if len(labeled) else [])]
    sizes[torch.cat(seen)] -= len(pool)  # last, the larger first among them
    taken = torch.ones(len(pool), dtype=torch.bool)
    taken[list(free)] = False
    distances[taken] = torch.inf
    chosen: list[int] = []
    for cluster in islice(cycle(sizes.argsort(descending=True, stable=True).tolist()), budget):
        own = distances[:, cluster].where(home == cluster, distances[:, cluster] + 2)  # after all members
        chosen.append(int(own.argmin()))
        distances[chosen[-1]] = torch.inf
    return chosen


def classifier(run: Run, questions: Questions | None = None) -> Consensus | Ensemble:
    """Make a classifier from a run and the answers, without training.

    The outputs of a run with labels are classes: the classifier is its ensemble, in which the answers weight the
    particles (`posterior.Evidence`). Otherwise the classifier clusters the predictions into as many clusters as
    classes, which the answers and labels name. `continuation` trains with the answers.

    Parameters
    ----------
    run : Run
        A trained run.
    questions : Questions, optional
        Questions of the run with answers.

    Returns
    -------
    Consensus or Ensemble
        The classifier; `classify` applies it.

    Raises
    ------
    ValueError
        If no input has a label.

    Examples
    --------
    >>> import refprior as rp
    >>> run = rp.train(rp.recipes.override(rp.recipes.digits_ssl(), {"steps": 5}))
    >>> asked = rp.labeling.suggest(run, budget=2)
    >>> named = rp.labeling.classifier(run, asked.answer([3, 5]))
    >>> rp.labeling.classify(run, named, run.task.test.inputs).shape
    torch.Size([600])
    """
    questions, known = questions or Questions(), run.task.labeled
    _check_questions(run, questions)
    if outputs_are_classes(run):
        return Ensemble(log_weights(run, questions))
    inputs = torch.cat([known.inputs, run.task.unlabeled[list(questions.answered)]])
    y = torch.cat([known.labels, known.labels.new_tensor(questions.answers)])
    if not len(y):
        raise ValueError("no input has a label: answer a question first")
    return run.consensus().named(run.log_probabilities(inputs), y, len(run.data.classes))


def evidence(run: Run, questions: Questions) -> Evidence:
    """Return the evidence of the answers about the particles of a run whose outputs are classes.

    An input that the pool holds several times counts once, by its last answer. Inputs that were labeled in training are
    left out: their labels trained the particles.
    """
    found, (inputs, y) = Evidence(run.ema.log_prior.detach().cpu()), _new_labels(run, questions)
    return found.update(run.log_probabilities(inputs).cpu(), y) if len(y) else found


def predictor(run: Run, questions: Questions) -> Predictor:
    """Return the deployable model of a run whose outputs are classes, weighted by the answers."""
    inputs, y = _new_labels(run, questions)
    return run.given(inputs, [run.data.classes[label] for label in y])


def _new_labels(run: Run, questions: Questions) -> tuple[Tensor, Tensor]:
    """Return the answered inputs whose labels did not train the particles, each once, and their classes."""
    inputs = run.task.unlabeled[list(questions.answered)]
    last = dict(zip(fingerprints(inputs).tolist(), range(len(inputs)), strict=True))
    trained = set(_labeled_marks(run).tolist())
    places = [place for mark, place in last.items() if mark not in trained]
    return inputs[places], torch.tensor(questions.answers, dtype=torch.int64)[places]


def log_weights(run: Run, questions: Questions) -> Tensor:
    """Return the log-weights of the particles given the answers: (K,); the prior without answers."""
    log_prior, found = run.ema.log_prior.detach(), evidence(run, questions)
    return found.log_weights.to(log_prior) if found.count else log_prior


def _labeled_marks(run: Run) -> Tensor:
    """Return the fingerprints of the labeled inputs; runs of older versions do not have them."""
    return fingerprints(run.task.labeled.inputs) if run.labeled is None else run.labeled


def classify(run: Run, named: Consensus | Ensemble, inputs: Tensor) -> Tensor:
    """Classify inputs.

    Parameters
    ----------
    run : Run
        A trained run.
    named : Consensus or Ensemble
        Its `classifier`.
    inputs : Tensor
        Inputs, (n, ...).

    Returns
    -------
    Tensor
        Class indices, (n,).

    Examples
    --------
    >>> import refprior as rp
    >>> run = rp.train(rp.recipes.override(rp.recipes.digits_ssl(), {"steps": 5}))
    >>> named = rp.labeling.classifier(run, rp.labeling.Questions((0, 1), (3, 5)))
    >>> rp.labeling.classify(run, named, run.task.test.inputs[:3]).shape
    torch.Size([3])
    """
    return torch.cat([named.predict(run.log_probabilities(part)) for part in inputs.split(_BLOCK)])


def classify_pool(run: Run, named: Consensus | Ensemble, questions: Questions) -> Tensor:
    """Classify the whole unlabeled pool; answered inputs keep their answer.

    Parameters
    ----------
    run : Run
        A trained run.
    named : Consensus or Ensemble
        Its `classifier`.
    questions : Questions
        Questions of the run with answers.

    Returns
    -------
    Tensor
        Class indices, (n,).

    Examples
    --------
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


def continuation(run: Run, questions: Questions, recipe: Recipe | None = None) -> Recipe:
    """Return the recipe that continues a run with the answers as labels.

    `train(recipe, out, first_stage=run)` starts from the weights of the run, and the new folder records it. Its task is
    that of the run as `data.Answered`. The output layer is new if the outputs of the run are not classes. Answered
    inputs leave the pool, and batches are no larger than the rest.

    If a checked label was wrong, `train(recipe, out)` starts over instead, because the particles have learned the
    wrong label, and because folds follow the classes.

    Parameters
    ----------
    run : Run
        A trained run.
    questions : Questions
        Questions of the run with answers.
    recipe : Recipe, optional
        Settings of the continued training. Defaults to those of the run.

    Returns
    -------
    Recipe
        A recipe whose first stage is that of the run, or that of its first stage if a label was wrong.

    Raises
    ------
    ValueError
        If there are no answers and no corrections, or the method does not learn from labels.

    Examples
    --------
    >>> import refprior as rp
    >>> run = rp.train(rp.recipes.override(rp.recipes.digits_ssl(), {"steps": 5}))
    >>> recipe = rp.labeling.continuation(run, rp.labeling.Questions((0, 1), (3, 5)))
    >>> len(rp.train(recipe, first_stage=run).task.labeled)
    52
    """
    _check_questions(run, questions)
    wrong = corrections(run, questions)
    if not (questions.answers or wrong):
        raise ValueError("no question has been answered and no label corrected yet")
    recipe = run.recipe if recipe is None else recipe
    if not recipe.method.needs.labels:
        method = type(recipe.method).__name__
        raise ValueError(f"{method} does not learn from labels: use a method that does, such as method=Transfer")
    head: Head = "probe" if recipe.head == "probe" else "same" if outputs_are_classes(run) else "new"
    task = Answered(run.recipe.task, questions.answered, questions.answers, questions.checked)
    batch = fitting_batch(recipe, len(run.task.unlabeled) - len(questions.answers))
    start: Recipe | None = run.recipe
    if wrong:
        first = run.recipe
        while first.start is not None and labels_since(first) is not None:
            first = first.start
        start, head = first.start, first.head
    return replace(recipe, task=task, start=start, head=head, unlabeled_batch=batch)


def corrections(run: Run, questions: Questions) -> dict[int, int]:
    """Return the right classes of the labels that were checked and found wrong, by position in the labeled part."""
    given = run.task.labeled.labels.tolist()
    return {place: label for place, label in questions.checked if label != given[place]}


def checked_before(run: Run) -> set[int]:
    """Return the positions of labels that were checked before the run was trained."""
    places, task = set[int](), run.recipe.task
    while isinstance(task, Answered):
        places |= dict(task.checked).keys()
        task = task.task
    return places


def move_answered(run: Run, questions: Questions) -> list[Path]:
    """Move answered photos, and photos whose label was corrected, into the folders of their classes.

    The folder then has the labels, and the next fit learns from them. The run has another pool afterwards: its
    predictor can be used, but no questions can be asked.

    Parameters
    ----------
    run : Run
        A run on a folder of photos with one subfolder per class.
    questions : Questions
        Its questions with answers.

    Returns
    -------
    list of Path
        The files in their new places.

    Raises
    ------
    ValueError
        If the data are not such a folder, or a class has a file of that name. No file is moved then.

    Examples
    --------
    >>> from pathlib import Path
    >>> import refprior as rp
    >>> from PIL import Image
    >>> for number, name in enumerate(["cat/1", "cat/2", "dog/1", "dog/2", "unlabeled/3", "unlabeled/4"]):
    ...     Path("photos", name).parent.mkdir(parents=True, exist_ok=True)
    ...     Image.new("L", (8, 8), 40 * number).save(f"photos/{name}.png")
    >>> recipe = rp.recipes.with_data(rp.recipes.digits_ssl(), "photos")
    >>> run = rp.train(rp.recipes.override(recipe, {"steps": 5}))
    >>> [file.parent.name for file in rp.labeling.move_answered(run, rp.labeling.Questions((1,), (0,)))]
    ['cat']
    """
    _check_questions(run, questions)
    data, table = getattr(run.recipe.task, "data", None), getattr(run.recipe.task, "labels_file", None)
    if not is_folder(data) or table is not None:
        place = table or "the data"
        raise ValueError(f"only photos in folders of classes can be moved: write the answers into {place} yourself")
    found = survey(str(data))
    home = {  # the folder of each class
        one.name: found.root / Path(*one.files[0].relative_to(found.root).parts[: 1 + found.divided])
        for one in found.part("train")
    }
    files = [file for part in ("unlabeled", "train") for one in found.part(part) for file in one.files]
    there, moves = {str(file.relative_to(found.root)): file for file in files}, {}
    named = [(run.task.input_name(i), y) for i, y in zip(questions.answered, questions.answers, strict=True)]
    named += [(run.task.labeled_names[i], y) for i, y in corrections(run, questions).items()]
    for name, label in named:
        if name in there:
            moves[there[name]] = home[run.data.classes[label]] / there[name].name
    taken = [str(goal) for goal in moves.values() if goal.exists()]
    if taken or len(set(moves.values())) < len(moves):
        twice = taken[0] if taken else "two photos of a class"
        raise ValueError(f"{twice} would be overwritten: give photos different names")
    for file, goal in moves.items():
        file.rename(goal)
    return list(moves.values())


def write_classes(path: Path, run: Run, classes: Tensor) -> None:
    """Write a table of the class of every unlabeled input, by name or number."""
    names = run.task.names or range(len(classes))
    write_csv(path, [("input", "class"), *zip(names, (run.data.classes[y] for y in classes.tolist()), strict=True)])


def _pool(folder: Path) -> str | None:
    """Return the hash of the pool of a run; None in a folder without a run."""
    return read_header(folder).data.parts["unlabeled"].sha256 if (folder / RECIPE).exists() else None


def outputs_are_classes(run: Run) -> bool:
    """Return whether the outputs of a run are classes: it has labels and is not read out by consensus."""
    return run.recipe.readout == "outputs" and len(run.task.labeled) > 0


def _check_questions(run: Run, questions: Questions) -> None:
    """Reject questions of another run."""
    inputs, labels, classes = len(run.task.unlabeled), len(run.task.labeled), len(run.data.classes)
    places, corrected = zip(*questions.checked, strict=True) if questions.checked else ((), ())
    for numbers, count in (
        (questions.asked, inputs),
        (places, labels),
        ((*questions.answers, *corrected), classes),
    ):
        if wrong := [number for number in numbers if not 0 <= number < count]:
            raise ValueError(
                f"{wrong[0]} does not fit {inputs} inputs, {labels} labels and {classes} classes: "
                "questions of another run"
            )


def _pool_log_p(run: Run) -> Tensor:
    """Return the log-probabilities of the pool: (K, n, C)."""
    return torch.cat([run.log_probabilities(part) for part in run.task.unlabeled.split(_BLOCK)], dim=1)
