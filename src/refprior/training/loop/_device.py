"""Where to compute."""

import torch

from refprior import _process
from refprior._words import in_short


def usable_device(name: torch.device | str) -> torch.device:
    """The device of that name, if this machine has it. Of several processes on it, each takes a GPU of its own."""
    try:
        device = torch.device(name)
        if str(device) == "cuda" and _process.world() > 1:
            device = torch.device("cuda", _process.local_rank())
        torch.ones(1, device=device).cpu()
    except (RuntimeError, AssertionError, NotImplementedError, TypeError) as error:
        raise ValueError(f"device {str(name)!r} cannot be used here: {in_short(error)}") from None
    return device
