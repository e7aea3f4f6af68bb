"""The global generators of torch, numpy and Python: networks (dropout) and a user's own views may draw from them."""

# ruff: noqa: NPY002 (numpy's legacy generator is its global one)

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

_TWISTER = "MT19937"


@contextmanager
def own_randomness(seed: int, device: torch.device) -> Iterator[None]:
    """Seed the global generators for a run, and give them back after it as they were."""
    put_back = kept(device)
    try:
        torch.manual_seed(seed)
        np.random.seed(seed)
        random.seed(seed)
        yield
    finally:
        put_back()


def kept(device: torch.device) -> Callable[[], None]:
    """A function that puts all global generators back to where they are now; cheap enough for every step."""
    ours, numpys, pythons = torch.get_rng_state(), np.random.get_state(), random.getstate()
    cuda = torch.cuda.get_rng_state(device) if device.type == "cuda" else None

    def put_back() -> None:
        torch.set_rng_state(ours)
        np.random.set_state(numpys)
        random.setstate(pythons)
        if cuda is not None:
            torch.cuda.set_rng_state(cuda, device)

    return put_back


def randomness_state(device: torch.device) -> dict[str, Tensor]:
    """The states of all global generators; of numpy and Python as numbers, which float64 holds exactly."""
    _, keys, *rest = cast(tuple[Any, ...], np.random.get_state(legacy=True))
    version, twister, normal = random.getstate()
    states = {
        "torch": torch.get_rng_state(),
        "numpy": torch.tensor([*keys.tolist(), *rest], dtype=torch.float64),
        "python": torch.tensor([version, *twister, normal is not None, normal or 0.0], dtype=torch.float64),
    }
    return states | ({"cuda": torch.cuda.get_rng_state(device)} if device.type == "cuda" else {})


def load_randomness(states: dict[str, Tensor], device: torch.device) -> None:
    """Continue exactly where `randomness_state` was called."""
    *keys, position, has_normal, normal = states["numpy"].tolist()
    np.random.set_state((_TWISTER, np.array(keys, dtype=np.uint32), int(position), int(has_normal), normal))
    version, *twister, has_normal, normal = states["python"].tolist()
    random.setstate((int(version), tuple(map(int, twister)), normal if has_normal else None))
    torch.set_rng_state(states["torch"])
    if "cuda" in states and device.type == "cuda":
        torch.cuda.set_rng_state(states["cuda"], device)
