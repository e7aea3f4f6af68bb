r"""
6. Few labels
=============

Take a prior of networks that disagree, and fifty labels to select among them. This is semi-supervised learning.

Prior, then posterior
---------------------

In principle: find the particles without labels, weight each by the likelihood of the labels :math:`(x^n, y^n)`,
and predict with the mixture (eq:bayes_posterior_predictive_distribution):

.. math:: p(y \mid x, x^n, y^n) = \sum_k p(y \mid x, w_k)\; p(w_k \mid x^n, y^n),

.. math:: p(w_k \mid x^n, y^n) \propto \pi(w_k) \prod_i p(y_i \mid x_i, w_k).

With few particles, none fits the labels by chance. Therefore one objective combines both steps (eq:ref_mi_ce):
maximize the information, and fit the labels.

.. math::

   \max_\pi\; \gamma\, \big[\alpha\, H(y^u \mid x^u) - \mathbb{E}_w H(y^u \mid x^u, w)\big]
   + \mathbb{E}_w \log p(y^n \mid x^n, w).

The second part is the usual cross-entropy, on labeled images. The first needs only the unlabeled ones, :math:`x^u`.
α is the weight of disagreement: 1 is the definition, but 0.1 works better with networks.

Two views
---------

An image and its distorted copy have the same label. Let :math:`p_1` be the prediction for a weak view (slightly
shifted), :math:`p_2` for a strong one (rotated, noisy, partly covered), and :math:`p_G = \tau p_1 + (1 - \tau) p_2`.
Instead of the entropy of :math:`p_G` take the upper bound that Jensen's inequality gives (eq:tau):

.. math:: -\sum_y p_G(y) \big[\tau \log p_1(y) + (1 - \tau) \log p_2(y)\big] \;\ge\; H(p_G).

Its cross terms, :math:`-p_1 \log p_2`, make the two views agree. FixMatch learns from unlabeled images in the same way;
here this term follows from an entropy. A numerical check of the bound:
"""

import torch

p1, p2, tau = torch.tensor([0.9, 0.1]), torch.tensor([0.6, 0.4]), 1 / 3
mixed = tau * p1 + (1 - tau) * p2
entropy = -(mixed * mixed.log()).sum()
bound = -(mixed * (tau * p1.log() + (1 - tau) * p2.log())).sum()
print(f"entropy {entropy:.4f} ≤ bound {bound:.4f}")

# %%
# Train it
# --------
#
# One method implements this, with the paper's settings as defaults:

import refprior as rp

recipe = rp.recipes.override(
    rp.recipes.digits_ssl(labels=50), {"steps": 150, "ema": 0.95, "evaluate_every": 25}
)
method = recipe.method
print(f"τ = {method.tau:.3f}, α = {method.alpha}, order {method.order}")
run = rp.train(recipe)
scores = run.evaluate()
print(f"ensemble {100 * scores.accuracy:.1f} %")
print(
    "particles", [round(100 * accuracy, 1) for accuracy in scores.particle_accuracies]
)

# %%

# Figure: Over training: test accuracy of particles and ensemble, and the two entropies
# of the objective
import matplotlib.pyplot as plt

figure, (left, right) = plt.subplots(1, 2, figsize=(6.6, 3.2), layout="constrained")
records = [record for record in run.history if record.evaluation]
steps, test = [r.step for r in records], [r.evaluation.test.ema for r in records]
for k in range(4):
    left.plot(
        steps,
        [100 * s.particle_accuracies[k] for s in test],
        color="#56B4E9",
        lw=1,
        label="particles" if k == 0 else None,
    )
left.plot(
    steps, [100 * s.accuracy for s in test], color="#D55E00", lw=2.5, label="ensemble"
)
left.set(xlabel="step", ylabel="test accuracy, %")
steps = [record.step for record in run.history]
for name, style, color, words in (
    ("marginal_entropy", "-", "#0072B2", "together, H(y)"),
    ("conditional_entropy", "--", "#D55E00", "each, bound of H(y | w)"),
):
    right.plot(
        steps,
        [record.terms[name] for record in run.history],
        style,
        color=color,
        label=words,
    )
right.set(xlabel="step", ylabel="nats per pair of images")
for ax in (left, right):
    ax.grid(alpha=0.3)
    ax.legend(frameon=False)
plt.show()

# %%
# This is the paper's figure of training, on small digits. The ensemble is better than its particles, because they
# make different errors. Both entropies fall as the particles become certain. If both were exact, their difference would
# be the remaining information, the disagreement of the particles. The dashed line is the upper bound of
# eq:tau, so it may be above the other line.
#
# Where the particles disagree
# ----------------------------
#
# The uncertainty *between* particles is the remaining information:

images = run.task.test.inputs
unsure = run.uncertainty(images)
truth = [run.task.classes[i] for i in run.task.test.labels]
wrong = run.predict(images) != truth
for name, rows in {"right": ~wrong, "wrong": wrong}.items():
    print(
        f"where it is {name}: {unsure.between[rows].mean():.3f} nats between particles"
    )

# %%
# The particles agree where the ensemble is right and disagree where it is wrong. Use this to decide :doc:`when to
# abstain </auto_gallery/abstain>` and :doc:`which inputs to label next </auto_gallery/asking>`.
#
# :doc:`Results </results>` has the accuracy on other data, also where other methods are better.
