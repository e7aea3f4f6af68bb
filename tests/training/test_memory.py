"""What cannot fit is refused from its shapes, before anything is made."""

import resource
import subprocess
import sys
import time
from functools import partial

import pytest
import torch
from torch import nn

from refprior.networks import MLP, SmallCNN, WideResNet
from refprior.particles import Particles
from refprior.training import Recipe, estimate, train
from refprior.training._memory import network_size
from tests.training.recipes import CPU, perceptron


@pytest.mark.parametrize("make", [partial(MLP, (1, 8, 8), 10), partial(SmallCNN, (1, 8, 8), 10)])
def test_the_size_of_a_network_is_that_of_its_tensors(make: partial[nn.Module]) -> None:
    tensors = list(Particles(make, 1).network.state_dict().values())
    assert network_size(make) == (sum(t.numel() for t in tensors), sum(t.numel() * t.element_size() for t in tensors))


def test_a_network_that_only_real_memory_can_make_is_measured_too() -> None:
    def make() -> nn.Module:
        layer = nn.Linear(3, 2)
        layer.weight.sum().item()  # there is no value without memory
        return layer

    state = torch.get_rng_state()
    assert network_size(make) == (8, 32)
    assert torch.get_rng_state().equal(state)


def test_sizes_are_found_in_a_moment() -> None:
    started = time.monotonic()
    network_size(partial(WideResNet, (3, 32, 32), 10))
    assert time.monotonic() - started < 2


TOO_LARGE = {
    "particles": perceptron(particles=10**9),
    "network": perceptron(network=partial(MLP, (1, 8, 8), 10, hidden=10**9)),
    "first stage": perceptron(start=perceptron(network=partial(MLP, (1, 8, 8), 10, hidden=10**9)), head="new"),
}


@pytest.mark.parametrize("case", TOO_LARGE)
def test_what_cannot_fit_is_refused_with_the_numbers(case: str) -> None:
    recipe: Recipe = TOO_LARGE[case]
    message = r"\Aparticles=[\d,]+, each a network of [\d,]+ numbers, needs about [\d.e+]+ TB of memory, and [\d.]+ .B "
    for work in (lambda: train(recipe), lambda: estimate(recipe, CPU)):
        with pytest.raises(ValueError, match=message):
            work()


def test_the_limit_is_that_of_the_process() -> None:
    """Four copies of two networks of 600 MB each do not fit in 4 GB."""
    script = (
        "from functools import partial; from refprior.networks import MLP; from refprior.training import train\n"
        "from tests.training.recipes import perceptron\n"
        "try: train(perceptron(particles=2, network=partial(MLP, (1, 8, 8), 10, hidden=2_000_000)))\n"
        "except ValueError as error: print(error)"
    )

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, preexec_fn=limit)
    assert "lower particles, or make the network smaller" in done.stdout, done.stderr
