"""Rules: groups of particles that give the same labels to the pool."""

# K particles, n inputs, C classes, R rules

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform
from torch import Tensor

from refprior._checks import number
from refprior.information import mixture

AGREED = 0.95  # least agreement on the labeled inputs
APART = 0.05  # least disagreement on the pool
SHARED = 0.5  # least weight of rules that several particles found


@dataclass(frozen=True, eq=False)
class Rules:
    """The readings of the labels that the particles found.

    A rule is a group of particles that agree with each other on most of the pool. All rules fit the labels; the
    inputs on which they differ are those to ask about.

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

    def __len__(self) -> int:
        return len(self.members)

    @property
    def labels(self) -> Tensor:
        """Label of each input under each rule: (R, n)."""
        return self.log_p.argmax(-1)

    @property
    def disagreement(self) -> float:
        """Probability that two rules, drawn by their weights, give a random input of the pool different labels."""
        weights = torch.tensor(self.weights, dtype=torch.float64)
        apart = (self.labels[:, None] != self.labels[None]).double().mean(-1)
        return float(weights @ apart.cpu() @ weights)

    @property
    def ambiguous(self) -> bool:
        """Whether the labels admit several rules.

        The particles agree on at least 95 % of the labeled inputs, the rules disagree on at least 5 % of the pool, and
        rules that several particles found have at least half of the weight. Otherwise each particle errs in its own
        way, as with too few labels.
        """
        shared = sum(weight for weight, members in zip(self.weights, self.members, strict=True) if len(members) > 1)
        return self.agreement >= AGREED and self.disagreement >= APART and shared >= SHARED

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
            Places in the pool, the clearest first: both rules are confident and name different classes.
        """
        labels = self.labels
        sure = self.log_p[first].amax(-1).minimum(self.log_p[second].amax(-1))
        sure = sure.where(labels[first] != labels[second], -torch.inf)
        order = sure.argsort(descending=True, stable=True)[:count]
        return [int(place) for place in order if sure[place] > -torch.inf]

    def __repr__(self) -> str:
        one = "1 rule fits" if len(self) == 1 else f"{len(self)} rules fit"
        apart = f"; they disagree on {100 * self.disagreement:.0f} % of the pool" if len(self) > 1 else ""
        names = [name[:12] for name in self.classes[:6]]
        lines = [f"{one} the labels{apart}", "rule  particles  weight %  " + "  ".join(f"{n} %" for n in names)]
        for rule, (members, weight, labels) in enumerate(zip(self.members, self.weights, self.labels, strict=True), 1):
            shares = torch.bincount(labels, minlength=len(self.classes)) / len(labels)
            cells = "  ".join(f"{100 * s:{len(n) + 2}.1f}" for s, n in zip(shares.tolist(), names, strict=False))
            lines.append(f"{rule:<4}  {len(members):<9}  {100 * weight:<8.1f}  {cells}")
        return "\n".join(lines)


def find_rules(
    log_p: Tensor,
    log_weights: Tensor,
    *,
    classes: Sequence[str] | None = None,
    labeled: Tensor | None = None,
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
    if not log_p.shape[1]:
        raise ValueError("rules need unlabeled inputs: the pool is empty")
    weights = log_weights.detach().double().cpu().softmax(0)
    apart = _disagreements(log_p)
    home = np.ones(len(log_p), dtype=int)
    if len(log_p) > 1:
        home = fcluster(linkage(squareform(apart.numpy(), checks=False), "complete"), 1 - same, "distance")
    groups = [np.flatnonzero(home == group).tolist() for group in np.unique(home)]
    groups.sort(key=lambda members: -float(weights[members].sum()))
    mixed = [mixture(log_p[members], weights[members].to(log_p).log().log_softmax(0)) for members in groups]
    agreed = float("nan")
    if labeled is not None and labeled.shape[1]:
        agreed = 1 - float(weights @ _disagreements(labeled) @ weights)
    return Rules(
        members=tuple(tuple(members) for members in groups),
        weights=tuple(float(weights[members].sum()) for members in groups),
        log_p=torch.stack(mixed),
        classes=tuple(map(str, range(log_p.shape[-1]))) if classes is None else tuple(classes),
        agreement=agreed,
    )


def _disagreements(log_p: Tensor) -> Tensor:
    """Return the share of inputs on which two particles' labels differ: (K, n, C) -> (K, K)."""
    hard = torch.nn.functional.one_hot(log_p.argmax(-1), log_p.shape[-1]).flatten(1).float()
    return (1 - hard @ hard.T / log_p.shape[1]).double().clamp_min(0).cpu().fill_diagonal_(0)
