r"""
7. Transfer
===========

One task has many labels, another has few. How much of the first task should the second one use?

Two stages, with networks
-------------------------

Call the first task the source, with images and labels :math:`(x^m_s, y^m_s)`, and the second the target,
:math:`(x^n_t,
y^n_t)`. As with :doc:`two stages of coin tosses <stages>`, the prior should maximize the change from the first posterior
to the second. In terms of information (eq:ref_transfer_mi):

.. math:: \pi^* = \underset{\pi}{\mathrm{argmax}}\; I_\pi(w; y_t^n, y_s^m) - \beta\, I_\pi(w; y_s^m).

There are two cases. If the source has no labels, average over its predictions as well (eq:ref_pi_transfer_1). If
its labels are known, they are fixed, and only the labels of the target are averaged (eq:ref_pi_transfer_2). In
practice the labels of the source enter as a likelihood with weight :math:`1 - \beta` (eq:transfer_expt_obj):

.. math::

   \max_\pi\; \gamma\, I_\pi(w; y_t^u) + \mathbb{E}_w \log p(y_t^n \mid x_t^n, w)
   + (1 - \beta)\, \mathbb{E}_w \log p(y_s^m \mid x_s^m, w).

.. csv-table::
   :delim: |
   :header: equation | method

   case 1, an unlabeled source | ``rp.methods.UnlabeledSource``
   case 2, a labeled source | ``rp.methods.LabeledSource``
   few target labels | ``rp.Transfer``
   no target label | ``rp.UnsupervisedTransfer``

At β = 1 the source has no effect
---------------------------------

At β = 1 the source has weight 0, and
transfer equals the semi-supervised reference prior, in value and gradient. This is a good test of the objective:
"""

import torch

import refprior as rp

torch.manual_seed(0)
labeled, weak, strong, source = (
    torch.randn(4, n, 5).log_softmax(-1) for n in (10, 20, 20, 16)
)
y, source_y = torch.arange(10) % 5, torch.arange(16) % 5
alone = rp.losses.reference_prior(labeled, y, weak, strong).total
for beta in (0.0, 0.5, 1.0):
    both = rp.losses.transfer(
        labeled, y, weak, strong, source, source_y, settings=rp.Transfer(beta=beta)
    ).total
    print(f"β = {beta:g}: transfer {both:.4f}, semi-supervised {alone:.4f}")

# %%
# The effect of β
# ---------------
#
# The data are points of the plane in two classes, and the particles are straight lines. The true boundary of the source
# is vertical. The boundary of the target is rotated by 50 degrees, and only four of its points have labels.

import math

GRID = torch.cartesian_prod(*[torch.linspace(-6, 6, 60)] * 2)
generator = torch.Generator().manual_seed(1)


def points(count: int, degrees: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Two bands of points on both sides of a line through the origin."""
    side = torch.randint(2, (count,), generator=generator)
    across = (2.0 * side - 1) * 1.2 + 0.4 * torch.randn(count, generator=generator)
    along = 2.0 * torch.randn(count, generator=generator)
    a = math.radians(degrees)
    x = across * math.cos(a) - along * math.sin(a)
    y = across * math.sin(a) + along * math.cos(a)
    return torch.stack([x, y], 1), side


source_x, source_y = points(200, 0)
pool, hidden = points(300, 50)
few = torch.cat([(hidden == c).nonzero()[:2, 0] for c in (0, 1)])
lines = {}
for beta in (0.0, 0.9, 1.0):
    particles = rp.Particles(lambda: torch.nn.Linear(2, 2), count=20)
    optimizer = torch.optim.Adam(particles.parameters(), lr=0.05)
    settings = rp.Transfer(rp.ReferencePrior(alpha=1.0, order=2), beta=beta)
    for _ in range(150):
        near = pool + 0.1 * torch.randn(pool.shape, generator=generator)
        parts = [pool[few], pool, near, source_x]
        log_p = particles(torch.cat(parts)).split([len(part) for part in parts], dim=1)
        loss = rp.losses.transfer(
            log_p[0], hidden[few], *log_p[1:], source_y, settings=settings
        )
        optimizer.zero_grad()
        loss.total.backward()
        optimizer.step()
    with torch.no_grad():
        lines[beta] = particles(torch.cat([pool, GRID]))
    guess = rp.posterior.predictive(lines[beta][:, :300], particles.log_prior)
    right = 100 * (guess.argmax(-1) == hidden).float().mean()
    print(f"β = {beta:g}: the ensemble is right for {right:.0f} % of the target")

# %%

# Figure: Decision lines of twenty particles over the points of source and target, for β
# = 0, 0.9 and 1
import matplotlib.pyplot as plt

figure, axes = plt.subplots(
    1, 3, figsize=(6.6, 3.2), sharex=True, sharey=True, layout="constrained"
)
side = torch.linspace(-6, 6, 60)
for ax, (beta, log_p) in zip(axes, lines.items(), strict=True):
    ax.scatter(*source_x.T, s=5, color="lightgray", label="source")
    ax.scatter(
        *pool.T, s=5, c=["#56B4E9" if c else "#E69F00" for c in hidden], label="target"
    )
    for k in range(20):
        ax.contour(
            side,
            side,
            log_p[k, 300:, 1].exp().reshape(60, 60).T,
            [0.5],
            colors="#009E73",
            linewidths=0.8,
        )
    ax.scatter(
        *pool[few].T, s=60, facecolors="none", edgecolors="black", label="labels"
    )
    ax.set(title=f"β = {beta:g}", xticks=[], yticks=[])
axes[0].legend(fontsize=7, loc="lower left")
plt.show()

# %%
# At β = 0 every line also fits the source, and the target suffers. At β = 1 the lines ignore the
# source; only the four labels and the gap between the bands determine them, and some lines are wrong. In between, a
# small weight of the source stabilizes them, even though it is rotated by 50 degrees. The best β depends on the
# similarity of the tasks.
#
# Sources and targets
# -------------------
#
# The paper trains every pair of five superclasses of CIFAR-100. ``refprior transfer-matrix`` does the same at a small
# size:
#
# |Accuracy of every target from every source, transfer and fine-tuning|
#
# No target label
# ---------------
#
# Without the likelihood of the target, the particles still find its classes, up to their names: each particle
# splits the target in its own way, and their consensus is the classes. A few labels name them
# (:doc:`example </auto_gallery/clusters>`).
#
# Next steps
# ----------
#
# You know what a reference prior is, why it has atoms, how networks become atoms, and how labels and other tasks change
# them. Next: :doc:`Gallery </auto_gallery/index>` for examples to copy, :doc:`Equations </equations>` for the function
# of each equation, :doc:`Differences </differences>` for where the paper and its code disagree.
#
# .. |Accuracy of every target from every source, transfer and fine-tuning| image:: ../figures/transfer_matrix.png
