r"""
5. Networks as atoms
====================

A network has millions of weights, and no grid covers them. But the best prior consists of atoms, so let each atom
be a network, and move the atoms by gradient descent.

Particles
---------

Fix a number :math:`K` and search for the best prior of the form (rem:ba_particles)

.. math:: \pi(w) = \frac{1}{K} \sum_{k=1}^{K} \delta(w - w_k).

Each :math:`w_k` is a *particle*. The information is a smooth function of all of them, and back-propagation gives
its gradient. First, the coin: with a sigmoid for its bias, a particle is one number.
"""

import torch

import refprior as rp

K, n = 20, 10
logits = torch.randn(K, generator=torch.Generator().manual_seed(0)).requires_grad_()
heads = torch.arange(n + 1.0)
ways = (
    torch.lgamma(torch.tensor(n + 1.0))
    - torch.lgamma(heads + 1)
    - torch.lgamma(n - heads + 1)
)
optimizer = torch.optim.Adam([logits], lr=0.05)
for _ in range(1500):
    log_w, log_not = (
        torch.nn.functional.logsigmoid(logits),
        torch.nn.functional.logsigmoid(-logits),
    )
    log_p = (
        ways + heads * log_w[:, None] + (n - heads) * log_not[:, None]
    )  # (K, outcomes)
    information = rp.information.mutual_information(
        log_p[:, None, None], rp.information.uniform(len(log_p), log_p)
    ).mean()
    optimizer.zero_grad()
    (-information).backward()
    optimizer.step()

exact = rp.exact.reference_prior(rp.exact.Coin(n))
print(
    f"particles: {information.item():.4f} nats; no prior has more than {exact.information:.4f}"
)

# %%

# Figure: Twenty particles of the coin as ticks, gathered at the five exact atoms, whose
# weights are bars
import matplotlib.pyplot as plt

figure, ax = plt.subplots(figsize=(6.5, 2.4), layout="constrained")
ax.vlines(exact.atoms, 0, exact.weights, color="#0072B2", lw=4, label="exact atoms")
ax.plot(
    torch.sigmoid(logits).detach(),
    torch.full((K,), -0.03),
    "|",
    color="#D55E00",
    ms=14,
    mew=2,
    label="particles",
)
ax.set(xlabel="bias w", ylabel="weight")
ax.legend(frameon=False, loc="upper center")
plt.show()

# %%
# Particles find the atoms. Their information stays slightly below the optimum, because equal weights of 1/20 cannot
# match the exact ones.
#
# The information of networks
# ---------------------------
#
# For networks, :math:`z` are the labels :math:`y^n` of :math:`n` images :math:`x^n`. The information between weights
# and labels has two terms (eq:ref_ssl):
#
# .. math::
#
#    I_\pi(w; y^n) = \underbrace{H\big(p_\pi(y^n \mid x^n)\big)}_{\text{together: uncertain}}
#    \;-\; \underbrace{\mathbb{E}_{w \sim \pi}\, H\big(p(y^n \mid x^n, w)\big)}_{\text{each: certain}},
#
# where :math:`p_\pi = \frac{1}{K} \sum_k p(y^n \mid x^n, w_k)` is the mixture of the particles.
#
# The objective needs no labels, only images. Each particle should be certain of its labels, and the particles should
# disagree. The *order* :math:`n` is the number of images in a tuple. Small orders, two or three, are enough: they keep
# the number of distinct explanations small.

sure_and_alike = torch.tensor([[0.99, 0.01], [0.99, 0.01]]).log()[
    :, None, None
]  # (K, tuples, order, classes)
unsure = torch.tensor([[0.5, 0.5], [0.5, 0.5]]).log()[:, None, None]
sure_and_different = torch.tensor([[0.99, 0.01], [0.01, 0.99]]).log()[:, None, None]
for name, log_p in {
    "certain, equal": sure_and_alike,
    "uncertain": unsure,
    "certain, different": sure_and_different,
}.items():
    found = rp.information.mutual_information(
        log_p, rp.information.uniform(len(log_p), log_p)
    ).item()
    print(f"{name}: {abs(found):.3f} nats")

# %%
# Watch them spread
# -----------------
#
# Train 200 small networks on the digits 3 and 5 without labels. Each network is a point, its predictions :math:`f(w) =
# \sqrt{p} / \sqrt{2n}`, with Hellinger distances (rem:visua_prior), projected to principal components.

digits = rp.data.FewLabels("digits", labels=2, classes=(3, 5))()
pool = digits.unlabeled.float().flatten(1)
x = (pool - pool.mean(0)) / pool.std()
particles = rp.Particles(
    lambda: rp.networks.MLP((64,), classes=2, hidden=16), count=200
)
optimizer = torch.optim.Adam(particles.parameters(), lr=0.01)
generator = torch.Generator().manual_seed(0)
moments = {}
for step in range(151):
    batch = x[torch.randperm(len(x), generator=generator)[:64]]
    loss = rp.losses.information(particles(batch), particles.log_prior)
    if step in (0, 15, 150):
        moments[step] = (
            rp.geometry.embedding(particles(x[:100]).detach()),
            -loss.total.item(),
        )
    optimizer.zero_grad()
    loss.total.backward()
    optimizer.step()
print(
    {step: round(value, 3) for step, (_, value) in moments.items()},
    "nats of at most 2 log 2 = 1.386",
)

# %%

# Figure: Two hundred networks as points of the space of predictions at steps 0, 15 and
# 150: one dot, then a spreading cloud, then a shell
components = rp.geometry.principal_components(moments[150][0])
figure, axes = plt.subplots(
    1, 3, figsize=(6.6, 3), sharex=True, sharey=True, layout="constrained"
)
for ax, (step, (points, value)), color in zip(
    axes, moments.items(), ("#0072B2", "#E69F00", "#009E73"), strict=True
):
    ax.scatter(*components.project(points)[:, :2].T, s=10, color=color, alpha=0.7)
    ax.set(title=f"step {step}: {value:.2f} nats", xlabel="first component")
axes[0].set_ylabel("second component")
plt.show()

# %%
# The networks start as one dot, all equally uncertain, and end far apart, each certain of its own labeling. The
# paper shows this for 3000 networks on MNIST; :doc:`Plot the space of predictions </geometry>` repeats it at that size.
#
# None of these networks knows the right labeling, because no label was used. They are the hypotheses that the
# images leave open. :doc:`The next lesson <labels>` adds labels.
