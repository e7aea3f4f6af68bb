# mypy: disable-error-code="override,assignment,no-untyped-call,call-arg,union-attr,no-any-return"
"""A pretend CUDA device on a machine without one: CPU values under the device rules of CUDA.

A `CudaTensor` holds a CPU tensor and claims to be on cuda:0. Operations on it and on a CPU tensor of more than one
number raise, as does a generator of the other device, and `numpy()`. Two things are counted with the line of refprior
that causes them: synchronizations, in which the host waits for the device, and copies from pageable memory.
The streams of random numbers are those of the CPU, so that a run gives the same numbers as on the CPU.
"""

import linecache
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten
CPU, CUDA = torch.device("cpu"), torch.device("cuda", 0)
# Operations whose result or validity the host must know. `multinomial` and `bincount` ask for it inside their kernels.
WAITING = {
    aten._local_scalar_dense.default,
    aten._unique2.default,
    aten.unique_dim.default,
    aten.unique_consecutive.default,
    aten.nonzero.default,
    aten.masked_select.default,
    aten.repeat_interleave.Tensor,
    aten.bincount.default,
    aten.histc.default,
    aten.multinomial.default,
    aten.equal.default,
}
INDEXING = {aten.index.Tensor, aten.index_put_.default, aten.index_put.default, aten._index_put_impl_.default}


@dataclass
class Counts:
    """What the host waited for, by line of refprior."""

    syncs: Counter[str] = field(default_factory=Counter)
    copies: Counter[str] = field(default_factory=Counter)  # blocking ones to the device

    def clear(self) -> None:
        self.syncs.clear()
        self.copies.clear()

    def __str__(self) -> str:
        return "\n".join(f"{n} × {what}" for n, what in (*self.syncs.items(), *self.copies.items()))


COUNTS = Counts()
_calls = 0  # of functions with a CudaTensor among their arguments: what C++ allocates in them is on the device
_backward = 0  # passes, which mix tensors that autograd made


class CudaTensor(torch.Tensor):
    """CPU values that claim to be on cuda:0."""

    values: Tensor

    @staticmethod
    def __new__(cls, values: Tensor) -> "CudaTensor":
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            values.size(),
            strides=values.stride(),
            storage_offset=values.storage_offset(),
            dtype=values.dtype,
            device=CPU,  # C++ of a CPU build has no guard for cuda
        )
        made.values = values
        return made

    def __repr__(self) -> str:
        return f"CudaTensor({self.values})"

    @property
    def device(self) -> torch.device:
        return CUDA

    @property
    def is_cuda(self) -> bool:
        return True

    @property
    def is_cpu(self) -> bool:
        return False

    def cpu(self, *_: object, **__: object) -> Tensor:
        return self.to(CPU)

    def tolist(self) -> Any:
        COUNTS.syncs[f"tolist {_where()}"] += 1
        return self.values.tolist()

    def numpy(self, *_: object, **__: object) -> Any:
        raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() first")

    __array__ = numpy

    def pin_memory(self, *_: object) -> Tensor:
        raise RuntimeError("cannot pin 'torch.cuda.FloatTensor': only dense CPU tensors can be pinned")

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


class CudaGenerator(torch.Generator):
    """A CPU generator that claims to be on the device it was made for."""

    _device: torch.device

    def __new__(cls, device: Any = "cpu") -> "CudaGenerator":
        made = super().__new__(cls, device="cpu")
        made._device = CUDA if _is_cuda(device) else CPU
        return made

    def __init__(self, device: Any = "cpu") -> None:
        pass

    @property
    def device(self) -> torch.device:
        return self._device

    def set_state(self, state: Tensor) -> "CudaGenerator":
        if isinstance(state, CudaTensor):
            raise TypeError("RNG state must be a torch.ByteTensor")
        super().set_state(state)
        return self

    def manual_seed(self, seed: int) -> "CudaGenerator":
        super().manual_seed(seed)
        return self


def _is_cuda(device: Any) -> bool:
    return device is not None and torch.device(device).type == "cuda"


def _leaves(nested: Any) -> list[Any]:
    """As torch's `tree_leaves`, which takes longer than the operations of small tests."""
    if isinstance(nested, dict):
        nested = list(nested.values())
    if not isinstance(nested, list | tuple):
        return [nested]
    return [leaf for item in nested for leaf in (_leaves(item) if isinstance(item, list | tuple | dict) else [item])]


def _mapped(function: Callable[[Any], Any], nested: Any) -> Any:
    if isinstance(nested, dict):
        return {name: _mapped(function, item) for name, item in nested.items()}
    if isinstance(nested, list | tuple):
        items = (_mapped(function, item) for item in nested)
        return type(nested)(*items) if hasattr(nested, "_fields") else type(nested)(items)
    return function(nested)


def _where() -> str:
    """Return the line of refprior that is being executed."""
    frame = sys._getframe()
    while frame.f_back is not None and "/src/refprior/" not in frame.f_code.co_filename:
        frame = frame.f_back
    file, line = frame.f_code.co_filename, frame.f_lineno
    return f"{file.rpartition('/src/refprior/')[2]}:{line} {linecache.getline(file, line).strip()[:90]}"


def _run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run one operation on the values, and check and count it."""
    leaves = _leaves((args, kwargs))
    ours = [t for t in leaves if isinstance(t, CudaTensor)]
    others = [t for t in leaves if isinstance(t, Tensor) and not isinstance(t, CudaTensor) and t.dim() > 0]
    if func is torch.ops.prim.device.default:
        return CPU
    on_device = bool(ours)
    if kwargs.get("device") is not None and not _calls:
        on_device = _is_cuda(kwargs["device"])
    if ours and func in WAITING:
        COUNTS.syncs[f"{func} {_where()}"] += 1
    if func in INDEXING and ours:
        indices = [i for i in args[1] if i is not None]
        if any(i.dtype in (torch.bool, torch.uint8) for i in indices):
            COUNTS.syncs[f"mask {_where()}"] += 1
        on_device = isinstance(args[0], CudaTensor)
        if on_device and not all(isinstance(i, CudaTensor) for i in indices):
            COUNTS.copies[f"index {_where()}"] += 1
        others = [t for t in others if not on_device or not any(t is i for i in indices)]
    if func is aten.copy_.default:
        on_device = isinstance(args[0], CudaTensor)
        if on_device != isinstance(args[1], CudaTensor) and args[1].numel():
            _count_copy(args[1], bool(len(args) > 2 and args[2]))
    elif ours and others and func is not aten._to_copy.default and not _backward:
        raise RuntimeError(f"Expected all tensors to be on the same device, in {func}, {_where()}")
    for generator in leaves:
        if isinstance(generator, torch.Generator) and _is_cuda(generator.device) != on_device:
            raise RuntimeError(f"a generator of {generator.device} draws for the other device, in {func}, {_where()}")
    kwargs = {**kwargs, **({"pin_memory": False} if kwargs.get("pin_memory") else {})}
    result = func(*_mapped(_values, args), **_mapped(_values, kwargs))
    if torch.Tag.inplace_view in func.tags and ours:  # the wrapper's shape changes too
        with no_dispatch():
            func(*args, **kwargs)
    if not on_device:  # nothing on the host shares memory with the device
        return _mapped(lambda t: t.values.clone() if isinstance(t, CudaTensor) else t, result)
    known = {id(t.values): t for t in ours} if func._schema.is_mutable else {}

    def wrapped(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor) or isinstance(leaf, CudaTensor):
            return leaf
        return known[id(leaf)] if id(leaf) in known else CudaTensor(leaf)

    if func._schema.is_mutable and ours and args and args[0] is ours[0] and func.__name__.split(".")[0].endswith("_"):
        return args[0]
    return _mapped(wrapped, result)


def _values(leaf: Any) -> Any:
    if isinstance(leaf, CudaTensor):
        return leaf.values
    return CPU if isinstance(leaf, torch.device) else leaf


def _count_copy(source: Tensor, non_blocking: bool) -> None:
    if isinstance(source, CudaTensor):
        COUNTS.syncs[f"to the host {tuple(source.shape)} {_where()}"] += 1
    elif not (non_blocking and getattr(source, "pinned", False)):
        COUNTS.copies[f"to the device {tuple(source.shape)} {_where()}"] += 1


class _Move(torch.autograd.Function):
    """A copy between host and device; its gradient goes back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, device: torch.device, dtype: torch.dtype, non_blocking: bool) -> Tensor:
        ctx.back = (CUDA if isinstance(x, CudaTensor) else CPU, x.dtype)
        _count_copy(x, non_blocking)
        with torch._C.DisableTorchFunction():
            values = (x.values if isinstance(x, CudaTensor) else x).to(dtype, copy=True)
            return CudaTensor(values) if device.type == "cuda" else values

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return _Move.apply(gradient, *ctx.back, False), None, None, None


class _Functions(TorchFunctionMode):
    """Moves between devices, which C++ would not see, and pinned memory."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        global _calls
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        first = args[0] if args else None
        if name in ("to", "cuda") and isinstance(first, Tensor):
            return _to(func, name, first, list(args[1:]), kwargs)
        if name == "pin_memory" and type(first) is not CudaTensor:
            pinned = func(*args, **kwargs) if not isinstance(first, Tensor) else first.clone()
            pinned.pinned = True
            return pinned
        if name in ("tensor", "as_tensor", "asarray", "from_numpy") and _is_cuda(kwargs.get("device")):
            if isinstance(first, CudaTensor):
                return first.to(kwargs.get("dtype") or first.dtype)
            made = func(*args, **{**kwargs, "device": CPU})
            return _Move.apply(made, CUDA, made.dtype, False)
        if name == "new_tensor" and isinstance(first, CudaTensor):
            made = torch.tensor(*args[1:], **{"dtype": first.dtype, **kwargs})
            return _Move.apply(made, CUDA, made.dtype, False)
        leaves = _leaves((args, kwargs))
        inside = any(isinstance(t, CudaTensor) for t in leaves) and kwargs.get("device") is None
        _calls += inside and name not in ("backward", "__deepcopy__")
        before = _calls
        try:
            return func(*args, **kwargs)
        finally:
            _calls = before - (inside and name not in ("backward", "__deepcopy__"))


def _to(func: Any, name: str, x: Tensor, rest: list[Any], kwargs: dict[str, Any]) -> Tensor:
    """Tensor.to in all its forms."""
    other = next((t for t in rest if isinstance(t, Tensor)), kwargs.get("other"))
    if other is not None:
        device, dtype = other.device, other.dtype
    else:
        found = next((d for d in rest if isinstance(d, str | torch.device)), kwargs.get("device"))
        device = CUDA if name == "cuda" else x.device if found is None else torch.device(found)
        dtype = next((d for d in rest if isinstance(d, torch.dtype)), kwargs.get("dtype")) or x.dtype
    if (device.type == "cuda") != isinstance(x, CudaTensor):
        non_blocking = kwargs.get("non_blocking", any(r is True for r in rest))
        return _Move.apply(x, CUDA if device.type == "cuda" else CPU, dtype, bool(non_blocking))
    form = {key: kwargs[key] for key in ("memory_format",) if kwargs.get(key) is not None}
    moved = x if dtype == x.dtype and not form else func(x, dtype, **form)
    return moved.clone() if kwargs.get("copy") and moved is x else moved


class _Operations(TorchDispatchMode):
    """Operations without a CudaTensor among their arguments: factories and generators."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        leaves = _leaves((args, kwargs))
        if _calls and kwargs.get("device") is not None and not any(isinstance(t, Tensor) for t in leaves):
            return CudaTensor(func(*args, **{**kwargs, "device": CPU}))
        ours = any(isinstance(t, CudaTensor) or (isinstance(t, torch.Generator) and _is_cuda(t.device)) for t in leaves)
        return _run(func, args, kwargs) if ours or _is_cuda(kwargs.get("device")) else func(*args, **kwargs)


def _inside(function: Callable[..., Any]) -> Callable[..., Any]:
    """Whatever the backward pass allocates is on the device."""

    def called(*args: Any, **kwargs: Any) -> Any:
        global _calls, _backward
        before, ours = (_calls, _backward), any(isinstance(t, CudaTensor) for t in _leaves(args))
        _calls, _backward = _calls + ours, _backward + ours
        try:
            return function(*args, **kwargs)
        finally:
            _calls, _backward = before

    return called


class _Autocast(torch.autocast):
    """C++ sees CPU tensors and casts them by the rules of a CPU."""

    def __init__(self, device_type: str, *args: Any, **kwargs: Any) -> None:
        super().__init__("cpu" if device_type == "cuda" else device_type, *args, **kwargs)


@contextmanager
def pretend_cuda(*, bf16: bool = True, memory: int = 2**34) -> Iterator[Counts]:
    """Pretend that this machine has a CUDA device, with bf16 or without, and this many free bytes."""
    state = {"default": torch.get_rng_state()}
    with ExitStack() as stack:
        for name, stand_in in {
            "_lazy_init": lambda: None,
            "is_available": lambda: True,
            "device_count": lambda: 1,
            "current_device": lambda: 0,
            "synchronize": lambda *_: None,
            "empty_cache": lambda: None,
            "is_bf16_supported": lambda *_, **__: bf16,
            "mem_get_info": lambda *_: (memory, memory),
            "get_device_name": lambda *_: "Pretend",
            "get_device_capability": lambda *_: (8, 0) if bf16 else (7, 0),
            "get_rng_state": lambda *_: state["default"],
            "set_rng_state": lambda new, *_: state.update(default=new),
        }.items():
            stack.enter_context(patch.object(torch.cuda, name, stand_in))
        stack.enter_context(patch.object(torch, "Generator", CudaGenerator))
        stack.enter_context(patch.object(torch, "autocast", _Autocast))
        for name in ("backward", "grad"):
            stack.enter_context(patch.object(torch.autograd, name, _inside(getattr(torch.autograd, name))))
        before = torch.__future__.get_overwrite_module_params_on_conversion()
        torch.__future__.set_overwrite_module_params_on_conversion(True)
        stack.callback(torch.__future__.set_overwrite_module_params_on_conversion, before)
        stack.enter_context(_Functions())
        stack.enter_context(_Operations())
        COUNTS.clear()
        yield COUNTS
