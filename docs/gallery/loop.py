"""
A custom training loop
======================

Keep your data loader, optimizer and logging, and use only the particles and the loss.

Every objective is a function of log-probabilities of shape (particles, images, classes).
"""

import torch
from sklearn.datasets import load_digits

import refprior as rp

K, steps = 4, 120
draw = torch.Generator().manual_seed(0)
digits = load_digits()
x = (
    (torch.tensor(digits.images) * 255 / 16).round().to(torch.uint8)[:, None]
)  # (1797, 1, 8, 8)
y = torch.tensor(digits.target)
order = torch.randperm(len(y), generator=draw)
x, y = x[order], y[order]  # the first 600 are the test part
known = torch.cat([600 + (y[600:] == c).nonzero()[:5, 0] for c in range(10)])
weak, strong = rp.views.Shift(), rp.views.Distort()

# %%

particles = rp.Particles(lambda: rp.networks.SmallCNN((1, 8, 8), classes=10), count=K)
# The loss averages over particles, so the rate of one particle is multiplied by K.
optimizer = torch.optim.SGD(
    particles.parameters(), lr=0.06 * K, momentum=0.9, nesterov=True
)
history = []
for _ in range(steps):
    few = known[torch.randperm(50, generator=draw)[:32]]
    many = 600 + torch.randint(len(x) - 600, (128,), generator=draw)
    images = torch.cat([weak(x[few], draw), weak(x[many], draw), strong(x[many], draw)])
    labeled, weak_p, strong_p = particles(images / 96 - 0.8).split(
        [32, 128, 128], dim=1
    )  # (K, images, 10)
    loss = rp.losses.reference_prior(
        labeled, y[few], weak_p, strong_p, settings=rp.ReferencePrior(alpha=0.1)
    )
    optimizer.zero_grad()
    loss.total.backward()
    optimizer.step()
    history.append({name: float(value) for name, value in loss.terms.items()})

with torch.no_grad():
    predicted = rp.posterior.predictive(
        particles(x[:600] / 96 - 0.8), particles.log_prior
    )
right = 100 * (predicted.argmax(-1) == y[:600]).float().mean()
print(f"{right:.1f} % of 600 test images, with 50 labels")

# %%

# Figure: The cross-entropy of the labels and the two entropies over training
import matplotlib.pyplot as plt

STYLES = {
    "cross_entropy": ("-", "#D55E00"),
    "marginal_entropy": ("--", "#0072B2"),
    "conditional_entropy": (":", "#009E73"),
}
figure, ax = plt.subplots(figsize=(6.5, 3), layout="constrained")
for name, (style, color) in STYLES.items():
    ax.plot(
        [record[name] for record in history],
        style,
        color=color,
        label=name.replace("_", " "),
    )
ax.set(xlabel="step", ylabel="nats")
ax.grid(alpha=0.3)
ax.legend(frameon=False)
plt.show()

# %%
# The cross-entropy is that of the labels. The marginal entropy is that of the mixture of the particles for pairs of
# images, the conditional entropy (an upper bound) is the mean over single particles. Both fall as the particles become
# certain.
#
# :doc:`Examples </reference/examples>` has complete scripts, also for transfer.
