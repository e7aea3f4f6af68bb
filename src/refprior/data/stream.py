"""Endless batches of indices: each pass over a pool is a new permutation of it."""

import torch
from torch import Tensor


class Stream:
    """Indices 0 … size - 1 in random order, forever. The generator owns the randomness."""

    def __init__(self, size: int, generator: torch.Generator) -> None:
        if size < 1:
            raise ValueError("cannot draw from an empty pool")
        self.size = size
        self.generator = generator
        self.waiting = torch.empty(0, dtype=torch.int64)  # the rest of the current pass

    def take(self, *shape: int) -> Tensor:
        """The next indices, in any shape; (B, N) gives B tuples of N."""
        count = torch.Size(shape).numel()
        while len(self.waiting) < count:
            permutation = torch.randperm(self.size, generator=self.generator)
            self.waiting = torch.cat([self.waiting, permutation])
        taken, self.waiting = self.waiting[:count], self.waiting[count:]
        return taken.reshape(shape)
