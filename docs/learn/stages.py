r"""
4. Two stages
=============

First :math:`m` tosses, later :math:`n` more. Which prior makes the *second* stage most informative?

This is the situation of pretraining: other data arrive before the data of your task.

The first stage is known
------------------------

Suppose that you saw the first tosses, :math:`z^m`. After them your belief is
:math:`p(w \mid z^m) \propto p(z^m \mid w)\,
\pi(w)`, and *that* is the prior of the second stage. It should be the reference prior of :math:`n` tosses,
:math:`\pi_n^*`. So choose :math:`\pi` accordingly (eq:ref_pinm):

.. math:: \pi_{n \mid m}^*(w) \propto \pi_n^*(w)\; p(z^m \mid w)^{-1}.

This prior gives less weight to parameters that explain the old data well, so that the new data dominate. This forgets
the first stage completely. β interpolates (eq:ref_pinm_beta): β = 1 forgets the first stage, β = 0 keeps it.

.. math:: \pi_{n \mid m}^{\beta}(w) \propto \pi_n^*(w)\; p(z^m \mid w)^{-\beta}.
"""

import refprior as rp

prior = rp.exact.reference_prior(rp.exact.Coin(10))
first = rp.exact.Coin(3)  # it showed two heads
print("atoms", prior.atoms.round(3).tolist())
for beta in (0.0, 0.5, 1.0):
    found = rp.exact.known_first_stage(prior, 2, beta=beta, first=first)
    print(f"β = {beta:g}: after the first stage {found.posterior.round(3).tolist()}")
print(found)
print(rp.exact.known_first_stage(prior, 2, first=first, inward=1e-6))

# %%
# At β = 1 the posterior after the first stage is the reference prior :math:`\pi_n^*` on the atoms that remain possible.
# Coins that show only heads or only tails are ruled out, and with them half of the information. The last line moves
# these two atoms inward by a millionth: they stay possible, and almost no information is lost.
#
# The first stage is not known yet
# --------------------------------
#
# If you must choose before anything is tossed, average over both stages (eq:ref_pinm_avg, with β as in eq:pib):
#
# .. math:: \pi^* = \underset{\pi}{\mathrm{argmax}}\; I_\pi(w; z^{m+n}) - \beta\, I_\pi(w; z^m).
#
# The first stage should leave several explanations open, with a large :math:`H(w \mid z^m)`. The second should decide
# among them, with a small :math:`H(w \mid z^{m+n})`.

for m, n in ((0, 1), (1, 1), (1, 10), (10, 1), (30, 1)):
    found = rp.exact.two_stage_prior(rp.exact.Coin, m=m, n=n)
    print(f"m = {m}, n = {n}: {len(found.atoms)} atoms, {found.information:.4f} nats")

# %%

# Figure: Two-stage priors of the coin: above one first toss and 1, 10, 40 later ones,
# below 10 and 30 first tosses and one later
import matplotlib.pyplot as plt

pairs = [(1, 1), (1, 10), (1, 40), (0, 1), (10, 1), (30, 1)]
figure, axes = plt.subplots(2, 3, figsize=(6.6, 4.6), sharex=True, layout="constrained")
for ax, (m, n) in zip(axes.flat, pairs, strict=True):
    two = rp.exact.two_stage_prior(rp.exact.Coin, m=m, n=n)
    one = rp.exact.reference_prior(rp.exact.Coin(n))
    ax.vlines(
        one.atoms, 0, one.weights, color="lightgray", lw=7, label=f"one stage, n = {n}"
    )
    ax.vlines(two.atoms, 0, two.weights, color="#0072B2", lw=2.5, label="two stages")
    ax.set(title=f"m = {m}, n = {n}", ylim=(0, None))
axes[0, 0].legend(fontsize=7, frameon=False, loc="upper center")
for ax in axes[1]:
    ax.set_xlabel("bias w")
for ax in axes[:, 0]:
    ax.set_ylabel("weight")
plt.show()

# %%
# These are the paper's two figures of the two-stage coin. With many first tosses and one later toss, weight moves from
# the ends to the inside: the first stage already shows whether a coin always shows heads. The last toss distinguishes
# coins that the first stage could not. Its information is small, 0.04 nats after ten tosses.
#
# The two-stage prior differs from the prior of all :math:`m + n` tosses:

two, one = (
    rp.exact.two_stage_prior(rp.exact.Coin, m=10, n=1),
    rp.exact.reference_prior(rp.exact.Coin(11)),
)
print("two stages:", two.atoms.round(3).tolist())
print("one stage of 11:", one.atoms.round(3).tolist())

# %%
# Summary
# -------
#
# - Keep old data (small β) if the new task is similar to the old one, and forget them (large β) otherwise.
# - A prior for transfer maximizes a difference of two informations.
# - :doc:`The last lesson <transfer>` does the same with networks.
