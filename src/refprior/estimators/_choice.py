"""The choice of inputs: short runs of every candidate, compared by labels that their particles have not learned."""

# n labels, K particles

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from refprior.data import (
    Joined,
    NeighborMeans,
    Normalizer,
    PrincipalComponents,
    QuantileBins,
    Task,
    TreeLeaves,
    fingerprints,
)
from refprior.estimators._preprocess import COMPONENTS, Inputs, in_each_space
from refprior.methods import AdaptiveReferencePrior, Method, ReferencePrior, Supervised
from refprior.particles import Particles
from refprior.posterior import OutOfFold, negative_log_likelihood
from refprior.training import Recipe, try_out
from refprior.training.loop import evenly_spaced, why_no_folds
from refprior.views import Corrupt, Noise, View

# Chosen on validation rows of four kinds of vectors, one setting for all of them: docs/embeddings.md.
METHOD: ReferencePrior = ReferencePrior(alpha=0.4, gamma=1.0, threshold=0.8, balance=1.0)
PILOT = 4  # a candidate is tried for a quarter of the steps
FOLDS = 8
ENCODED = 64  # components of photos and texts, of which a pool is often small
_MOST = 100_000  # rows, above which the search for neighbors takes too long
_WIDEST = 256  # columns, above which components of their bins take too long
_POOL = 20_000  # rows of a short run, which draws no more


class Candidate(NamedTuple):
    """Inputs of the networks, and settings that suit them."""

    inputs: Inputs
    views: tuple[View, View] | None = (Noise(0.75), Corrupt(0.3, 0.75))  # None: the default for the inputs
    method: Method | None = None  # None: the default


class Trial(NamedTuple):
    """A short run of a candidate."""

    particles: Particles
    normalizer: Normalizer
    out_of_fold: OutOfFold
    held_out: Tensor  # (K, n) which labels each particle left out
    loss: float  # nats per label, at the best temperature


def candidates(
    rows: int, widths: tuple[int, ...], standardize: bool = False, most: int = COMPONENTS
) -> dict[str, Candidate]:
    """Return the candidates by name, the default first, for feature spaces of these widths.

    Neighbors are not tried for too many rows, and bins not for too many columns. With more columns than rows, the last
    components are noise.
    """
    most = min(ENCODED if max(widths) > rows else most, rows)

    def components(whitening: float) -> Inputs:
        whole = PrincipalComponents(most, whitening, standardize=standardize, scaled="all")
        return in_each_space(widths, lambda width: replace(whole, count=min(most, width)))

    gentle, medium = (Noise(0.25), Corrupt(0.1, 0.25)), (Noise(0.5), Corrupt(0.2, 0.5))
    columns = components(0.5)
    bins, leaves = in_each_space(widths, lambda _: QuantileBins()), in_each_space(widths, lambda _: TreeLeaves())
    neighbors = in_each_space(widths, lambda width: NeighborMeans(min(most, width), standardize=standardize))
    found = {
        "components": Candidate(components(0)),
        "neighbors": Candidate(neighbors),
        "columns": Candidate(columns, gentle),
        "bins": Candidate(Joined((columns, bins)), medium),
        "leaves": Candidate(Joined((columns, leaves)), medium),
        "labels": Candidate(components(0), gentle, Supervised()),
    }
    slow = {"neighbors": rows > _MOST, "bins": sum(widths) > _WIDEST}
    return {name: candidate for name, candidate in found.items() if not slow.get(name)}


def choose(recipes: Mapping[str, Recipe], task: Task, device: str) -> tuple[str, dict[str, Trial]]:
    """Return the name of the recipe with the least loss, and the trials; the first name if there is nothing to compare.

    Fewer labels than folds cannot choose: only the first recipe is tried then. A particle that leaves out a label must
    neither contradict the others, which have learned it, nor learn it from them: in a trial particles do not disagree,
    their agreement has no weight, and labeled rows are not in the pool. A trial has a share of a large pool, so that
    its time does not grow with the rows.
    """
    pool = evenly_spaced(task.unlabeled, _POOL)
    others = pool[~torch.isin(fingerprints(pool), fingerprints(task.labeled.inputs)).to(pool.device)]
    part, trials = replace(task, unlabeled=others if len(others) else pool, names=()), {}
    for name, recipe in list(recipes.items())[: None if len(task.labeled) >= FOLDS else 1]:
        if recipe.particles < 2 or why_no_folds(recipe, task) is not None:
            continue
        steps, method = max(1, recipe.steps // PILOT), recipe.method if len(others) else Supervised()
        if isinstance(method, AdaptiveReferencePrior):
            method = replace(METHOD, class_prior=method.class_prior)
        method = replace(method, alpha=0.0) if isinstance(method, ReferencePrior) else method
        short = replace(
            recipe,
            steps=steps,
            evaluate_every=steps,
            method=method,
            unlabeled_batch=min(recipe.unlabeled_batch, len(part.unlabeled)),
            folds=min(FOLDS, recipe.particles),
            doubt_labels=False,
        )
        particles, normalizer, unseen, held_out = try_out(short, part, device)
        trials[name] = Trial(particles, normalizer, unseen, held_out, tempered_loss(unseen))
    return min(trials, key=lambda name: trials[name].loss, default=next(iter(recipes))), trials


def tempered_loss(found: OutOfFold) -> float:
    """Return the mean negative log-likelihood of the labels at the temperature that minimizes it.

    At temperature 1, the most cautious candidate would win: a temperature can be fitted later.
    """
    log_p, y = torch.from_numpy(found.log_probabilities).double(), torch.from_numpy(found.labels)
    tempered = ((log_p / t).log_softmax(-1) for t in torch.logspace(-1, 2, 31).tolist())
    return min(negative_log_likelihood(each, y).mean().item() for each in tempered)
