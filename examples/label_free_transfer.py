"""Transfer without any target label, in an ordinary PyTorch loop: the digits 0–4 teach 5–9.

    python examples/label_free_transfer.py

The particles' outputs have no names on the target; clusters of their joined predictions are the classes. They are
matched to the true classes only to measure. Your own data loaders and optimizer; the rest is the loss of refprior.
"""

from collections.abc import Iterator
from typing import Any

import torch
from sklearn.datasets import load_digits
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

import refprior as rp

K = 100  # particles
view = rp.views.Distort(degrees=10, scale=0.1, pixels=1, noise=0, cutout=0)


def endless(loader: "DataLoader[Any]") -> Iterator[list[Tensor]]:
    while True:
        yield from loader


def main(steps: int = 2000, seed: int = 0) -> float:
    """Train, and return the accuracy of the clusters on 300 test images of the target."""
    draw = torch.Generator().manual_seed(seed)
    digits = load_digits()
    order = torch.randperm(len(digits.target), generator=draw)
    x = (torch.tensor(digits.images) * 255 / 16).round().to(torch.uint8)[order, None]  # (1797, 1, 8, 8)
    y = torch.tensor(digits.target)[order]
    source_x, source_y, x, y = x[y < 5], y[y < 5], x[y >= 5], y[y >= 5] - 5  # the first 300 of x are to test
    many = DataLoader(TensorDataset(x[300:]), batch_size=128, shuffle=True, drop_last=True, generator=draw)
    past = DataLoader(TensorDataset(source_x, source_y), batch_size=64, shuffle=True, drop_last=True, generator=draw)

    inputs = rp.data.PrincipalComponents(count=64, scale=2.25).fit([x[300:], source_x])
    particles = rp.Particles(lambda: rp.networks.MLP((64,), classes=5, hidden=64), count=K, seed=seed)
    optimizer = torch.optim.SGD(particles.parameters(), lr=0.2 * K, momentum=0.9, nesterov=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    settings = rp.UnsupervisedTransfer(rp.ReferencePrior(alpha=1.0, gamma=1.0), beta=0.5)
    for _, (unlabeled,), (source, target) in zip(range(steps), endless(many), endless(past), strict=False):
        parts = [view(unlabeled, draw), view(unlabeled, draw), view(source, draw)]
        weak_p, strong_p, source_p = particles(inputs(torch.cat(parts))).split([len(part) for part in parts], dim=1)
        loss = rp.losses.unsupervised_transfer(weak_p, strong_p, source_p, target, settings=settings)
        optimizer.zero_grad()
        loss.total.backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        found = rp.posterior.cluster(particles(inputs(x[300:])), clusters=5)
        clusters = found.clusters(particles(inputs(x[:300])))
    return (rp.posterior.match(clusters, y[:300], 5)[clusters] == y[:300]).float().mean().item()


if __name__ == "__main__":
    print(f"accuracy of the consensus of {K} particles on the test images: {100 * main():.1f} %")
