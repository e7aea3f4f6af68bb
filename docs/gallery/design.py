"""
Choose an experiment
====================

You can take two noisy readings of a decay. At which times are they most informative?

The information of the reference prior is the largest information of an experiment about its parameter under any prior,
so compare experiments by it.
"""

import numpy as np

import refprior as rp


def readings(first: float, second: float) -> rp.exact.Channel:
    times = np.array([first, second])
    return rp.exact.Channel.from_mean(
        lambda rate: np.exp(-rate[:, None] * times),
        sigma=0.1,
        bounds=(0.1, 5.0),
        curvature=max(first, second) ** 2,
    )


designs = {
    f"{a:g} and {b:g}": readings(a, b)
    for a, b in ((0.2, 0.2), (0.2, 2.0), (0.5, 3.0), (1.0, 1.0), (3.0, 6.0))
}
for design in rp.exact.compare_designs(designs):
    told = f"{design.information:.3f} nats, {design.atoms} atoms"
    print(f"at {design.name}: {told}, {design.evidence}")

# %%
# A map over all pairs of times:

times = np.geomspace(0.1, 8, 8)
pairs = [(a, b) for a in times for b in times if a <= b]
found = {
    pair: rp.exact.reference_prior(readings(*pair), tolerance=1e-4).information
    for pair in pairs
}
best = max(found, key=found.get)
print(f"best on this grid: {best[0]:.2f} and {best[1]:.2f}, {found[best]:.3f} nats")

# %%

# Figure: Information over the two times of reading; the best pair is marked
import matplotlib.pyplot as plt

values = np.array(
    [[found.get((a, b), found.get((b, a))) for a in times] for b in times]
)
figure, ax = plt.subplots(figsize=(5.2, 4), layout="constrained")
mesh = ax.pcolormesh(times, times, values, cmap="viridis", shading="nearest")
ax.plot(*best, "*", color="white", markersize=16, markeredgecolor="black")
ax.set(xscale="log", yscale="log", xlabel="first time", ylabel="second time")
figure.colorbar(mesh, label="information, nats")
plt.show()

# %%
# Two readings at the same time only average the noise. An early reading distinguishes fast decays, a late reading
# slow ones.
#
# ``costs=`` adds a price to each design. Every information is certified: no other prior has more information in that
# experiment. Define your model by its mean, its likelihood or a distribution of scipy: :doc:`Exact
# priors </exact>`.
