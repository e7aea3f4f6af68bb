"""Endless batches of indices: each pass over a pool, or over copies of it, is a new permutation."""

import torch
from torch import Tensor


class Stream:
    """Indices 0 … size - 1 in random order, forever. The generator owns the randomness.

    copies: that many of each index are shuffled together in a pass. With one, the indices of a small pool hardly repeat
    within a batch; with many they do almost as in draws with replacement.
    """

    def __init__(self, size: int, generator: torch.Generator, copies: int = 1) -> None:
        if size < 1:
            raise ValueError("cannot draw from an empty pool")
        self.size = size
        self.copies = copies
        self.generator = generator
        self.waiting = torch.empty(0, dtype=torch.int64, device=generator.device)  # the rest of the current pass

    def take(self, *shape: int) -> Tensor:
        """The next indices, in any shape; (B, N) gives B tuples of N.

        Only a tuple that lies across the end of a pass can hold an index twice.
        """
        count = torch.Size(shape).numel()
        parts, ready = [self.waiting], len(self.waiting)
        while ready < count:
            length = self.size * self.copies
            shuffled = torch.randperm(length, generator=self.generator, device=self.generator.device)
            parts.append(shuffled % self.size if self.copies > 1 else shuffled)
            ready += length
        together = torch.cat(parts)
        taken, self.waiting = together[:count], together[count:]
        return taken.reshape(shape)

    def state_dict(self) -> dict[str, Tensor]:
        """What a checkpoint must keep: the rest of the current pass and the generator's state.

        Streams that share a generator save its state each; restored together they agree.
        """
        return {"waiting": self.waiting.clone(), "generator": self.generator.get_state()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Go on exactly where `state_dict` was called."""
        waiting = state["waiting"]
        if len(waiting) and not 0 <= int(waiting.min()) <= int(waiting.max()) < self.size:
            raise ValueError(f"the saved stream reaches index {int(waiting.max())}, this pool has {self.size} inputs")
        self.waiting = waiting.to(self.generator.device, copy=True)
        self.generator.set_state(state["generator"])
