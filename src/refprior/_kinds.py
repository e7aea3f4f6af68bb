"""Kinds and types of inputs. Plain Python, so that the command line can use it without torch."""

from typing import Literal, get_args

# What inputs show: a data set knows it, and default views are chosen by it.
Kind = Literal["digits", "photos", "objects", "vectors", "tokens"]
InputType = Literal["uint8", "int64", "float16", "bfloat16", "float32", "float64"]  # how inputs are stored
KINDS: tuple[Kind, ...] = get_args(Kind)


def noun(shape: tuple[int, ...]) -> str:
    """Return "image" for inputs that can be drawn, else "input"."""
    return "image" if len(shape) == 3 and shape[0] in (1, 3) else "input"
