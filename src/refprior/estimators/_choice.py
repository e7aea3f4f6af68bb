"""The choice of inputs: short runs of every candidate, compared by labels that their particles have not learned."""

# n labels, C classes

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from refprior.data import Joined, NeighborMeans, PrincipalComponents, QuantileBins, Task, TreeLeaves
from refprior.estimators._preprocess import COMPONENTS, Inputs, in_each_space
from refprior.methods import Method, ReferencePrior, Supervised
from refprior.particles import Particles
from refprior.posterior import OutOfFold, negative_log_likelihood
from refprior.training import Recipe, try_out
from refprior.training.loop import why_no_folds
from refprior.views import Corrupt, Noise, View

PILOT = 4  # a candidate is tried for a quarter of the steps
FOLDS = 8
_MOST = 100_000  # rows, above which the search for neighbors takes too long


class Candidate(NamedTuple):
    """Inputs of the networks, and settings that suit them."""

    inputs: Inputs
    views: tuple[View, View] | None = (Noise(0.75), Corrupt(0.3, 0.75))  # None: the default for the inputs
    method: Method | None = None  # None: the default


class Trial(NamedTuple):
    """A short run of a candidate."""

    particles: Particles
    out_of_fold: OutOfFold
    held_out: Tensor  # (K, n) which labels each particle left out
    loss: float  # nats per label, at the best temperature


def candidates(rows: int, widths: tuple[int, ...], standardize: bool = False) -> dict[str, Candidate]:
    """Return the candidates by name, the default first, for feature spaces of these widths.

    Neighbors are not tried for columns that must be standardized, or for too many rows.
    """
    most = min(COMPONENTS, rows)

    def components(whitening: float) -> Inputs:
        settings: dict[str, Any] = {"whitening": whitening, "standardize": standardize, "scaled": "all"}
        return in_each_space(widths, lambda width: PrincipalComponents(min(most, width), **settings))

    gentle, medium = (Noise(0.25), Corrupt(0.1, 0.25)), (Noise(0.5), Corrupt(0.2, 0.5))
    columns = components(0.5)
    bins, leaves = in_each_space(widths, lambda _: QuantileBins()), in_each_space(widths, lambda _: TreeLeaves())
    neighbors = in_each_space(widths, lambda width: NeighborMeans(min(most, width)))
    found = {
        "components": Candidate(components(0)),
        "neighbors": Candidate(neighbors),
        "columns": Candidate(columns, gentle),
        "bins": Candidate(Joined((columns, bins)), medium),
        "leaves": Candidate(Joined((columns, leaves)), medium),
        "labels": Candidate(components(0), gentle, Supervised()),
    }
    leave_out = standardize or rows > _MOST
    return {name: candidate for name, candidate in found.items() if name != "neighbors" or not leave_out}


def try_candidates(recipes: Mapping[str, Recipe], task: Task, device: str) -> dict[str, Trial]:
    """Try each recipe in a short run with folds, if the labels can be divided.

    Particles do not disagree in it: one that leaves out a label would contradict the others, which have learned it.
    """
    found = {}
    for name, recipe in recipes.items():
        if recipe.particles < 2 or why_no_folds(recipe, task) is not None:
            continue
        steps, method = max(1, recipe.steps // PILOT), recipe.method
        short = replace(
            recipe,
            steps=steps,
            evaluate_every=steps,
            method=replace(method, alpha=0.0) if isinstance(method, ReferencePrior) else method,
            folds=min(FOLDS, recipe.particles),
            doubt_labels=False,
        )
        particles, unseen, held_out = try_out(short, task, device)
        found[name] = Trial(particles, unseen, held_out, tempered_loss(unseen))
    return found


def tempered_loss(found: OutOfFold) -> float:
    """Return the mean negative log-likelihood of the labels at the temperature that minimizes it.

    At temperature 1, the most cautious candidate would win: a temperature can be fitted later.
    """
    log_p, y = torch.from_numpy(found.log_probabilities).double(), torch.from_numpy(found.labels)
    tempered = ((log_p / t).log_softmax(-1) for t in torch.logspace(-1, 2, 31).tolist())
    return min(negative_log_likelihood(each, y).mean().item() for each in tempered)
