"""Pickles of the official CIFAR archives, read without trusting them.

A pickle is a program. Three fences keep this one in: only the instructions that those files contain are let
through; only the three names that an array needs can be looked up, and they give stand-ins, never numpy's own
functions; a stand-in becomes an array only if its bytes have the length that its shape announces.
"""

import io
import math
import pickle
import pickletools
from typing import Any

import numpy as np

from refprior.data._error import DataError

_INSTRUCTIONS = frozenset(
    "PROTO STOP MARK NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1 BINSTRING SHORT_BINSTRING BINUNICODE "  # noqa: SIM905
    "EMPTY_DICT SETITEM SETITEMS EMPTY_LIST APPEND APPENDS EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 BINPUT LONG_BINPUT "
    "BINGET LONG_BINGET GLOBAL REDUCE BUILD".split()
)
_NAMES = frozenset({"numpy.core.multiarray _reconstruct", "numpy ndarray", "numpy dtype"})


def read_pickle(content: bytes, name: str) -> dict[str, Any]:
    """The dictionary in a CIFAR pickle: text, numbers, lists and arrays of unsigned bytes, keys as text."""
    _inspect(content, name)
    try:
        loaded = _Reader(io.BytesIO(content), encoding="latin1").load()
    except DataError as error:
        raise DataError(f"{name}: {error}") from error
    except Exception as error:  # a damaged pickle can raise nearly anything
        raise DataError(f"{name}: damaged pickle ({type(error).__name__}: {error})") from error
    if not isinstance(loaded, dict):
        raise DataError(f"{name}: holds a {type(loaded).__name__}, expected a dictionary")
    return {str(key): _plain(value, name) for key, value in loaded.items()}


def _inspect(content: bytes, name: str) -> None:
    """Raise for an instruction, a global name or a memo index that no CIFAR file has."""
    try:
        for opcode, argument, _ in pickletools.genops(content):
            if opcode.name not in _INSTRUCTIONS:
                raise DataError(f"{name}: pickle instruction {opcode.name}, which no CIFAR file contains; not read")
            if opcode.name == "GLOBAL" and argument not in _NAMES:
                raise DataError(f"{name}: the pickle asks for {argument!r}, which no CIFAR file contains; not read")
            if opcode.name == "LONG_BINPUT" and int(argument or 0) > len(content):  # memory is allocated by this number
                raise DataError(f"{name}: memo index {argument} in a pickle of {len(content)} bytes")
    except DataError:
        raise
    except Exception as error:  # pickletools raises ValueError, KeyError, UnicodeDecodeError and more
        raise DataError(f"{name}: damaged or cut-short pickle ({error})") from error


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        stand_ins = {"_reconstruct": _reconstruct, "ndarray": _Array, "dtype": _DType}
        if f"{module} {name}" not in _NAMES:
            raise DataError(f"the pickle asks for {module}.{name}; not read")
        return stand_ins[name]


class _DType:
    def __init__(self, code: str = "", *_: object) -> None:
        self.code = code

    def __setstate__(self, state: object) -> None:
        """Byte order and alignment: nothing of interest for single bytes."""


class _Array:
    values: np.ndarray | None = None

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, fortran, content = state
        if not isinstance(dtype, _DType) or dtype.code != "u1" or fortran:
            raise DataError("an array that is not of unsigned bytes in C order")
        if not all(isinstance(n, int) and n >= 0 for n in shape) or not isinstance(content, str):
            raise DataError(f"an array of shape {shape!r} and {type(content).__name__} content")
        data = content.encode("latin1")
        if math.prod(shape) != len(data):
            raise DataError(f"an array of shape {tuple(shape)} with {len(data)} bytes")
        self.values = np.frombuffer(data, dtype=np.uint8).reshape(shape)


def _reconstruct(*_: object) -> _Array:
    return _Array()


def _plain(value: Any, name: str) -> Any:
    if not isinstance(value, _Array):
        return value
    if value.values is None:
        raise DataError(f"{name}: an array without content")
    return value.values
