"""Pickles of the official CIFAR archives, read without trusting them.

A pickle is a program. This is a small machine that runs the few instructions that those files contain and no others.
It makes text, numbers, flat lists and arrays of unsigned bytes; it calls nothing, hashes nothing but text, and goes
down into nothing, so that its work is bounded by the length of the file.
"""

import math
import pickletools
import struct
from typing import Any, NamedTuple, TypeVar

import numpy as np

from refprior._words import in_short
from refprior.data._error import DataError

T = TypeVar("T")

_MOST_INSTRUCTIONS = 1_000_000  # the largest of the official files has 300,000
_LONGEST_KEY = 100
_LONGEST_TEXT = 200
_MARK = object()
_RECONSTRUCT, _NDARRAY, _DTYPE = "numpy.core.multiarray _reconstruct", "numpy ndarray", "numpy dtype"
_NUMBERS = {b"K": "<B", b"M": "<H", b"J": "<i"}
_LENGTHS = {b"U": "<B", b"T": "<i", b"X": "<I", b"\x8a": "<B"}
_MEMO = {b"q": "<B", b"r": "<I", b"h": "<B", b"j": "<I"}
_CONSTANTS = {b"N": None, b"\x88": True, b"\x89": False}
_TUPLES = {b")": 0, b"\x85": 1, b"\x86": 2, b"\x87": 3}


def read_pickle(content: bytes, name: str) -> dict[str, Any]:
    """The dictionary in a CIFAR pickle: text, numbers, lists of them and arrays of unsigned bytes, keys as text."""
    machine = _Machine(content)
    try:
        loaded = machine.run()
    except DataError as error:
        raise DataError(f"{name}: {error}") from error
    except (struct.error, IndexError, KeyError, ValueError, TypeError, AttributeError) as error:
        raise DataError(f"{name}: damaged or cut-short pickle, at byte {machine.place} ({in_short(error)})") from error
    if not isinstance(loaded, dict):
        raise DataError(f"{name}: holds a {type(loaded).__name__.strip('_')}, expected a dictionary")
    return {key: _plain(value, f"{name}: {in_short(key)!r}") for key, value in loaded.items()}


class _Machine:
    def __init__(self, content: bytes) -> None:
        self.content = memoryview(content)
        self.place = 0
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self) -> Any:
        """What lies on the stack at STOP."""
        for _ in range(_MOST_INSTRUCTIONS):
            code = bytes(self._take(1))
            if code == b".":
                return self.stack[-1]
            self._step(code)
        raise DataError(f"more than {_MOST_INSTRUCTIONS:,} pickle instructions, no CIFAR file has as many")

    def _step(self, code: bytes) -> None:
        stack = self.stack
        if code in _NUMBERS:
            stack.append(self._number(_NUMBERS[code]))
        elif code in _LENGTHS:
            stack.append(self._text(code))
        elif code in _MEMO:
            self._remember(code)
        elif code in _CONSTANTS:
            stack.append(_CONSTANTS[code])
        elif code in _TUPLES:
            stack.append(tuple([stack.pop() for _ in range(_TUPLES[code])][::-1]))
        elif code == b"(":
            stack.append(_MARK)
        elif code in (b"}", b"]"):
            stack.append({} if code == b"}" else [])
        elif code == b"t":
            stack.append(tuple(self._since_mark()))
        elif code in (b"a", b"e"):
            items = [stack.pop()] if code == b"a" else self._since_mark()
            _the(list, stack[-1]).extend(items)
        elif code in (b"s", b"u"):
            items = [stack.pop(-2), stack.pop()] if code == b"s" else self._since_mark()
            _the(dict, stack[-1]).update(zip(map(_key, items[::2]), items[1::2], strict=True))
        elif code == b"c":
            stack.append(_Name(self._global()))
        elif code == b"R":
            arguments, made = stack.pop(), stack.pop()
            stack.append(_made(_the(_Name, made).text, _the(tuple, arguments)))
        elif code == b"b":
            state = stack.pop()
            if isinstance(stack[-1], _Array):
                stack[-1].fill(_the(tuple, state))
            else:
                _the(_DType, stack[-1])  # byte order and alignment: nothing of interest for single bytes
        elif code == b"\x80":
            self._take(1)
        else:
            names = (opcode.name for opcode in pickletools.opcodes if opcode.code == code.decode("latin1"))
            what = next(names, f"0x{code[0]:02x}")
            raise DataError(f"pickle instruction {what}, which no CIFAR file contains; not read")

    def _take(self, count: int) -> memoryview:
        if not 0 <= count <= len(self.content) - self.place:
            raise DataError(f"damaged or cut-short pickle: {count} bytes announced at byte {self.place}")
        self.place += count
        return self.content[self.place - count : self.place]

    def _number(self, kind: str) -> int:
        return int(struct.unpack(kind, self._take(struct.calcsize(kind)))[0])

    def _text(self, code: bytes) -> memoryview | str | int:
        """Bytes as they are: they may be an array's. Unicode is decoded, and LONG1 a number."""
        content = self._take(self._number(_LENGTHS[code]))
        if code == b"X":
            return str(content, "utf-8")
        return int.from_bytes(content, "little", signed=True) if code == b"\x8a" else content

    def _remember(self, code: bytes) -> None:
        index = self._number(_MEMO[code])
        if code in (b"h", b"j"):
            self.stack.append(self.memo[index])
        else:
            self.memo[index] = self.stack[-1]

    def _since_mark(self) -> list[Any]:
        mark = len(self.stack) - 1
        while self.stack[mark] is not _MARK:  # an IndexError where there is none
            mark -= 1
        items = self.stack[mark + 1 :]
        del self.stack[mark:]
        return items

    def _global(self) -> str:
        line = bytes(self.content[self.place : self.place + 200]).split(b"\n", 2)
        if len(line) < 3:
            raise DataError("damaged or cut-short pickle: a name that does not end")
        self.place += len(line[0]) + len(line[1]) + 2
        name = f"{line[0].decode('latin1')} {line[1].decode('latin1')}"
        if name not in (_RECONSTRUCT, _NDARRAY, _DTYPE):
            raise DataError(f"the pickle asks for {in_short(repr(name))}, which no CIFAR file contains; not read")
        return name


class _Name(NamedTuple):
    text: str


class _DType(NamedTuple):
    code: str


class _Array:
    values: np.ndarray | None = None

    def fill(self, state: tuple[Any, ...]) -> None:
        """The state of a numpy array: version, shape, type, whether in Fortran's order, bytes."""
        _, shape, dtype, fortran, content = state
        if not isinstance(dtype, _DType) or dtype.code != "u1" or fortran:
            raise DataError("an array that is not of unsigned bytes in C order")
        if not isinstance(shape, tuple) or len(shape) > 4 or not all(type(n) is int and n >= 0 for n in shape):
            raise DataError("an array whose shape is not up to four sizes")
        if math.prod(shape) != len(_the(memoryview, content)):
            raise DataError(f"an array of shape {in_short(shape)} with {len(content)} bytes")
        self.values = np.frombuffer(content, dtype=np.uint8).reshape(shape)


def _made(name: str, arguments: tuple[Any, ...]) -> _Array | _DType:
    """What stands for the result of calling one of numpy's functions."""
    if name == _RECONSTRUCT:
        return _Array()
    if name == _DTYPE:
        return _DType(_text(_the(memoryview, arguments[0])))
    raise DataError(f"the pickle calls {name}, which no CIFAR file does; not read")


def _the(kind: type[T], value: Any) -> T:
    if not isinstance(value, kind):
        raise TypeError(f"a {type(value).__name__.strip('_')} where a {kind.__name__.strip('_')} belongs")
    return value


def _key(value: Any) -> str:
    key = value if isinstance(value, str) else _text(_the(memoryview, value))
    if len(key) > _LONGEST_KEY:
        raise DataError(f"a key of {len(key)} characters, no CIFAR file has a longer one than {_LONGEST_KEY}")
    return key


def _text(content: memoryview) -> str:
    return str(content, "latin1")


def _plain(value: Any, where: str) -> Any:
    """An array, text, a number, or a list of the last two."""
    if isinstance(value, list):
        return [_atom(item, where) for item in value]
    if not isinstance(value, _Array):
        return _atom(value, where)
    if value.values is None:
        raise DataError(f"{where} is an array without content")
    return value.values


def _atom(value: Any, where: str) -> str | int | None:
    if isinstance(value, memoryview):
        if len(value) > _LONGEST_TEXT:  # the same text may be there a million times
            raise DataError(f"{where} holds a text of {len(value):,} characters, more than any CIFAR file does")
        return _text(value)
    if value is not None and not isinstance(value, str | int):
        raise DataError(f"{where} holds a {type(value).__name__.strip('_')}, which no CIFAR file does")
    return value
