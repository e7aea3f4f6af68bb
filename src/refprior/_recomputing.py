"""Activation checkpointing: passes that the backward pass computes again, and activations that it keeps anyway."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

__all__ = ["keep_activations", "recomputed"]

_within = ContextVar("a pass that is recomputed", default=False)


def recomputed(function: Callable[..., Tensor], *arguments: object) -> Tensor:
    """Call a function; its backward pass computes everything again outside `keep_activations`."""

    def run(*arguments: object) -> Tensor:
        token = _within.set(True)
        try:
            return function(*arguments)
        finally:
            _within.reset(token)

    found: Tensor = checkpoint(run, *arguments, use_reentrant=False, determinism_check="none")
    return found


def keep_activations() -> AbstractContextManager[object]:
    """Keep the activations computed inside, within a recomputed pass; the backward pass repeats only what comes before.

    Use it for the late layers of a network, which have more multiplications per stored number: they save the most time
    for their memory. It does nothing in other passes.
    """
    if torch.compiler.is_compiling() or not _within.get():  # compilers cannot follow context variables
        return nullcontext()
    # The innermost pair of hooks applies, so these shield what is saved from those of the recomputed pass. An output
    # that is saved without detaching would hold its own graph.
    return saved_tensors_hooks(Tensor.detach, lambda x: x)
