"""
Sloppy models
=============

A sum of two decays has two rates that noisy data can hardly distinguish. Where does the best prior have its weight?

Such models are called sloppy: the data determine one direction well and the other hardly at all. A
uniform prior spreads its weight over differences that the experiment cannot detect. The reference prior does not.
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

# Figure: Atoms of the reference prior in the plane of the two rates, and in the plane of
# the predicted readings
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
axes[1].set(xlabel="reading at time 1", ylabel="reading at time 2", title="predictions")
axes[0].legend(frameon=False)
plt.show()

# %%
# All pairs of rates predict readings on a thin gray sheet. With large noise the atoms are at the edges of the sheet:
# simpler models with one rate, or with rates of 0 or the maximum. With less noise, atoms move inside. The prior
# adapts the complexity of the model to the information in the data (Mattingly, Transtrum, Abbott and Machta, 2018).
#
# Compare it with a uniform prior:

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
