"""The semi-supervised reference prior in an ordinary PyTorch loop: 8×8 digits, 5 labels per class.

    python examples/semi_supervised.py

Your own data loaders and optimizer; from refprior only the particles, the views and the loss.
"""

from collections.abc import Iterator
from typing import Any

import torch
from sklearn.datasets import load_digits
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

import refprior as rp

K = 4  # particles
weak, strong = rp.views.Shift(), rp.views.Distort()


def endless(loader: "DataLoader[Any]") -> Iterator[list[Tensor]]:
    while True:
        yield from loader


def main(steps: int = 600, seed: int = 0) -> float:
    """Train, and return the accuracy of the ensemble on 600 test images."""
    draw = torch.Generator().manual_seed(seed)
    digits = load_digits()
    order = torch.randperm(len(digits.target), generator=draw)
    x = (torch.tensor(digits.images) * 255 / 16).round().to(torch.uint8)[order, None]  # (1797, 1, 8, 8)
    y = torch.tensor(digits.target)[order]
    known = torch.cat([600 + (y[600:] == c).nonzero()[:5, 0] for c in range(10)])  # the first 600 are to test
    few = DataLoader(TensorDataset(x[known], y[known]), batch_size=32, shuffle=True, drop_last=True, generator=draw)
    many = DataLoader(TensorDataset(x[600:]), batch_size=128, shuffle=True, drop_last=True, generator=draw)

    particles = rp.Particles(lambda: rp.networks.SmallCNN((1, 8, 8), classes=10), count=K, seed=seed)
    # The loss averages over particles: K times the learning rate, 1/K of the decay.
    optimizer = torch.optim.SGD(particles.parameters(), lr=0.06 * K, momentum=0.9, nesterov=True, weight_decay=5e-4 / K)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _, (labeled, target), (unlabeled,) in zip(range(steps), endless(few), endless(many), strict=False):
        images = torch.cat([weak(labeled, draw), weak(unlabeled, draw), strong(unlabeled, draw)])
        log_p = particles(images / 96 - 0.8)  # (K, images, 10)
        known_p, weak_p, strong_p = log_p.split([len(labeled), len(unlabeled), len(unlabeled)], dim=1)
        loss = rp.losses.reference_prior(known_p, target, weak_p, strong_p, settings=rp.ReferencePrior(alpha=0.1))
        optimizer.zero_grad()
        loss.total.backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        predicted = rp.posterior.predictive(particles(x[:600] / 96 - 0.8), particles.log_prior)
    return (predicted.argmax(-1) == y[:600]).float().mean().item()


if __name__ == "__main__":
    print(f"accuracy of {K} particles on the test images: {100 * main():.1f} %")
