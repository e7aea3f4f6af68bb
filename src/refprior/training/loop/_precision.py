"""`precision="auto"`: bf16 where the machine has instructions for it and a short timing agrees, else float32."""

# K particles, n inputs, C classes

import time
from typing import Literal

import torch
from torch import Tensor

from refprior.particles import Particles
from refprior.training.loop._randomness import kept

Precision = Literal["float32", "bfloat16"]
WORTH = 0.9  # of the time of single precision, below which bf16 is taken
INPUTS = 64  # of fewer inputs mostly the calls are timed
TURNS = 2


def faster_precision(particles: Particles, x: Tensor) -> Precision:
    """What the particles compute a pass forward and backward faster with; all ranks agree. Nothing changes by it."""
    if not particles.mesh.told(has_bf16(x.device)):
        return "float32"
    put_back = kept(x.device)
    try:
        seconds = [[_seconds(particles, x[:INPUTS], half) for half in (False, True)] for _ in range(TURNS)]
    finally:
        put_back()
    single, half = (min(times) for times in zip(*seconds, strict=True))
    return particles.mesh.told("bfloat16" if half < WORTH * single else "float32")


def has_bf16(device: torch.device) -> bool:
    """Whether a device has instructions for products of bf16 numbers."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    vectors, tiles = torch.cpu._is_avx512_bf16_supported(), torch.cpu._is_amx_tile_supported()
    return device.type == "cpu" and bool(vectors or tiles)


def _seconds(particles: Particles, x: Tensor, half: bool) -> float:
    """Of a pass that leaves no trace, on all ranks at once."""
    weights = [parameter for parameter in particles.network.parameters() if parameter.requires_grad]
    _wait(x.device)
    started = time.perf_counter()
    with torch.autocast(x.device.type, torch.bfloat16, enabled=half):
        log_p = particles.aside(x)
    torch.autograd.grad(log_p.square().mean(), weights, allow_unused=True)
    _wait(x.device)
    return time.perf_counter() - started


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
