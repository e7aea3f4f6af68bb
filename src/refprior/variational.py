"""The variational reference prior of Nalisnick and Smyth (Learning approximately objective priors, 2017).

A prior is a sampler: noise goes in, a parameter comes out. The sampler learns to maximize the information
I(w; z) = E_w E_{z|w} [log p(z|w) - log p(z)], in which log p(z) is replaced by a Rényi bound L(z) of further draws.
Here the parameter is one number in an interval, and the expectation over z is a sum over all outcomes.

The direction of the bound. Over the whole prior L_α(z) ≥ log p(z) for α < 0, with equality at α = 0, so the objective
is a lower bound of the information. The maximum (α = -∞, the choice of the source) is the loosest: its bound is never
above 0, and a prior on a single parameter attains that. From S draws, L is biased downwards: with S = 1 the objective
is an upper bound for every α, it falls as S grows, and at a finite S it can lie on either side. It does not measure the
information: `discretize` the prior and compute that instead.
"""

# B draws w whose information is maximized, S further draws for the marginal, Z outcomes

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from refprior._checks import number, whole_number
from refprior.information import divergence, finite

__all__ = ["Implicit", "LogitNormal", "discretize", "fit"]

STEEPEST = 20.0  # largest logit: w stays 2e-9 of the interval away from its ends
VR_MAX = -math.inf


def log_marginal(log_p: Tensor, alpha: float = VR_MAX) -> Tensor:
    """Return L_α(z) = log(1/S Σ_s p(z|w_s)^(1-α)) / (1-α), the Rényi bound with the prior as proposal: (S, Z) -> (Z,).

    α = 0 is the plain estimate of log p(z), α = -∞ the maximum over the draws (VR-max; Li and Turner, 2016).
    """
    if math.isnan(alpha) or alpha > 0:
        raise ValueError(f"alpha must be at most 0, where the marginal is bounded from above, got {alpha!r}")
    log_p = finite(log_p)
    if alpha == VR_MAX:
        return log_p.amax(0)
    return (((1 - alpha) * log_p).logsumexp(0) - math.log(len(log_p))) / (1 - alpha)


def bound(log_p: Tensor, others: Tensor, alpha: float = VR_MAX, coupled: bool = False) -> Tensor:
    """Return E_{z|w} [log p(z|w) - L_α(z)], with L_α of other draws: (B, Z), (S, Z) -> (B,).

    Its mean over w estimates the bound of the information. Unless `coupled`, the other draws have no gradient. At the
    exact marginal this loses nothing, because E_z ∇log p(z) = 0. At the maximum it matters: with the gradient, the
    other draws move to w, and the prior can shrink to a point; without it, w moves away from them.
    """
    return divergence(log_p, log_marginal(others if coupled else others.detach(), alpha))


class LogitNormal(nn.Module):
    """An explicit family of priors of one parameter: a logit-normal distribution.

    w = low + (high - low) · sigmoid(mean + scale · noise), for standard normal noise.

    Parameters
    ----------
    low, high : float
        Ends of the interval of w.

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> family = rp.variational.LogitNormal(0.0, 1.0)
    >>> family(torch.tensor([-1.0, 0.0, 1.0], dtype=torch.float64)).detach().round(decimals=3)
    tensor([0.2690, 0.5000, 0.7310], dtype=torch.float64)
    """

    def __init__(self, low: float, high: float) -> None:
        super().__init__()
        self.low, self.high = _interval(low, high)
        self.mean = nn.Parameter(torch.zeros((), dtype=torch.float64))
        self.log_scale = nn.Parameter(torch.zeros((), dtype=torch.float64))

    def forward(self, noise: Tensor) -> Tensor:
        """Map noise to draws of w.

        Parameters
        ----------
        noise : Tensor
            Standard normal draws, (n,).

        Returns
        -------
        Tensor
            Draws of w, (n,).
        """
        return _inside(self.mean + self.log_scale.exp() * noise, self.low, self.high)


class Implicit(nn.Module):
    """An implicit family of priors of one parameter: a network maps noise to w, and its density is unknown.

    The network has two hidden layers. One noise variable suffices for every distribution on an interval.

    Parameters
    ----------
    low, high : float
        Ends of the interval of w.
    hidden : int, default: 64
        Units of each hidden layer.
    seed : int, default: 0
        Seed of the initial weights.

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> rp.variational.Implicit(-5.0, 5.0)(torch.randn(3, dtype=torch.float64)).shape
    torch.Size([3])
    """

    def __init__(self, low: float, high: float, hidden: int = 64, seed: int = 0) -> None:
        super().__init__()
        self.low, self.high = _interval(low, high)
        whole_number("hidden", hidden, at_least=1)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            layers = [nn.Linear(1, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, 1)]
        self.network = nn.Sequential(*layers).double()

    def forward(self, noise: Tensor) -> Tensor:
        """Map noise to draws of w.

        Parameters
        ----------
        noise : Tensor
            Standard normal draws, (n,).

        Returns
        -------
        Tensor
            Draws of w, (n,).
        """
        return _inside(self.network(noise.unsqueeze(-1)).squeeze(-1), self.low, self.high)


def _interval(low: float, high: float) -> tuple[float, float]:
    return number("low", low), number("high", high, above=low)


def _inside(logit: Tensor, low: float, high: float) -> Tensor:
    """Map the real line into the interval; in double precision no end is reached."""
    return low + (high - low) * (STEEPEST * (logit / STEEPEST).tanh()).sigmoid()


def discretize(family: nn.Module, count: int = 4000) -> Tensor:
    """Return equally probable draws of a prior, at the midpoints of quantiles of the noise.

    Their information is that of a prior, so it never exceeds the capacity, and it converges to that of the family.

    Parameters
    ----------
    family : nn.Module
        A `LogitNormal`, an `Implicit`, or any module that maps noise (n,) to w (n,).
    count : int, default: 4000
        Number of draws.

    Returns
    -------
    Tensor
        Draws of w, (count,).

    Examples
    --------
    >>> import refprior as rp
    >>> rp.variational.discretize(rp.variational.LogitNormal(0.0, 1.0), count=3).round(decimals=3)
    tensor([0.2760, 0.5000, 0.7240], dtype=torch.float64)
    """
    whole_number("count", count, at_least=1)
    quantiles = (torch.arange(count, dtype=torch.float64) + 0.5) / count
    with torch.no_grad():
        return torch.Tensor(family(torch.special.ndtri(quantiles)))


def fit(
    log_likelihood: Callable[[Tensor], Tensor],
    family: nn.Module,
    *,
    alpha: float = VR_MAX,
    samples: int = 10,
    batch: int = 64,
    steps: int = 2000,
    learning_rate: float = 0.01,
    coupled: bool = False,
    seed: int = 0,
) -> Tensor:
    """Train a family in place to maximize the variational bound of the information.

    The mean of E_{z|w} [log p(z|w) - L_α(z)] by reparametrized gradients, with Adam and a learning rate that falls
    linearly to 0.

    Parameters
    ----------
    log_likelihood : callable
        Maps parameters (n,) to the log-probabilities of all outcomes, (n, Z), as for `exact.Channel.from_function`.
    family : nn.Module
        A `LogitNormal`, an `Implicit`, or any module that maps noise (n,) to w (n,).
    alpha : float, default: -inf
        α of the Rényi bound, at most 0. 0 is the plain estimate of log p(z), -inf the maximum over the draws.
    samples : int, default: 10
        S, further draws for the marginal.
    batch : int, default: 64
        B, draws of w per step.
    steps : int, default: 2000
        Number of optimizer steps.
    learning_rate : float, default: 0.01
        Initial learning rate.
    coupled : bool, default: False
        Let the gradient pass through the draws for the marginal.
    seed : int, default: 0
        Seed of all random draws.

    Returns
    -------
    Tensor
        The bound at each step, (steps,).

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> toss = lambda w: torch.stack([1 - w, w], -1).log()  # one toss of a coin: the best prior is at 0 and 1
    >>> family = rp.variational.LogitNormal(0.0, 1.0)
    >>> before = rp.variational.discretize(family, 4)
    >>> history = rp.variational.fit(toss, family, steps=100)
    >>> bool((rp.variational.discretize(family, 4)[0] < before[0] / 2).item())  # it has moved outwards
    True
    """
    for name, count in {"samples": samples, "batch": batch, "steps": steps}.items():
        whole_number(name, count, at_least=1)
    number("learning_rate", learning_rate, above=0)
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(family.parameters(), lr=learning_rate)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=steps)
    history = []
    for _ in range(steps):
        noise = torch.randn(batch + samples, dtype=torch.float64, generator=generator)
        log_p = log_likelihood(family(noise))
        value = bound(log_p[:batch], log_p[batch:], alpha, coupled).mean()
        optimizer.zero_grad()
        (-value).backward()
        optimizer.step()
        schedule.step()
        history.append(value.detach())
    return torch.stack(history)
