"""
Sloppy models
=============

A sum of two decays has two rates, and noisy data that can hardly tell them apart. Where does the best prior put its
weight?

Models of this kind are called sloppy: along one direction the data say much, along the other almost nothing. A
uniform prior spends itself on differences that no experiment sees. The reference prior does not.
"""

import numpy as np

import refprior as rp

times = np.array([1.0, 2.0])


def mean(w):  # (K, 2) rates -> (K, 2) readings of the mean of two decays
    return np.exp(-w[:, :1] * times) / 2 + np.exp(-w[:, 1:] * times) / 2


priors = {}
for sigma in (0.3, 0.1):
    channel = rp.exact.Channel.from_mean(
        mean, sigma=sigma, bounds=[(0.0, 4.0), (0.0, 4.0)], curvature=2.0
    )
    priors[sigma] = prior = rp.exact.reference_prior(channel, tolerance=1e-6)
    told = f"{len(prior.weights)} atoms, {prior.information:.4f} nats"
    print(f"noise {sigma}: {prior.evidence}, {told}")

# %%

# Figure: Atoms of the reference prior in the plane of the two rates, and on the surface
# of what can be measured
import matplotlib.pyplot as plt

figure, axes = plt.subplots(1, 2, figsize=(6.6, 3.6), layout="constrained")
grid = np.linspace(0, 4, 200)
pairs = np.stack(np.meshgrid(grid, grid), -1).reshape(-1, 2)
axes[1].scatter(*mean(pairs).T, s=0.3, color="lightgray", rasterized=True)
for (sigma, prior), color, marker in zip(
    priors.items(), ("#0072B2", "#D55E00"), ("o", "D"), strict=True
):
    sizes = 600 * prior.weights
    axes[0].scatter(
        *prior.atoms.T,
        s=sizes,
        color=color,
        marker=marker,
        alpha=0.6,
        label=f"noise {sigma}",
    )
    axes[1].scatter(
        *mean(prior.atoms).T, s=sizes, color=color, marker=marker, alpha=0.6
    )
axes[0].set(xlabel="first rate", ylabel="second rate", title="parameters")
axes[1].set(
    xlabel="reading at time 1", ylabel="reading at time 2", title="what can be measured"
)
axes[0].legend(frameon=False)
plt.show()

# %%
# All pairs of rates lie on a thin gray sheet of readings. With much noise the atoms sit at the edges of the sheet:
# simpler models with one rate, or with rates of 0 or the largest. With less noise, atoms move inside. The prior
# chooses the model's complexity by what the data can tell (Mattingly, Transtrum, Abbott and Machta, 2018).
#
# How does a uniform prior compare?

side = np.linspace(0, 4, 15)
uniform = np.stack(np.meshgrid(side, side), -1).reshape(-1, 2)
noisy = rp.exact.Channel.from_mean(
    mean, sigma=0.3, bounds=[(0.0, 4.0), (0.0, 4.0)], curvature=2.0
)
for judged in rp.exact.compare_priors(
    noisy, {"uniform": (uniform, np.full(225, 1 / 225))}, tolerance=1e-6
):
    average, worst = judged.information, judged.worst_regret
    print(f"{judged.name}: {average:.3f} nats on average, worst regret {worst:.3f}")
