"""The posterior of the particles given labels that did not train them, eq:bayes_posterior_predictive_distribution."""

# K particles, n new labels, C classes

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from refprior._checks import number, whole_number
from refprior._words import counted, in_short
from refprior.information import finite, log_likelihood, mixture

ROUNDING = 0.05  # of the sum of weights, which may have half precision
DOUBT = 3  # likelihood ratio to chance that counts as evidence
NOISE = 0.05  # probability that a new label is uniform


@dataclass(frozen=True, eq=False, repr=False)
class Evidence:
    """The evidence about the particles in labels that did not train them.

    Two hypotheses explain the labels. *Select*: one particle generated all of them, so that the particles are weighted
    by their likelihoods. *Average*: the mixture generated each of them, so that the weights stay as they are; this is
    right where the particles err independently and their mean is better than any of them. `log_weights` averages over
    both hypotheses, equally probable at first. Labels are wrong with probability `noise` and then uniform, so that one
    wrong label cannot exclude a particle.

    Parameters
    ----------
    log_prior : Tensor, shape (K,)
        Log-weights of the particles before the new labels.
    noise : float, default: 0.05
        Probability ε that a new label is drawn uniformly from all classes.
    log_likelihood : Tensor, shape (K,), optional
        Log-likelihood of the labels so far by particle. Defaults to no labels.
    log_average : float, default: 0
        Log-likelihood of the labels so far under the mixture.
    count : int, default: 0
        Number of labels so far.
    log_chance : float, default: 0
        Log-likelihood of the labels so far if they are uniform.

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> log_p = torch.tensor([[[0.9, 0.1]] * 3, [[0.1, 0.9]] * 3]).log()  # two particles, three inputs
    >>> evidence = rp.posterior.Evidence(torch.tensor([0.5, 0.5]).log())
    >>> weights = evidence.update(log_p, torch.tensor([0, 0, 0])).log_weights.exp()
    >>> [round(weight, 2) for weight in weights.tolist()]
    [0.86, 0.14]
    """

    log_prior: Tensor
    noise: float = NOISE
    log_likelihood: Tensor | None = None
    log_average: float = 0.0
    count: int = 0
    log_chance: float = 0.0

    def __post_init__(self) -> None:
        number("noise", self.noise, at_least=0, at_most=1)
        whole_number("count", self.count, at_least=0)
        number("log_average", self.log_average)
        number("log_chance", self.log_chance, at_most=0)
        found, prior = self.log_likelihood, self.log_prior
        if prior.dim() != 1 or not prior.is_floating_point() or prior.isnan().any():
            raise ValueError(f"log_prior must be one number per particle, got {tuple(prior.shape)} {prior.dtype}")
        total = prior.float().exp().sum().item()
        if not abs(total - 1) <= ROUNDING:
            raise ValueError(
                f"the weights of log_prior must add up to 1, got {total:.4g}: use log_prior.log_softmax(0)"
            )
        if found is not None and (found.shape != prior.shape or not found.isfinite().all()):
            raise ValueError(f"log_likelihood must be {len(prior)} finite numbers, got {tuple(found.shape)}")

    def __str__(self) -> str:
        labels = counted(self.count, "new label")
        if self.explained:
            return f"{labels}: one particle is right with probability {self.selection:.2f}"
        labels = "the new label is" if self.count == 1 else f"the {labels} are"
        return (
            f"{labels} less likely if one particle is right ({self.log_selection:.1f} nats) than by chance "
            f"({self.log_chance:.1f} nats): the right rule is probably not among the particles; train with these labels"
        )

    def __repr__(self) -> str:
        return f"<Evidence: {self}>"

    def update(self, log_p: Tensor, y: Tensor) -> "Evidence":
        """Add labels; the order of labels and of updates does not matter.

        Parameters
        ----------
        log_p : Tensor, shape (K, n, C)
            Log-probabilities of the inputs by particle.
        y : Tensor, shape (n,)
            Their labels.

        Returns
        -------
        Evidence
            The evidence of all labels so far.

        Raises
        ------
        ValueError
            If the shapes do not fit each other, or if a label is no class.
        """
        if log_p.dim() != 3 or len(log_p) != len(self.log_prior) or y.shape != log_p.shape[1:2]:
            shapes = f"{tuple(log_p.shape)} and {tuple(y.shape)}"
            raise ValueError(f"log_p must be ({len(self.log_prior)}, n, C) and y (n,), got {shapes}")
        classes = log_p.shape[-1]
        if y.is_floating_point() or not ((y >= 0) & (y < classes)).all():
            raise ValueError(f"y must be integers from 0 to {classes - 1}, got {in_short(y.tolist())}")
        y = y.long()
        each = with_noise(log_likelihood(log_p, y), self.noise, classes).double().sum(-1)
        mean = with_noise(log_likelihood(mixture(log_p, self.log_prior.to(log_p)), y), self.noise, classes)
        before = torch.zeros_like(each) if self.log_likelihood is None else self.log_likelihood.to(each)
        return replace(
            self,
            log_likelihood=before + each,
            log_average=self.log_average + mean.double().sum().item(),
            count=self.count + len(y),
            log_chance=self.log_chance - len(y) * math.log(classes),
        )

    @property
    def log_selected(self) -> Tensor:
        """Log-weights of the particles if one of them is right: log π_k + Σ_i log p_k(y_i), normalized, (K,)."""
        return self._joint.log_softmax(0)

    @property
    def log_selection(self) -> float:
        """Log-likelihood of the labels if one particle is right: log Σ_k π_k Π_i p_k(y_i)."""
        return self._joint.logsumexp(0).item()

    @property
    def selection(self) -> float:
        """Posterior probability that one particle is right, against the average of all."""
        return torch.tensor(self.log_selection - self.log_average, dtype=torch.float64).sigmoid().item()

    @property
    def log_weights(self) -> Tensor:
        """Log-weights of the particles in predictions, averaged over both hypotheses: (K,)."""
        select = torch.tensor([self.selection, 1 - self.selection], dtype=torch.float64).log()
        return torch.logaddexp(self.log_selected + select[0], self.log_prior.double().cpu() + select[1])

    @property
    def explained(self) -> bool:
        """Whether the particles explain the labels better than chance.

        False if chance is 3 times likelier than one right particle and the average is not 3 times likelier than chance.
        The average alone is no explanation: where particles disagree, it is as good as chance for any labels.
        """
        doubt = math.log(DOUBT)
        return self.log_selection >= self.log_chance - doubt or self.log_average >= self.log_chance + doubt

    @property
    def _joint(self) -> Tensor:
        prior = finite(self.log_prior.double().cpu())
        return prior if self.log_likelihood is None else prior + self.log_likelihood.cpu()


def with_noise(log_p: Tensor, noise: float, classes: int) -> Tensor:
    """Return log((1 - ε) p + ε / C): (...) -> (...)."""
    log_p = finite(log_p)
    if noise == 0:
        return log_p
    uniform = math.log(noise / classes)
    if noise == 1:
        return torch.full_like(log_p, uniform)
    return torch.logaddexp(log_p + math.log1p(-noise), torch.tensor(uniform).to(log_p))
