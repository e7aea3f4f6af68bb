"""Functions written with torch or jax: arrays in, arrays out, and their derivatives.

Neither library is imported unless the user's function comes with it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from refprior.exact._arrays import Array, as_numbers

Function = Callable[[Any], Any]
Framework = Literal["numpy", "torch", "jax"]
Derivatives = Callable[[Array], tuple[Array, Array]]  # of p: (K, d) -> (K, d, Z), (K, d, d, Z)


def framework_of(function: Function, probe: Array, name: str) -> Framework:
    """Return the library whose arrays the function takes: it fails on those of numpy, or returns its own."""
    try:
        with np.errstate(all="ignore"):
            return _framework(function(probe))
    except Exception as error:
        for framework in ("torch", "jax"):
            if framework in sys.modules and _accepts(function, framework, probe):
                return framework
        raise failed(name, probe, error) from error


def _framework(value: object) -> Framework:
    module = type(value).__module__.partition(".")[0]
    return "torch" if module == "torch" else "jax" if module in ("jax", "jaxlib") else "numpy"


def _accepts(function: Function, framework: Framework, probe: Array) -> bool:
    """Return whether the function returns the library's arrays for them."""
    try:
        return _framework(function(_as_input(probe, framework))) == framework
    except Exception:  # the user's function may fail in any way; its first error is the one to show
        return False


def _as_input(w: Array, framework: Framework) -> Any:
    """Return parameters as an array of the library, in doubles."""
    if framework == "torch":
        import torch  # the user's function has imported it

        return torch.as_tensor(w, dtype=torch.float64)
    if framework == "jax":
        import jax

        return jax.numpy.asarray(w)
    return w


def failed(name: str, w: Array, error: Exception) -> ValueError:
    """Make the error of a user's function, which most often takes a single number instead of an array."""
    said = " ".join(f"{type(error).__name__}: {error}".split())
    return ValueError(
        f"{name} failed on an array of parameters of shape {w.shape} ({said}); it must take many parameters at once "
        "and return one row per parameter"
    )


def call(function: Function, w: Array, framework: Framework, name: str) -> Array:
    """Return the function's values as doubles of numpy; raise ValueError for single precision and complex numbers."""
    try:
        with np.errstate(divide="ignore"):
            value = function(_as_input(w, framework))
    except Exception as error:
        raise failed(name, w, error) from error
    kind = str(getattr(value, "dtype", "")).removeprefix("torch.")
    if kind in ("float32", "float16", "bfloat16"):
        precision = "single" if kind == "float32" else "half"
        raise ValueError(
            f"{name} returns {precision} precision, which is too coarse for a gap; use doubles (in torch: "
            "torch.float64; in jax: jax.config.update('jax_enable_x64', True))"
        )
    if kind.startswith("complex"):
        raise ValueError(f"{name} must return real numbers, got {kind}")
    value = value.detach().cpu().numpy() if _framework(value) == "torch" else value
    return as_numbers(f"what {name} returns", value)


def derivatives_by(function: Function, framework: Framework, probe: Array, *, scalar: bool) -> Derivatives | None:
    """Return derivatives of p = exp(function) by torch or jax, or None if these cannot map the function.

    A function that looks at its values, for example, cannot be mapped over points.
    """
    derivatives: Derivatives
    if framework == "torch":
        derivatives = _torch_derivatives(function, scalar)
    elif framework == "jax":
        derivatives = _jax_derivatives(function, scalar)
    else:
        return None
    try:
        derivatives(probe)
    except Exception:  # its values were fine: only the mapping fails, in as many ways as there are functions
        return None
    return derivatives


def _torch_derivatives(function: Function, scalar: bool) -> Derivatives:
    import torch

    def row(point: Any) -> Any:
        return torch.exp(function(point if scalar else point[None, :])[0])

    def derivatives(w: Array) -> tuple[Array, Array]:
        points = torch.as_tensor(w, dtype=torch.float64)
        first = torch.vmap(torch.func.jacrev(row))(points)
        second = torch.vmap(torch.func.jacrev(torch.func.jacrev(row)))(points)
        return _outcomes_last(first.detach().cpu().numpy(), second.detach().cpu().numpy())

    return derivatives


def _jax_derivatives(function: Function, scalar: bool) -> Derivatives:
    import jax

    def row(point: Any) -> Any:
        return jax.numpy.exp(function(point if scalar else point[None, :])[0])

    first = jax.jit(jax.vmap(jax.jacfwd(row)))
    second = jax.jit(jax.vmap(jax.jacfwd(jax.jacfwd(row))))
    return lambda w: _outcomes_last(np.asarray(first(w)), np.asarray(second(w)))


def _outcomes_last(first: Array, second: Array) -> tuple[Array, Array]:
    """Move the axis of outcomes to the end: (K, Z, d), (K, Z, d, d) -> (K, d, Z), (K, d, d, Z)."""
    return np.array(np.moveaxis(first, 1, -1), dtype=float), np.array(np.moveaxis(second, 1, -1), dtype=float)
