"""
Which experiment to do
======================

Two noisy readings of a decay, at times of your choice. When should you look?

The most that an experiment can tell about its parameter, whatever you believed before, is the information of its
reference prior. So compare experiments by it.
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
# On a grid of all pairs of times, it is a map:

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
# Two readings at the same time only average the noise. One early reading tells fast decays apart, one late reading
# slow ones.
#
# With ``costs=``, each design has its price beside it. Every information is certified: no other prior could draw more
# from that experiment. Define your model by their mean, their likelihood or a distribution of scipy: :doc:`Exact
# priors </exact>`.
