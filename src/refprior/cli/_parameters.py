"""Options that several commands have, and reading what a person typed where the parser would be too kind."""

from collections.abc import Sequence
from pathlib import Path
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


Custom = Annotated[
    Path | None,
    Parameter(
        help="Python file that defines the run's custom network, method, inputs, views or task. The file is executed."
    ),
]


def custom_parts(folder: Path, file: Path | None) -> dict[str, Any]:
    """Return the custom parts of a run or saved predictor, by their recorded names in the file of --custom."""
    if file is None:
        return {}
    from refprior.recipes import definitions
    from refprior.training import custom_parts as read

    return read(folder, definitions(file))


Set = Annotated[
    list[str] | None,
    Parameter(
        name="--set",
        consume_multiple=True,
        negative=(),
        help="Change settings: NAME=VALUE …, for example labels=100 method=FixMatch method.threshold=0.9 steps=1000.",
    ),
]
RecipeName = Annotated[
    str, Parameter(help="Name of the recipe (`refprior recipes` lists them), or FILE.py:FUNCTION of your own.")
]
Seed = Annotated[
    int, Parameter(converter=whole, help="Seed of the split, the initial weights, the batches and the views.")
]
Data = Annotated[
    str | None,
    Parameter(
        help="Your own data in place of the recipe's: a folder of images, a .npz file, a .csv or .parquet table "
        "(--set task.target=COLUMN names its labels), or the name of a data set. All labels are used, or --set "
        "labels=N of them."
    ),
]
SourceData = Annotated[
    str | None,
    Parameter(
        help="Your own data to transfer from. Without them, choose from --data: "
        "--set source_classes=0,1 target_classes=2,3."
    ),
]
KindOfData = Annotated[
    Literal["digits", "photos", "objects", "vectors"] | None,
    Parameter(help="What your own data show; digits are never mirrored. Default: what the recipe is for."),
]


def settings_of(assignments: Sequence[str] | None) -> dict[str, str]:
    """Parse the NAME=VALUE assignments of --set."""
    settings: dict[str, str] = {}
    if assignments is not None and not assignments:
        raise ValueError("--set takes NAME=VALUE, got nothing")
    for assignment in assignments or []:
        name, equals, value = assignment.partition("=")
        if not (name and equals and value):
            raise ValueError(f"--set takes NAME=VALUE, got {assignment!r}")
        if name in settings:
            raise ValueError(f"--set gives {name} twice: {settings[name]} and {value}")
        settings[name] = value
    return settings
