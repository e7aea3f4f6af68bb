"""Rules: groups of particles that give the same labels to the pool."""

# K particles, n inputs, C classes, R rules, G groups of examples

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from operator import itemgetter
from textwrap import shorten

import numpy as np
import torch
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform
from torch import Tensor
from torch.nn.functional import one_hot

from refprior._checks import number, whole_number
from refprior.information import finite, mixture
from refprior.posterior._ensemble import group_accuracy

AGREED = 0.95  # least agreement on the labeled inputs
APART = 0.05  # least disagreement on the pool, of labels with a probability of at least `SURE`
SURE = 0.7
PER_CLASS = 10  # least labels of a class on average; with fewer, particles disagree because they know too little
SHARED = 0.5  # least weight of rules that several particles found
_LISTED, _PAIRS = 20, 3  # rules that a repr lists, and of which it compares each pair


@dataclass(frozen=True, eq=False)
class Rules:
    """The rules that fit the labels, as groups of particles.

    The particles of a rule agree with each other on most of the pool. Labels of inputs on which the rules differ decide
    which rule is right.

    Parameters
    ----------
    members : tuple of tuple of int
        Particles of each rule, the heaviest rule first.
    weights : tuple of float
        Probability of each rule: the sum of its particles' weights.
    log_p : Tensor, shape (R, n, C)
        Log-probabilities of the pool under each rule, the mixture of its particles.
    classes : tuple of str
        Names of the classes.
    agreement : float
        Mean agreement of two particles drawn by their weights, on the labeled inputs. NaN without labels.
    labeled : int
        Number of labeled inputs.
    places : tuple of int, optional
        Places of the n inputs in the pool. Defaults to 0 … n - 1.
    names : tuple of str, optional
        Names of the n inputs, such as files.
    groups : tuple of str, optional
        Names of groups of labeled test inputs, such as hospitals or backgrounds.
    accuracies : Tensor, shape (R, G), optional
        Accuracy of each rule in each group.

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> log_p = torch.tensor([[[0.9, 0.1]] * 4, [[0.9, 0.1]] * 4, [[0.9, 0.1]] * 2 + [[0.1, 0.9]] * 2]).log()
    >>> found = rp.posterior.find_rules(log_p, rp.information.uniform(3, log_p), classes=("cat", "dog"))
    >>> found.members, found.separating(0, 1, count=2)
    (((0, 1), (2,)), [2, 3])
    """

    members: tuple[tuple[int, ...], ...]
    weights: tuple[float, ...]
    log_p: Tensor
    classes: tuple[str, ...]
    agreement: float = float("nan")
    labeled: int = 0
    places: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    accuracies: Tensor | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "places", self.places or tuple(range(self.log_p.shape[1])))

    def __len__(self) -> int:
        return len(self.members)

    @property
    def labels(self) -> Tensor:
        """Label of each input under each rule: (R, n)."""
        return self.log_p.argmax(-1)

    @property
    def shares(self) -> Tensor:
        """Share of the inputs that each rule gives to each class: (R, C)."""
        return one_hot(self.labels, len(self.classes)).double().mean(1)

    @property
    def differences(self) -> Tensor:
        """Share of the inputs to which two rules give different labels: (R, R)."""
        return _disagreements(self.log_p)

    @property
    def disagreement(self) -> float:
        """Probability that two rules, drawn by their weights, give a random input of the pool different labels."""
        return self._average(self.differences)

    @property
    def fits(self) -> bool:
        """Whether the particles agree on at least 95 % of the labeled inputs; otherwise the groups are no rules yet."""
        return self.agreement >= AGREED

    @property
    def ambiguous(self) -> bool:
        """Whether the labels admit several rules.

        There are at least ten labels per class, and the particles agree on at least 95 % of them. The rules contradict
        each other on at least 5 % of the pool, where both are sure of different labels. Rules that several particles
        found have at least half of the weight. Otherwise each particle errs in its own way, as with too few labels.
        """
        shared = sum(weight for weight, members in zip(self.weights, self.members, strict=True) if len(members) > 1)
        enough = self.labeled >= PER_CLASS * len(self.classes) and shared >= SHARED
        return self.fits and enough and self._average(_disagreements(self.log_p, SURE)) >= APART

    @property
    def worst_groups(self) -> tuple[tuple[str, float], ...]:
        """Name and accuracy of the group in which each rule is worst; empty if no groups are known."""
        if self.accuracies is None:
            return ()
        lowest, places = self.accuracies.min(1)
        return tuple((self.groups[place], value) for place, value in zip(places.tolist(), lowest.tolist(), strict=True))

    def _average(self, pairs: Tensor) -> float:
        """Average over two rules drawn by their weights: (R, R) -> a number."""
        weights = torch.tensor(self.weights, dtype=torch.float64)
        return float(weights @ pairs @ weights)

    def answers(self, place: int) -> tuple[str, ...]:
        """Return the class of an input under each rule.

        Parameters
        ----------
        place : int
            Place of the input in the pool, as `separating` returns it.

        Returns
        -------
        tuple of str
            Names of classes, one for each rule.
        """
        if place not in self.places:
            raise ValueError(f"place {place} is none of the {len(self.places)} inputs by which the rules were found")
        return tuple(self.classes[label] for label in self.labels[:, self.places.index(place)].tolist())

    def separating(self, first: int, second: int, count: int = 8) -> list[int]:
        """Find the inputs that separate two rules best.

        Parameters
        ----------
        first, second : int
            Rules, counted from 0.
        count : int, default: 8
            Number of inputs.

        Returns
        -------
        list of int
            Places in the pool, the clearest first: both rules are confident and name different classes. Pairs of
            classes take turns.
        """
        whole_number("first", first, at_least=0, at_most=len(self) - 1)
        whole_number("second", second, at_least=0, at_most=len(self) - 1)
        whole_number("count", count, at_least=0)
        labels = self.labels
        sure = self.log_p[first].amax(-1).minimum(self.log_p[second].amax(-1))
        pairs = list(zip(labels[first].tolist(), labels[second].tolist(), strict=True))
        seen, ranked = Counter[tuple[int, int]](), []
        for i in sure.argsort(descending=True, stable=True).tolist():
            if pairs[i][0] != pairs[i][1]:
                ranked.append((seen[pairs[i]], i))
                seen[pairs[i]] += 1
        return [self.places[i] for _, i in sorted(ranked, key=itemgetter(0))[:count]]

    def __repr__(self) -> str:
        found = "1 rule fits the labels" if len(self) == 1 else f"{len(self)} rules fit the labels"
        if self.agreement < AGREED:
            found = f"{len(self)} groups of particles agree on only {100 * self.agreement:.0f} % of the labels"
        apart = f"; they disagree on {100 * self.disagreement:.0f} % of the pool" if len(self) > 1 else ""
        names = [f"{name[:12]} %".rjust(5) for name in self.classes[:6]]
        worst = [f"  {100 * right:4.1f} ({name})" for name, right in self.worst_groups] or [""] * len(self)
        lines = [
            f"{found}{apart}",
            f"rule  particles  weight %  {'  '.join(names)}{'  worst group %' * bool(worst[0])}",
        ]
        rows = zip(self.members[:_LISTED], self.weights, self.shares.tolist(), worst, strict=False)
        for rule, (members, weight, shares, least) in enumerate(rows, 1):
            cells = (f"{100 * share:{len(name)}.1f}" for share, name in zip(shares, names, strict=False))
            lines.append(f"{rule:<4}  {len(members):<9}  {100 * weight:<8.1f}  {'  '.join(cells)}{least}")
        lines += [f"… {len(self) - _LISTED} more"] if len(self) > _LISTED else []
        for i, j in combinations(range(min(_PAIRS, len(self))), 2):
            shown = (
                f"{self._name(p)} ({self.answers(p)[i]} or {self.answers(p)[j]})" for p in self.separating(i, j, 3)
            )
            differ = 100 * self.differences[i, j].item()
            lines.append(f"rules {i + 1} and {j + 1} differ on {differ:.0f} %: {', '.join(shown)}")
        return "\n".join(lines)

    def _name(self, place: int) -> str:
        return shorten(self.names[self.places.index(place)], 40, placeholder=" …") if self.names else f"input {place}"


def find_rules(
    log_p: Tensor,
    log_weights: Tensor,
    *,
    classes: Sequence[str] | None = None,
    labeled: Tensor | None = None,
    test: tuple[Tensor, Tensor, Sequence[object] | np.ndarray] | None = None,
    same: float = 0.9,
) -> Rules:
    """Group particles by agreement of their labels.

    Complete-linkage clustering: any two particles of a rule agree on at least the share ``same`` of the inputs.

    Parameters
    ----------
    log_p : Tensor, shape (K, n, C)
        Log-probabilities of the pool.
    log_weights : Tensor, shape (K,)
        Log-weights of the particles.
    classes : sequence of str, optional
        Names of the classes. Defaults to their numbers.
    labeled : Tensor, shape (K, b, C), optional
        Log-probabilities of the labeled inputs, for `Rules.agreement`.
    test : (Tensor, Tensor, sequence), optional
        Log-probabilities of m test inputs (K, m, C), their classes (m,), -1 if unknown, and their groups (m,), names
        or numbers, for `Rules.accuracies`.
    same : float, default: 0.9
        Least agreement of two particles of a rule.

    Returns
    -------
    Rules
        The groups, the heaviest first.

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> log_p = torch.eye(2).log().clamp_min(-9)[:, None].expand(2, 5, 2)  # two particles that always disagree
    >>> len(rp.posterior.find_rules(log_p, rp.information.uniform(2, log_p)))
    2
    """
    number("same", same, above=0, at_most=1)
    if log_p.dim() != 3 or log_weights.shape != log_p.shape[:1]:
        shapes = f"{tuple(log_p.shape)} and {tuple(log_weights.shape)}"
        raise ValueError(f"log_p must be (K, n, C) and log_weights (K,), got {shapes}")
    if log_p.isnan().any() or log_weights.isnan().any():
        raise ValueError("log_p and log_weights must not contain NaN")
    if labeled is not None and (labeled.dim() != 3 or len(labeled) != len(log_p)):
        raise ValueError(f"labeled must be ({len(log_p)}, b, C), got {tuple(labeled.shape)}")
    if classes is not None and len(classes) != log_p.shape[-1]:
        raise ValueError(f"expected {log_p.shape[-1]} names of classes, got {len(classes)}")
    if not log_p.shape[1]:
        raise ValueError("rules need unlabeled inputs: the pool is empty")
    log_weights = finite(log_weights.detach().double().cpu())  # a group may have no weight
    weights = log_weights.softmax(0)
    apart = _disagreements(log_p)
    home = np.ones(len(log_p), dtype=int)
    if len(log_p) > 1:
        home = fcluster(linkage(squareform(apart.numpy(), checks=False), "complete"), 1 - same, "distance")
    groups = [np.flatnonzero(home == group).tolist() for group in np.unique(home)]
    groups.sort(key=lambda members: -float(weights[members].sum()))

    def mixed(log_p: Tensor) -> Tensor:
        """Mix the particles of each rule: (K, n, C) -> (R, n, C)."""
        return torch.stack([mixture(log_p[m], log_weights[m].log_softmax(0).to(log_p)) for m in groups])

    agreed = float("nan")
    if labeled is not None and labeled.shape[1]:
        agreed = 1 - float(weights @ _disagreements(labeled) @ weights)
    names, accuracies = ((), None) if test is None else _in_groups(mixed(test[0]).cpu(), test[1].cpu(), test[2])
    return Rules(
        members=tuple(tuple(members) for members in groups),
        weights=tuple(float(weights[members].sum()) for members in groups),
        log_p=mixed(log_p),
        classes=tuple(map(str, range(log_p.shape[-1]))) if classes is None else tuple(classes),
        agreement=agreed,
        labeled=0 if labeled is None else labeled.shape[1],
        groups=names,
        accuracies=accuracies,
    )


def _in_groups(log_p: Tensor, y: Tensor, groups: Sequence[object] | np.ndarray) -> tuple[tuple[str, ...], Tensor]:
    """Return the names of the groups and the accuracies in them: (R, n, C), (n,), n groups -> G names, (R, G)."""
    if not log_p.shape[1] == len(y) == len(groups):
        raise ValueError(
            f"test needs a label and a group of each input, got {len(y)} and {len(groups)} for {log_p.shape[1]}"
        )
    known = y >= 0
    if not known.any():
        raise ValueError("test needs inputs with a label")
    names, codes = np.unique(
        [str(name) for name, there in zip(groups, known, strict=True) if there], return_inverse=True
    )
    return tuple(names.tolist()), group_accuracy(log_p[:, known], y[known], torch.from_numpy(codes))


def _disagreements(log_p: Tensor, sure: float = 0.0) -> Tensor:
    """Return the share of inputs to which two particles give different labels of probability ≥ sure: -> (K, K)."""
    best, labels = log_p.max(-1)
    clear = (best.exp() >= sure).float()  # (K, n)
    hard = (one_hot(labels, log_p.shape[-1]) * clear[..., None]).flatten(1)  # (K, n C)
    apart = (clear @ clear.T - hard @ hard.T) / log_p.shape[1]
    return apart.double().clamp_min(0).cpu().fill_diagonal_(0)
