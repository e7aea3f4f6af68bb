"""Where to compute."""

import torch

from refprior._words import in_short


def usable_device(name: torch.device | str) -> torch.device:
    """The device of that name, if this machine has it."""
    try:
        device = torch.device(name)
        torch.ones(1, device=device).cpu()
    except (RuntimeError, AssertionError, NotImplementedError, TypeError) as error:
        raise ValueError(f"device {str(name)!r} cannot be used here: {in_short(error)}") from None
    return device
