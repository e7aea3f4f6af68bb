r"""
1. A coin
=========

You may toss a coin of unknown bias once. Which prior makes this toss most informative?

Prior, toss, posterior
----------------------

The bias :math:`w` is the probability of heads, somewhere between 0 and 1. A prior :math:`\pi(w)` says what you
believe before the toss, and Bayes' rule turns it into what you believe afterwards:

.. math:: p(w \mid z) = \frac{p(z \mid w)\, \pi(w)}{p(z)}, \qquad p(z) = \int p(z \mid w)\, \pi(w)\, dw.

If the two are nearly the same, you have learned little. Compare three priors, each a few values of :math:`w`
with weights.
"""

import numpy as np

w = {
    "uniform": np.linspace(0, 1, 21),
    "fair or nearly": np.array([0.45, 0.5, 0.55]),
    "two ends": np.array([0.0, 1.0]),
}
for name, values in w.items():
    prior = np.full(len(values), 1 / len(values))
    posterior = prior * values / (prior * values).sum()  # after heads
    print(
        f"{name}: mean {prior @ values:.2f} before, {posterior @ values:.2f} after heads"
    )

# %%

# Figure: Three priors of the bias in gray, and in color their posteriors after one
# toss that shows heads
import matplotlib.pyplot as plt

figure, axes = plt.subplots(1, 3, figsize=(6.6, 2.8), layout="constrained")
for ax, (name, values) in zip(axes, w.items(), strict=True):
    prior = np.full(len(values), 1 / len(values))
    posterior = prior * values / (prior * values).sum()
    ax.vlines(values, 0, prior, color="gray", lw=7, alpha=0.45, label="before")
    ax.vlines(values, 0, posterior, color="#D55E00", lw=2.5, label="after heads")
    ax.set(title=name, xlim=(-0.05, 1.05), xlabel="bias w", ylim=(0, None))
axes[0].set_ylabel("probability")
axes[2].legend(frameon=False, loc="center")
plt.show()

# %%
# If you are sure that the coin is nearly fair, one toss teaches you almost nothing. If you believe that it shows heads
# either always or never, one toss teaches you everything.
#
# Measure the information
# -----------------------
#
# The Kullback–Leibler divergence measures the distance from prior to posterior. You do not know :math:`z`
# before you toss, so average the divergence over the predicted outcomes. The result is the *mutual information* between :math:`w`
# and :math:`z`. A **reference prior** is the prior for which it is largest (eq:ref_defn, after Bernardo 1979):
#
# .. math::
#
#    \pi^* = \underset{\pi}{\mathrm{argmax}}\; I_\pi(w; z), \qquad
#    I_\pi(w; z) = \int p(z)\, \mathrm{KL}\big(p(w \mid z),\, \pi(w)\big)\, dz = H(w) - H(w \mid z).
#
# The equivalent form :math:`I = H(z) - H(z \mid w)` is easier to compute. The first term is large if the prior
# leaves the outcome open, the second is small if each single :math:`w` determines the outcome.


def entropy(p):  # in nats; 0 log 0 is 0
    return -np.sum(p * np.log(np.where(p > 0, p, 1)), axis=-1)


def information(values, weights):
    p = np.stack([1 - values, values], axis=-1)  # (values, outcomes) of one toss
    return entropy(weights @ p) - weights @ entropy(p)


for name, values in w.items():
    nats = information(values, np.full(len(values), 1 / len(values)))
    print(f"{name}: {nats:.3f} nats of at most log 2 = 0.693")

# %%
# One toss has two outcomes, so its information is at most :math:`\log 2`, one bit. The two ends reach it. **So the
# reference prior of one toss is half at 0 and half at 1.** The library confirms this among all priors:

import refprior as rp

print(rp.exact.reference_prior(rp.exact.Coin(1)))

# %%
# Is this absurd?
# ---------------
#
# Nobody believes that coins show only heads or only tails. But a reference prior is not a belief about coins. It
# answers another question: which hypotheses can *this* experiment distinguish? One toss can distinguish two, and
# these two best. More tosses can distinguish more hypotheses. :doc:`The next lesson <atoms>` counts them.
#
# Try it
# ------
#
# - Put the two ends at 0.1 and 0.9. How much information is lost?
# - Give the end at 1 a weight of 0.7. Why is it worse?
