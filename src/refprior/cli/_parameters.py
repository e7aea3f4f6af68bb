"""Options that several commands have, and reading what a person typed where the parser would be too kind."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from cyclopts import Parameter, Token

Device = Annotated[str, Parameter(help="Where to train: cpu, cuda, cuda:1, mps, …")]
Log = Annotated[
    list[Literal["csv", "tensorboard", "mlflow", "wandb"]] | None,
    Parameter(consume_multiple=True, negative=(), help="Log the records there too, besides metrics.jsonl."),
]


def whole(_: Any, tokens: Sequence[Token]) -> int:
    """An integer, refused where the parser would round: 2.5 tosses are a mistake."""
    text = tokens[0].value
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"must be a whole number, got {text}") from None
