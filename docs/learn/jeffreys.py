r"""
3. Many tosses
==============

With more tosses, the atoms become dense, and their density approaches a prior that Harold Jeffreys proposed in
1946.

The distance of two coins
-------------------------

The relevant distance of two biases is how well :math:`n` tosses can distinguish them. Near 0.5 the count
of heads has a large spread, near 0 and 1 a small one. The Fisher information measures it:

.. math:: g(w) = \sum_z p(z \mid w) \Big(\frac{\partial}{\partial w} \log p(z \mid w)\Big)^2 = \frac{n}{w (1 - w)}.

Two coins at a distance :math:`dw` are :math:`\sqrt{g(w)}\, dw` standard deviations apart. The Jeffreys prior is
uniform in this measure, :math:`\pi_J(w) \propto \sqrt{\det g(w)}`. For the coin it is
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
# The steps approach the curve. For one parameter, the reference prior and the Jeffreys prior become the same as
# :math:`n \to \infty`. (The paper prints :math:`(w (1 - w))^{-1}` for the coin; by its definition the exponent
# is :math:`-1/2`.)
#
# The cost of the Jeffreys prior with few data
# --------------------------------------------
#
# For finite :math:`n` they differ. Compare priors by their worst case: the largest error of the predicted data over
# all coins.

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
# The reference prior has the smallest worst regret, which equals its information: it is the
# minimax strategy of a game in which nature picks the coin (the redundancy–capacity theorem).
#
# With many parameters and few data, the difference is large: the Jeffreys prior has nearly all of its weight
# where the parameters hardly matter (:doc:`Far from asymptopia </asymptopia>`). The gallery shows such :doc:`sloppy
# models </auto_gallery/sloppy>`. Networks are sloppy, too.
#
# Reparametrization
# -----------------
#
# If you describe the coin by its odds :math:`w / (1 - w)` instead, the reference prior consists of the same coins,
# because information does not depend on the parametrization. A uniform prior does.
#
# Number of atoms
# ---------------
#
# For large :math:`n` the number of atoms grows like :math:`n^{2/3}` if there is one parameter (Abbott and Machta,
# 2019). This is faster than :math:`\sqrt{n}`, the distance of the ends in standard deviations, so the atoms slowly
# become denser. At small :math:`n` the exponent is smaller:

counts = {
    n: len(rp.exact.reference_prior(rp.exact.Coin(n)).atoms) for n in (20, 40, 80, 160)
}
slope = np.polyfit(np.log(list(counts)), np.log(list(counts.values())), 1)[0]
print(counts, f"exponent {slope:.2f}")
