"""What inputs show, as far as their views depend on it. Plain Python: data sets say it, views are chosen by it."""

from typing import Literal, get_args

Kind = Literal["digits", "photos", "objects", "vectors", "tokens"]
KINDS: tuple[Kind, ...] = get_args(Kind)
