"""`refprior predict`: the class of every file or row, with its uncertainty. Thin: parse, call, print."""

import csv
import io
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from cyclopts import Parameter

from refprior._words import counted, in_short, printable
from refprior.cli._parameters import Custom, custom_parts
from refprior.cli._paths import check_file
from refprior.cli._tables import print_table
from refprior.cli._words import one_line

if TYPE_CHECKING:
    from refprior._progress import Tell
    from refprior.training import Predictor

log = logging.getLogger("refprior")
_SHOWN = 20  # rows of the table in a terminal
_ROWS = 256  # inputs at a time: that often the progress is told
_HEAD = ("name", "class", "probability", "uncertainty_total", "uncertainty_between")


class Row(NamedTuple):
    """What is said of one input; uncertainty in nats."""

    name: str
    label: str
    probability: float
    total: float
    between: float


class Source(NamedTuple):
    """Inputs of one kind with their names."""

    path: Path
    names: Sequence[str]
    inputs: Any  # files, or a tensor

    def part(self, rows: slice) -> "Source":
        return Source(self.path, self.names[rows], self.inputs[rows])


def predict(
    model: Annotated[Path, Parameter(help="Folder of a finished run, or of a saved predictor.")],
    inputs: Annotated[
        list[Path],
        Parameter(help="Images, folders of images (searched to their depth), .npz files of arrays, .csv or .parquet."),
    ],
    /,
    *,
    out: Annotated[
        Path | None, Parameter(help="The table to write, .csv or .json. Default: the first 20 rows are printed.")
    ] = None,
    keep_going: Annotated[
        bool, Parameter(help="Skip files that cannot be read, and list them at the end.", negative=())
    ] = False,
    device: Annotated[str, Parameter(help="Where to compute: cpu, cuda, cuda:1, mps, …")] = "cpu",
    custom: Custom = None,
) -> None:
    """Predict the class of every input: its name, class, probability, and uncertainty in nats, total and between.

    The rows of a table or array are called by their number, from 0; those of several files, FILE:NUMBER. Columns are
    found by their names if the model knows names; else all columns are taken in their order.
    """
    from refprior._progress import working
    from refprior.training import load_predictor

    check_file(out)
    if out is not None and out.suffix.lower() not in (".csv", ".json"):
        raise ValueError(f"predictions are written as .csv or .json, got {out.name}")
    skipped: list[str] = []
    with working(f"predicting with {model}") as tell:
        predictor = load_predictor(model, custom_parts(model, custom).get("network"), device)
        refuse = _skipping(skipped) if keep_going else None
        sources = list(_sources(inputs, predictor, refuse))
        rows = list(islice(_rows(predictor, sources, refuse, tell), None if out else _SHOWN))
        if out is not None:
            _write(out, rows)
    _conclude(rows, sum(len(source.names) for source in sources), out)
    if skipped:
        print(printable(f"Skipped {counted(len(skipped), 'file')}: {'; '.join(skipped)}"))


Refuse = Callable[[Path, ValueError], None]


def _skipping(skipped: list[str]) -> Refuse:
    def skip(path: Path, error: ValueError) -> None:
        said = one_line(error)
        skipped.append(said if str(path) in said else f"{path}: {said}")

    return skip


def _sources(paths: list[Path], predictor: "Predictor", refuse: Refuse | None) -> Iterator[Source]:
    """What the paths hold, in their order."""
    several = len(paths) > 1
    for path in paths:
        try:
            yield _source(path, predictor, several)
        except ValueError as error:
            if refuse is None:
                raise
            refuse(path, error)


def _source(path: Path, predictor: "Predictor", several: bool) -> Source:
    from refprior.data.files import TABLE_SUFFIXES, in_words, naming, pictures_in, read_table

    if path.is_dir():
        files, others = pictures_in(path)
        if not files:
            there = f": {in_words(others)}" if others else ", which is empty"
            raise ValueError(f"{path}: no images in this folder{there}")
        if others:
            log.warning("%s: left out %s", path, in_words(others))
        return _pictures(path, files, predictor)
    if not path.is_file():
        raise ValueError(f"{path}: there is no such file or folder")
    if path.suffix.lower() not in (".npz", *TABLE_SUFFIXES):
        return _pictures(path, [path], predictor)
    with naming(path):
        values = _array(path, predictor) if path.suffix.lower() == ".npz" else _matrix(read_table(path), predictor)
        inputs = predictor.like.tensor(values)
    return Source(path, [f"{path}:{row}" if several else str(row) for row in range(len(inputs))], inputs)


def _pictures(path: Path, files: list[Path], predictor: "Predictor") -> Source:
    if not predictor.like.pictures:
        raise ValueError(
            f"{files[0]}: the model takes inputs of {predictor.shape}, not pictures: give a .csv, .parquet or .npz file"
        )
    return Source(path, [str(file) for file in files], files)


def _array(path: Path, predictor: "Predictor") -> Any:
    """The array of inputs in a .npz file; images may be without channels, or have them last."""
    from refprior.data.files import array_names, channels_first, load_arrays

    names = array_names(path)
    name = next((n for n in ("images", "inputs") if n in names), names[0] if len(names) == 1 else None)
    if name is None:
        raise ValueError(f"it has the arrays {in_short(', '.join(names))}: call one of them images or inputs")
    values = load_arrays(path, (name,))[name]
    return channels_first(values) if predictor.like.pictures and values.shape[1:] != predictor.shape else values


def _matrix(table: Any, predictor: "Predictor") -> Any:
    """The columns of a table that the model knows by name, or all."""
    import numpy as np

    names = predictor.features or table.columns
    values = table.matrix(names)
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        row, column = bad[0]
        raise ValueError(f"column {names[column]!r} is empty or not finite in row {row}")
    return predictor.like.whole(values)


def _rows(predictor: "Predictor", sources: list[Source], refuse: Refuse | None, tell: "Tell") -> Iterator[Row]:
    done, total = 0, sum(len(source.names) for source in sources)
    for source in sources:
        for start in range(0, len(source.names), _ROWS):
            part = source.part(slice(start, start + _ROWS))
            yield from _block(predictor, part, refuse)
            done += len(part.names)
            tell("predicting", done, total)


def _block(predictor: "Predictor", source: Source, refuse: Refuse | None) -> Iterator[Row]:
    """The rows of some inputs. If one file is bad, all are read one by one, to leave out only that."""
    try:
        yield from _predicted(predictor, source)
    except ValueError as error:
        if refuse is None or not isinstance(source.inputs, list):
            raise
        if len(source.inputs) == 1:
            refuse(source.inputs[0], error)
            return
        for number in range(len(source.names)):
            yield from _block(predictor, source.part(slice(number, number + 1)), refuse)


def _predicted(predictor: "Predictor", source: Source) -> list[Row]:
    from refprior.data.files import naming
    from refprior.posterior import uncertainty

    with naming(source.path):
        log_p = predictor.log_probabilities(source.inputs)
    probability, best = predictor.mix(log_p).exp().max(-1)
    split = uncertainty(log_p, predictor.log_posterior.to(log_p.device))
    numbers = zip(probability.tolist(), split.total.tolist(), split.between.tolist(), strict=True)
    labels = (predictor.classes[index] for index in best.tolist())
    return [Row(name, label, *three) for name, label, three in zip(source.names, labels, numbers, strict=True)]


def _write(path: Path, rows: list[Row]) -> None:
    from refprior._files import write_text

    if path.suffix.lower() == ".json":
        records = [dict(zip(_HEAD, row, strict=True)) for row in rows]
        write_text(path, json.dumps(records, indent=1, ensure_ascii=False) + "\n")
        return
    text = io.StringIO(newline="")
    csv.writer(text).writerows([_HEAD, *((*row[:2], *(f"{value:.6g}" for value in row[2:])) for row in rows)])
    write_text(path, text.getvalue())


def _conclude(rows: list[Row], total: int, out: Path | None) -> None:
    if out is not None:
        print(f"{counted(len(rows), 'prediction')}: {out}")
        return
    print_table([_HEAD, *((*row[:2], *(f"{value:.3f}" for value in row[2:])) for row in rows)], keys=2)
    if total > len(rows) == _SHOWN:
        print(f"The first {len(rows)} of {counted(total, 'input')}; --out predictions.csv writes all.")
