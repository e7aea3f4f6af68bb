"""FlexMatch, FreeMatch, SoftMatch and Dash: FixMatch with a selection that adapts over training."""

# K particles, b labeled inputs, n unlabeled inputs, M inputs in the pool, C classes

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from refprior._checks import number
from refprior.information import average, finite, uniform
from refprior.methods._fixmatch import pseudo_label_loss, sharpen, soft_cross_entropy, with_pseudo_labels
from refprior.methods._reference_prior import supervised
from refprior.methods._step import Loss, Needs, Step

_NEVER = -1  # the label of an input that has not been confident yet
_RARE = 1e-6  # added to the mean probability of every class


@dataclass(frozen=True)
class FlexMatch:
    """FlexMatch (Zhang et al. 2021): FixMatch with a lower threshold for classes that are learned slowly.

    The threshold of class c is `threshold` · M(β_c) with the learning effect β_c = σ_c / max(max σ, inputs never
    confident) and M(β) = β / (2 - β), eq. 5, 6, 11 and 12 of the paper; σ_c counts the inputs of the pool whose last
    confident label is c. Each particle has its own thresholds. The last confident label of every input of the pool is
    stored in the checkpoint.

    Parameters
    ----------
    threshold : float, default: 0.95
        Threshold of the class that is learned best.
    weight : float, default: 1
        Weight of the unlabeled inputs.

    Examples
    --------
    >>> import refprior as rp
    >>> rp.methods.FlexMatch()
    FlexMatch(threshold=0.95, weight=1.0)
    """

    threshold: float = 0.95
    weight: float = 1.0
    needs: ClassVar[Needs] = Needs(views=("weak", "strong"))

    def __post_init__(self) -> None:
        number("threshold", self.threshold, above=0, at_most=1)
        number("weight", self.weight, at_least=0)

    def __call__(self, step: Step) -> Loss:
        views, log_prior, index = step.batch.views, step.log_prior.detach(), step.batch.index
        labeled, strong, weak = step.predict(step.batch.labeled, views["strong"], frozen=[views["weak"]])
        before = step.memory.get("labels")  # (K, M)
        if before is None:
            before = torch.full((len(weak), step.pool_size), _NEVER, dtype=torch.int32, device=weak.device)
        thresholds = self.threshold * convex(learning_effect(before, weak.shape[-1]))
        confidence, label = weak.exp().max(-1)
        now = torch.where(confidence >= self.threshold, label.to(before.dtype), before[:, index])
        step.memory["labels"] = before.index_copy(1, index, now)
        return flexmatch(labeled, step.batch.labels, weak, strong, thresholds, log_prior, self)


class Beliefs(NamedTuple):
    """The moving averages of FreeMatch over batches of weak views."""

    confidence: Tensor  # (K,) τ_t, probability of the most probable class
    marginal: Tensor  # (K, C) p̃_t, mean prediction
    histogram: Tensor  # (K, C) h̃_t, frequencies of the most probable classes


@dataclass(frozen=True)
class FreeMatch:
    """FreeMatch (Wang et al. 2023): thresholds that follow the particles' confidence, and a fairness term.

    The threshold of class c is τ_t p̃_t(c) / max p̃_t, eq. 7 of the paper, from moving averages τ_t of the confidence
    and p̃_t of the predictions. The fairness term is eq. 10 to 12. Each particle has its own averages, stored in the
    checkpoint.

    Parameters
    ----------
    momentum : float, optional
        Decay of the moving averages. Defaults to that of the recipe's EMA; both are 0.999 in the original.
    fairness : float, default: 0.001
        Weight of the fairness term. The original chooses it by data set; 0.001 is its value for CIFAR-10.
    weight : float, default: 1
        Weight of the unlabeled inputs.

    Examples
    --------
    >>> import refprior as rp
    >>> rp.methods.FreeMatch()
    FreeMatch(momentum=None, fairness=0.001, weight=1.0)
    """

    momentum: float | None = None
    fairness: float = 0.001
    weight: float = 1.0
    needs: ClassVar[Needs] = Needs(views=("weak", "strong"))

    def __post_init__(self) -> None:
        if self.momentum is not None:
            number("momentum", self.momentum, at_least=0, below=1)
        number("fairness", self.fairness, at_least=0)
        number("weight", self.weight, at_least=0)

    def __call__(self, step: Step) -> Loss:
        views, log_prior = step.batch.views, step.log_prior.detach()
        labeled, strong, weak = step.predict(step.batch.labeled, views["strong"], frozen=[views["weak"]])
        if step.memory:
            known = Beliefs(**step.memory)
        else:
            particles, _, classes = weak.shape
            equal = torch.full((particles, classes), 1 / classes, dtype=weak.dtype, device=weak.device)
            known = Beliefs(equal[:, 0], equal, equal)
        p = weak.detach().exp()
        hard = one_hot(p.argmax(-1), p.shape[-1]).to(p.dtype)
        seen = (p.amax(-1).mean(1), p.mean(1), hard.mean(1))  # FreeMatch eq. 5, 6 and 9
        momentum = step.ema if self.momentum is None else self.momentum
        beliefs = Beliefs(*(moving_average(old, new, momentum) for old, new in zip(known, seen, strict=True)))
        step.memory.update(beliefs._asdict())
        return freematch(labeled, step.batch.labels, weak, strong, beliefs, log_prior, self)


@dataclass(frozen=True)
class SoftMatch:
    """SoftMatch (Chen et al. 2023): every pseudo-label counts, the less confident ones less.

    Minimizes CE(y, p(x)) + weight · mean of λ(u) · CE(argmax p(weak), p(strong)) with the truncated Gaussian λ =
    exp(-(min(p - μ, 0))² / (2 σ² / widths²)), eq. 7 of the paper, of confidences p after uniform alignment (eq. 10).
    Each particle has its own moving averages μ and σ², stored in the checkpoint.

    Parameters
    ----------
    momentum : float, optional
        Decay of the moving averages. Defaults to that of the recipe's EMA; both are 0.999 in the original.
    widths : float, default: 2
        The standard deviation of the confidences is divided by this.
    weight : float, default: 1
        Weight of the unlabeled inputs.

    Examples
    --------
    >>> import refprior as rp
    >>> rp.methods.SoftMatch()
    SoftMatch(momentum=None, widths=2.0, weight=1.0)
    """

    momentum: float | None = None
    widths: float = 2.0
    weight: float = 1.0
    needs: ClassVar[Needs] = Needs(views=("weak", "strong"))

    def __post_init__(self) -> None:
        if self.momentum is not None:
            number("momentum", self.momentum, at_least=0, below=1)
        number("widths", self.widths, above=0)
        number("weight", self.weight, at_least=0)

    def __call__(self, step: Step) -> Loss:
        views, log_prior = step.batch.views, step.log_prior.detach()
        labeled, strong, weak = step.predict(step.batch.labeled, views["strong"], frozen=[views["weak"]])
        momentum, memory = step.ema if self.momentum is None else self.momentum, step.memory
        mean = weak.detach().exp().mean(1)
        marginal = moving_average(memory["marginal"], mean, momentum) if memory else mean
        confidence = aligned(weak.detach(), marginal).amax(-1).exp()  # (K, n)
        ones = torch.ones(len(weak), dtype=weak.dtype, device=weak.device)
        first = {"center": ones / weak.shape[-1], "variance": ones}  # μ = 1/C and σ² = 1 before the first batch
        before = memory or first
        center = moving_average(before["center"], confidence.mean(1), momentum)
        spread = confidence.var(1, correction=min(1, confidence.shape[1] - 1))
        variance = moving_average(before["variance"], spread, momentum)
        memory.update(marginal=marginal, center=center, variance=variance)
        weights = truncated_gaussian(confidence, center, variance, self.widths)
        return softmatch(labeled, step.batch.labels, weak, strong, weights, log_prior, self)


@dataclass(frozen=True)
class Dash:
    """Dash (Xu et al. 2021): FixMatch that selects inputs by a loss below a falling limit.

    Minimizes CE(y, p(x)) + weight · mean of 1[CE(target, p(weak)) ≤ ρ_t] · CE(target, p(strong)) with
    ρ_t = max(C γ^-(t-1) ρ̂, floor), eq. 6 of the paper. The first limit ρ̂ is the mean loss of the first unlabeled
    batch after the warm-up, without a held-out part. Each particle has its own limit. The lengths of the original, a
    warm-up of 2,048 steps and a decay every 10 of 1,024 epochs, are shares of training here.

    Parameters
    ----------
    slack : float, default: 1.0001
        C: the limit starts at this multiple of the mean loss.
    decay : float, default: 1.27
        γ: each decay divides the limit by this.
    floor : float, default: 0.05
        Smallest limit. Targets are hard once it is reached, and soft before.
    temperature : float, default: 0.5
        T of the soft targets.
    warmup : float, default: 1/512
        Share of training on labels only.
    decay_every : float, default: 10/1024
        Share of training between two decays.
    weight : float, default: 1
        Weight of the unlabeled inputs.

    Examples
    --------
    >>> import refprior as rp
    >>> rp.methods.Dash().needs.views
    ('weak', 'strong')
    """

    slack: float = 1.0001
    decay: float = 1.27
    floor: float = 0.05
    temperature: float = 0.5
    warmup: float = 1 / 512
    decay_every: float = 10 / 1024
    weight: float = 1.0
    needs: ClassVar[Needs] = Needs(views=("weak", "strong"))

    def __post_init__(self) -> None:
        number("slack", self.slack, above=0)
        number("decay", self.decay, above=1)
        number("floor", self.floor, above=0)
        number("temperature", self.temperature, above=0)
        number("warmup", self.warmup, at_least=0, below=1)
        number("decay_every", self.decay_every, above=0)
        number("weight", self.weight, at_least=0)

    def __call__(self, step: Step) -> Loss:
        if step.progress < self.warmup:
            (labeled,) = step.predict(step.batch.labeled)
            return supervised(labeled, step.batch.labels, step.log_prior.detach())
        views = step.batch.views
        labeled, strong, weak = step.predict(step.batch.labeled, views["strong"], frozen=[views["weak"]])
        if "first_loss" not in step.memory:
            targets = sharpen(weak.detach(), self.temperature).exp()
            step.memory["first_loss"] = soft_cross_entropy(targets, weak.detach()).mean(1)  # ρ̂: (K,)
        limit = self.limit(step.memory["first_loss"], step.progress)
        return dash(labeled, step.batch.labels, weak, strong, limit, step.log_prior.detach(), self)

    def limit(self, first_loss: Tensor, progress: float) -> Tensor:
        """Return the limit of each particle, ρ_t = max(C γ^-(t-1) ρ̂, floor), Dash eq. 6.

        Parameters
        ----------
        first_loss : Tensor
            ρ̂, the mean loss of the first unlabeled batch, (K,).
        progress : float
            Completed share of training, from 0 to 1.

        Returns
        -------
        Tensor
            ρ_t, (K,).
        """
        decays = math.floor((progress - self.warmup) / self.decay_every + 1e-9)
        return (self.slack * self.decay**-decays * first_loss).clamp_min(self.floor)


_FLEXMATCH, _FREEMATCH, _SOFTMATCH, _DASH = FlexMatch(), FreeMatch(), SoftMatch(), Dash()


def flexmatch(
    labeled: Tensor,
    y: Tensor,
    weak: Tensor,
    strong: Tensor,
    thresholds: Tensor,
    log_prior: Tensor | None = None,
    settings: FlexMatch = _FLEXMATCH,
) -> Loss:
    """Compute the objective of FlexMatch.

    That of FixMatch with a threshold per particle and class: CE(y, p(x)) + weight · mean of
    1[max p(weak) ≥ threshold of that class] · CE(argmax p(weak), p(strong)).

    Parameters
    ----------
    labeled : Tensor
        Log-probabilities of the labeled inputs, (K, b, C).
    y : Tensor
        Their classes, (b,).
    weak, strong : Tensor
        Log-probabilities of two views of the same unlabeled inputs, (K, n, C) each.
    thresholds : Tensor
        Smallest confidence by particle and class, (K, C).
    log_prior : Tensor, optional
        log π(w_k), (K,). Equal weights by default.
    settings : FlexMatch, default: FlexMatch()
        The hyperparameters; only `weight` is used.

    Returns
    -------
    Loss
        The total and the terms `cross_entropy`, `pseudo_label` and `confident`.

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> labeled, weak, strong = (torch.randn(4, n, 10).log_softmax(-1) for n in (5, 8, 8))
    >>> thresholds = torch.full((4, 10), 0.95)
    >>> sorted(rp.losses.flexmatch(labeled, torch.arange(5), weak, strong, thresholds).terms)
    ['confident', 'cross_entropy', 'pseudo_label']
    """
    log_prior = uniform(len(labeled), labeled) if log_prior is None else log_prior
    used = above(weak, thresholds)
    return with_pseudo_labels(labeled, y, pseudo_label_loss(weak, strong), used, log_prior, settings.weight)


def freematch(
    labeled: Tensor,
    y: Tensor,
    weak: Tensor,
    strong: Tensor,
    beliefs: tuple[Tensor, Tensor, Tensor],
    log_prior: Tensor | None = None,
    settings: FreeMatch = _FREEMATCH,
) -> Loss:
    """Compute the objective of FreeMatch.

    That of FixMatch with the thresholds τ_t p̃_t(c) / max p̃_t, FreeMatch eq. 7, and the fairness term of eq. 10 to 12.

    Parameters
    ----------
    labeled : Tensor
        Log-probabilities of the labeled inputs, (K, b, C).
    y : Tensor
        Their classes, (b,).
    weak, strong : Tensor
        Log-probabilities of two views of the same unlabeled inputs, (K, n, C) each.
    beliefs : tuple of Tensor
        Moving averages over batches of weak views: confidence (K,), mean prediction (K, C), and histogram of the most
        probable classes (K, C).
    log_prior : Tensor, optional
        log π(w_k), (K,). Equal weights by default.
    settings : FreeMatch, default: FreeMatch()
        The hyperparameters.

    Returns
    -------
    Loss
        The total and the terms `cross_entropy`, `pseudo_label`, `confident` and `fairness`.

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> labeled, weak, strong = (torch.randn(4, n, 10).log_softmax(-1) for n in (5, 8, 8))
    >>> beliefs = torch.full((4,), 0.1), torch.full((4, 10), 0.1), torch.full((4, 10), 0.1)
    >>> sorted(rp.losses.freematch(labeled, torch.arange(5), weak, strong, beliefs).terms)
    ['confident', 'cross_entropy', 'fairness', 'pseudo_label']
    """
    log_prior = uniform(len(labeled), labeled) if log_prior is None else log_prior
    known = Beliefs(*beliefs)
    thresholds = known.confidence.unsqueeze(1) * known.marginal / known.marginal.amax(1, keepdim=True)  # (K, C)
    used = above(weak, thresholds)
    loss = with_pseudo_labels(labeled, y, pseudo_label_loss(weak, strong), used, log_prior, settings.weight)
    fair = average(fairness(known, strong, used), log_prior)
    return Loss.of(loss.total + settings.fairness * fair, **loss.terms, fairness=fair)


def softmatch(
    labeled: Tensor,
    y: Tensor,
    weak: Tensor,
    strong: Tensor,
    weights: Tensor,
    log_prior: Tensor | None = None,
    settings: SoftMatch = _SOFTMATCH,
) -> Loss:
    """Compute the objective of SoftMatch.

    CE(y, p(x)) + weight · mean of λ(u) · CE(argmax p(weak), p(strong)).

    Parameters
    ----------
    labeled : Tensor
        Log-probabilities of the labeled inputs, (K, b, C).
    y : Tensor
        Their classes, (b,).
    weak, strong : Tensor
        Log-probabilities of two views of the same unlabeled inputs, (K, n, C) each.
    weights : Tensor
        λ(u), the weight of every unlabeled input, (K, n).
    log_prior : Tensor, optional
        log π(w_k), (K,). Equal weights by default.
    settings : SoftMatch, default: SoftMatch()
        The hyperparameters; only `weight` is used.

    Returns
    -------
    Loss
        The total and the terms `cross_entropy`, `pseudo_label` and `confident`.

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> labeled, weak, strong = (torch.randn(4, n, 10).log_softmax(-1) for n in (5, 8, 8))
    >>> sorted(rp.losses.softmatch(labeled, torch.arange(5), weak, strong, torch.ones(4, 8)).terms)
    ['confident', 'cross_entropy', 'pseudo_label']
    """
    log_prior = uniform(len(labeled), labeled) if log_prior is None else log_prior
    items = pseudo_label_loss(weak, strong)
    return with_pseudo_labels(labeled, y, items, weights.detach(), log_prior, settings.weight)


def dash(
    labeled: Tensor,
    y: Tensor,
    weak: Tensor,
    strong: Tensor,
    limit: Tensor,
    log_prior: Tensor | None = None,
    settings: Dash = _DASH,
) -> Loss:
    """Compute the objective of Dash.

    CE(y, p(x)) + weight · mean of 1[CE(target, p(weak)) ≤ ρ_t] · CE(target, p(strong)). Targets are hard where the
    limit ρ_t has reached its floor, and soft before.

    Parameters
    ----------
    labeled : Tensor
        Log-probabilities of the labeled inputs, (K, b, C).
    y : Tensor
        Their classes, (b,).
    weak, strong : Tensor
        Log-probabilities of two views of the same unlabeled inputs, (K, n, C) each.
    limit : Tensor
        ρ_t of every particle, (K,).
    log_prior : Tensor, optional
        log π(w_k), (K,). Equal weights by default.
    settings : Dash, default: Dash()
        The hyperparameters.

    Returns
    -------
    Loss
        The total and the terms `cross_entropy`, `pseudo_label` and `confident`.

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> labeled, weak, strong = (torch.randn(4, n, 10).log_softmax(-1) for n in (5, 8, 8))
    >>> sorted(rp.losses.dash(labeled, torch.arange(5), weak, strong, torch.full((4,), 1.5)).terms)
    ['confident', 'cross_entropy', 'pseudo_label']
    """
    log_prior = uniform(len(labeled), labeled) if log_prior is None else log_prior
    ended = (limit <= settings.floor).reshape(-1, 1, 1)
    hard = one_hot(weak.detach().argmax(-1), weak.shape[-1]).to(weak.dtype)
    targets = torch.where(ended, hard, sharpen(weak.detach(), settings.temperature).exp())
    used = (soft_cross_entropy(targets, weak.detach()) <= limit.unsqueeze(1)).to(weak.dtype)
    return with_pseudo_labels(labeled, y, soft_cross_entropy(targets, strong), used, log_prior, settings.weight)


def above(weak: Tensor, thresholds: Tensor) -> Tensor:
    """Return 1[max p(weak) ≥ threshold of that class]: (K, n, C), (K, C) -> (K, n)."""
    confidence, label = weak.detach().exp().max(-1)
    return (confidence >= thresholds.gather(1, label)).to(weak.dtype)


def moving_average(before: Tensor, seen: Tensor, decay: float) -> Tensor:
    """Return decay · before + (1 - decay) · seen."""
    return decay * before + (1 - decay) * seen


def learning_effect(labels: Tensor, classes: int) -> Tensor:
    """Return β_c = σ_c / max(max σ, inputs never confident), FlexMatch eq. 5, 6 and 11: (K, M) -> (K, C).

    σ_c counts the inputs of the pool whose last confident label is c.
    """
    counts = torch.zeros(len(labels), classes + 1, device=labels.device)
    counts.scatter_add_(1, labels.long() + 1, torch.ones_like(labels, dtype=counts.dtype))
    return counts[:, 1:] / counts.amax(1, keepdim=True)


def convex(effect: Tensor) -> Tensor:
    """Return M(β) = β / (2 - β), FlexMatch eq. 12."""
    return effect / (2 - effect)


def fairness(beliefs: Beliefs, strong: Tensor, used: Tensor) -> Tensor:
    """Return Σ_c a_c log b_c with a = p̃_t / h̃_t and b = p̄ / h̄, each normalized: (K, n, C), (K, n) -> (K,).

    FreeMatch eq. 10 to 12. p̄ and h̄ are the mean prediction and the histogram of the strong views that are used.
    Classes that are empty in h̄ have no gradient in the original; here they are left out. 0 for a particle that uses
    none.
    """
    p, chosen = strong.exp(), used.unsqueeze(-1)
    histogram = (one_hot(strong.argmax(-1), strong.shape[-1]) * chosen).sum(1)
    seen = histogram > 0
    ratio = torch.where(seen, (p * chosen).sum(1) / torch.where(seen, histogram, 1), 0)
    total = ratio.sum(1, keepdim=True)
    b = torch.where(seen, ratio / torch.where(total > 0, total, 1), 1)
    believed = beliefs.histogram > 0
    a = torch.where(believed, beliefs.marginal / torch.where(believed, beliefs.histogram, 1), 0)
    a = a / a.sum(1, keepdim=True)
    return (a * b.log()).sum(1)


def aligned(log_p: Tensor, marginal: Tensor) -> Tensor:
    """Return log of p(y) / p̄(y), normalized: uniform alignment, SoftMatch eq. 10: (K, n, C), (K, C) -> (K, n, C).

    p̄ is slightly above 0 as in the original, so that a class without predictions does not take over.
    """
    return (finite(log_p) - (marginal.unsqueeze(1) + _RARE).log()).log_softmax(-1)


def truncated_gaussian(confidence: Tensor, center: Tensor, variance: Tensor, widths: float) -> Tensor:
    """Return exp(-(min(p - μ, 0))² / (2 σ² / widths²)), a step if σ = 0: (K, n), (K,), (K,) -> (K, n)."""
    below = confidence - center.unsqueeze(1)
    return torch.where(below < 0, torch.exp(-below.square() * widths**2 / (2 * variance.unsqueeze(1))), 1)
