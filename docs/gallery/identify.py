"""
The next measurement of a model that is not identifiable
========================================================

An enzyme converts substrate at a rate :math:`V c / (K + c)`. The concentration :math:`c(t)` solves a differential
equation, and there are three noisy readings. Which parameters do they determine, and when should you take the next
reading?
"""

import numpy as np
from scipy.integrate import solve_ivp

import refprior as rp

BOX, NOISE = [(0.1, 1.5), (0.1, 5.0)], 0.03  # V, K


def curves(w, times):  # (K, 2) -> c (K, T) and its sensitivities (K, T, 2)
    V, K = w.T

    def slope(t, flat):  # all parameters at once: c, ∂c/∂V, ∂c/∂K
        c, by_V, by_K = flat.reshape(3, -1)
        rate, per_c = V * c / (K + c), V * K / (K + c) ** 2
        return np.concatenate(
            [-rate, -rate / V - per_c * by_V, rate / (K + c) - per_c * by_K]
        )

    start = np.concatenate([np.ones(len(w)), np.zeros(2 * len(w))])
    ends = (0, max(times))
    found = solve_ivp(slope, ends, start, t_eval=times, rtol=1e-6, atol=1e-8)
    c, by_V, by_K = found.y.reshape(3, len(w), len(times))
    return c, np.stack([by_V, by_K], axis=2)


def experiment(*times):
    return rp.exact.Channel.from_mean(
        lambda w: curves(w, times)[0],
        slopes=lambda w: curves(w, times)[1],
        sigma=NOISE,
        bounds=BOX,
    )


early = (0.5, 1.0, 1.5)
truth = np.array([[0.5, 1.0]])
seen = curves(truth, early)[0][0] + [0.02, -0.03, 0.01]
print("singular values of the sensitivities at the truth, in standard deviations:")
print(np.linalg.svd(curves(truth, early)[1][0] / NOISE)[1].round(2))

# %%
# The data determine one direction well and the other hardly. The profile likelihood shows the effect on each
# parameter: fix it, optimize the other, and compute the loss of fit. Values below the line, 1.92 nats, form the 95%
# interval.

V, K = (np.linspace(low, high, 41) for low, high in BOX)
grid = np.stack(np.meshgrid(V, K, indexing="ij"), -1).reshape(-1, 2)


def loss(times, z):  # (1681,) minus log-likelihoods
    return (((curves(grid, times)[0] - z) / NOISE) ** 2).sum(axis=1) / 2


before = loss(early, seen)
designs = rp.exact.best_design(
    experiment, (1, 10), given=(grid, np.exp(-before)), points=10
)
best = designs.place[0]
for design in sorted(designs.tried, key=lambda d: int(d.name)):
    print(f"reading at t = {design.name:>2}: {design.information:.3f} nats")

# %%
# ``given`` is a ``Posterior``, or parameters with weights. Designs are ranked by the additional information
# :math:`I(w; z \mid \text{data})`. Here ``given`` is a grid, weighted by the likelihood.
#
# The sensitivities of the differential equation are solved together with it (``slopes``), which avoids finite
# differences of a numerical solution. Add the reading:

# Figure: Profile likelihoods of both parameters, before and after the next reading
import matplotlib.pyplot as plt

after = before + loss((best,), curves(truth, (best,))[0][0] - 0.02)
figure, axes = plt.subplots(1, 2, figsize=(6.6, 3.2), layout="constrained", sharey=True)
for panel, name, x, axis in zip(axes, "VK", (V, K), (1, 0), strict=True):
    for nats, color, label in (
        (before, "0.6", "three early readings"),
        (after, "#D55E00", f"and one at t = {best}"),
    ):
        profile = (nats - nats.min()).reshape(41, 41).min(axis=axis)
        inside = x[profile < 1.92]
        print(f"{name}, {label}: 95% interval {inside.min():.2f} to {inside.max():.2f}")
        panel.plot(x, profile, color=color, label=label)
    panel.axhline(1.92, color="0.3", lw=0.8, ls=":")
    panel.set(xlabel=name, ylim=(0, 5))
axes[0].set_ylabel("log-likelihood below its maximum (nats)")
axes[0].legend(frameon=False)
plt.show()
