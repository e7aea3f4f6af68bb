"""Transfer in an ordinary PyTorch loop: the digits 0–4, all labeled, teach 5–9, of which 2 per class have labels.

    python examples/transfer.py

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
    """Train, and return the accuracy of the ensemble on 300 test images of the target."""
    draw = torch.Generator().manual_seed(seed)
    digits = load_digits()
    order = torch.randperm(len(digits.target), generator=draw)
    x = (torch.tensor(digits.images) * 255 / 16).round().to(torch.uint8)[order, None]  # (1797, 1, 8, 8)
    y = torch.tensor(digits.target)[order]
    source_x, source_y, x, y = x[y < 5], y[y < 5], x[y >= 5], y[y >= 5] - 5
    known = torch.cat([300 + (y[300:] == c).nonzero()[:2, 0] for c in range(5)])  # the first 300 are to test
    few = DataLoader(TensorDataset(x[known], y[known]), batch_size=10, shuffle=True, generator=draw)
    many = DataLoader(TensorDataset(x[300:]), batch_size=128, shuffle=True, drop_last=True, generator=draw)
    past = DataLoader(TensorDataset(source_x, source_y), batch_size=32, shuffle=True, drop_last=True, generator=draw)

    particles = rp.Particles(lambda: rp.networks.SmallCNN((1, 8, 8), classes=5), count=K, seed=seed)
    # The loss averages over particles: K times the learning rate, 1/K of the decay.
    optimizer = torch.optim.SGD(particles.parameters(), lr=0.06 * K, momentum=0.9, nesterov=True, weight_decay=5e-4 / K)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    batches = zip(range(steps), endless(few), endless(many), endless(past), strict=False)
    for _, (labeled, target), (unlabeled,), (source, source_target) in batches:
        parts = [weak(labeled, draw), weak(unlabeled, draw), strong(unlabeled, draw), weak(source, draw)]
        log_p = particles(torch.cat(parts) / 96 - 0.8)  # (K, images, 5)
        known_p, weak_p, strong_p, source_p = log_p.split([len(part) for part in parts], dim=1)
        loss = rp.losses.transfer(known_p, target, weak_p, strong_p, source_p, source_target)  # β = 1/2, α = 0.1
        optimizer.zero_grad()
        loss.total.backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        predicted = rp.posterior.predictive(particles(x[:300] / 96 - 0.8), particles.log_prior)
    return (predicted.argmax(-1) == y[:300]).float().mean().item()


if __name__ == "__main__":
    print(f"accuracy of {K} particles on the test images: {100 * main():.1f} %")
