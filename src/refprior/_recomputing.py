"""Passes that the backward pass takes again instead of keeping what they computed, and what it keeps all the same."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

__all__ = ["kept", "recomputed"]

_within = ContextVar("a pass that is recomputed", default=False)


def recomputed(function: Callable[..., Tensor], *arguments: Any) -> Tensor:
    """What the function returns; its backward pass computes again all that is not `kept`."""

    def run(*arguments: Any) -> Tensor:
        token = _within.set(True)
        try:
            return function(*arguments)
        finally:
            _within.reset(token)

    found: Tensor = checkpoint(run, *arguments, use_reentrant=False, determinism_check="none")
    return found


def kept() -> AbstractContextManager[object]:
    """Within a recomputed pass: what is computed inside stays, and the backward pass takes the pass again up to here.

    For the late layers of a network, which have more multiplications per number: keeping them takes less memory for the
    time that it saves. In other passes it does nothing.
    """
    if torch.compiler.is_compiling() or not _within.get():  # compilers cannot follow context variables
        return nullcontext()
    # Of several pairs of hooks the innermost counts: these shield what is saved from those of the recomputed pass. An
    # output that is saved as it is would hold its own graph.
    return saved_tensors_hooks(Tensor.detach, _itself)


def _itself(x: Tensor) -> Tensor:
    return x
