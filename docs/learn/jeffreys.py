r"""
3. Many tosses
==============

As tosses become many, atoms crowd together, and their density approaches a curve that Harold Jeffreys wrote down in
1946.

How far apart two coins are
---------------------------

What matters is not the distance of two biases but how well :math:`n` tosses can tell them apart. Near 0.5 the count
of heads has a large spread, near 0 and 1 a small one. The Fisher information measures it:

.. math:: g(w) = \sum_z p(z \mid w) \Big(\frac{\partial}{\partial w} \log p(z \mid w)\Big)^2 = \frac{n}{w (1 - w)}.

Two coins at a distance :math:`dw` are :math:`\sqrt{g(w)}\, dw` standard deviations apart. Jeffreys' prior spreads
its weight evenly in this measure, :math:`\pi_J(w) \propto \sqrt{\det g(w)}`. For the coin it is
:math:`(w (1 - w))^{-1/2} / \pi`.
"""

import numpy as np

import refprior as rp

for n in (10, 50, 150):
    prior = rp.exact.reference_prior(rp.exact.Coin(n))
    # distances in this angle, times √n, are standard deviations
    angle = 2 * np.arcsin(np.sqrt(prior.atoms))
    spacing = np.sqrt(n) * np.diff(angle)
    apart = f"{spacing.min():.2f} to {spacing.max():.2f} standard deviations"
    print(f"n = {n}: {len(prior.atoms)} atoms, {apart} apart")

# %%

# Figure: Share of the prior below each bias: steps of the reference prior for 5, 20 and
# 150 tosses, and the smooth curve of Jeffreys
import matplotlib.pyplot as plt

figure, axes = plt.subplots(1, 3, figsize=(6.6, 2.9), sharey=True, layout="constrained")
w = np.linspace(0, 1, 400)
for ax, n in zip(axes, (5, 20, 150), strict=True):
    prior = rp.exact.reference_prior(rp.exact.Coin(n))
    ax.step(
        [0, *prior.atoms, 1],
        [0, *prior.weights.cumsum(), 1],
        where="post",
        color="#0072B2",
        label="reference prior",
    )
    ax.plot(
        w, 2 / np.pi * np.arcsin(np.sqrt(w)), "--", color="#D55E00", label="Jeffreys"
    )
    ax.set(title=f"n = {n}, {len(prior.atoms)} atoms", xlabel="bias w")
axes[0].set_ylabel("share below w")
axes[0].legend(frameon=False, loc="lower right")
plt.show()

# %%
# The steps approach the curve. For one parameter, reference and Jeffreys' prior become the same as
# :math:`n \to \infty`. (The paper prints the coin's as :math:`(w (1 - w))^{-1}`; by its own definition the exponent
# is :math:`-1/2`.)
#
# What Jeffreys' prior costs when data are few
# --------------------------------------------
#
# Until then they are not the same. Judge a prior by its worst case: how wrong can its prediction of the data be, over
# all coins?

for n in (2, 10, 50):
    grid = (
        np.sin((np.arange(400) + 0.5) / 400 * np.pi / 2) ** 2
    )  # even in the angle: Jeffreys
    uniform = (np.arange(400) + 0.5) / 400
    equal = np.full(400, 1 / 400)
    judged = rp.exact.compare_priors(
        rp.exact.Coin(n), {"Jeffreys": (grid, equal), "uniform": (uniform, equal)}
    )
    print(
        f"n = {n}: worst regret",
        {prior.name: round(prior.worst_regret, 3) for prior in judged},
    )

# %%
# The reference prior has the least worst regret, and it equals its information. That is no coincidence: it is the
# minimax strategy of a game in which nature picks the coin (the redundancy–capacity theorem).
#
# With many parameters and few data the difference becomes dramatic: Jeffreys' prior puts nearly all of its weight
# where parameters matter little, because there are so many of them. The gallery shows it for :doc:`sloppy
# models </auto_gallery/sloppy>`. Networks are such models.
#
# It does not matter how you write the parameter
# ----------------------------------------------
#
# Describe the coin by its odds :math:`w / (1 - w)` instead, and the same coins are chosen: information does not know
# what the parameter is called. A uniform prior does; it is uniform in one description and not in another.
#
# How many atoms
# --------------
#
# For large :math:`n` the number of atoms grows like :math:`n^{2/3}` if there is one parameter (Abbott and Machta,
# 2019): faster than :math:`\sqrt{n}`, which is how many standard deviations there are from end to end. So they come
# closer to each other, slowly. At small :math:`n` the exponent is still on its way:

counts = {
    n: len(rp.exact.reference_prior(rp.exact.Coin(n)).atoms) for n in (20, 40, 80, 160)
}
slope = np.polyfit(np.log(list(counts)), np.log(list(counts.values())), 1)[0]
print(counts, f"exponent {slope:.2f}")
