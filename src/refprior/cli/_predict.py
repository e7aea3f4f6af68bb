"""`refprior predict` and `refprior export`: use a trained model."""

import csv
import io
import json
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from cyclopts import Parameter

from refprior._words import counted, harmless, in_short, printable
from refprior.cli._ending import one_line
from refprior.cli._options import Custom, Device, Model, check_file, custom_parts
from refprior.cli._tables import print_table

if TYPE_CHECKING:
    import numpy as np

    from refprior._progress import Progress
    from refprior.training import Predictor

log = logging.getLogger("refprior")
_SHOWN = 20  # rows of the table in a terminal
_ROWS, _FILES = 256, 64  # inputs per progress update
Skip = Callable[[Path, ValueError], None]  # notes an unreadable file
_HEAD = ("name", "class", "probability", "uncertainty_total", "uncertainty_between")


class Row(NamedTuple):
    """The prediction for one input; uncertainties in nats."""

    name: str
    label: str
    probability: float
    total: float
    between: float


class Source(NamedTuple):
    """The inputs of one path with their names."""

    path: Path
    names: Sequence[str]
    inputs: Any  # files, or a tensor

    def part(self, rows: slice) -> "Source":
        return Source(self.path, self.names[rows], self.inputs[rows])


def predict(
    model: Model,
    inputs: Annotated[
        list[Path],
        Parameter(help="Images, folders of images (searched recursively), .npz files, or .csv or .parquet tables."),
    ],
    /,
    *,
    out: Annotated[
        Path | None,
        Parameter(
            allow_leading_hyphen=True,
            help="Table to write, .csv or .json, or - for csv on standard output. Default: print the first 20 rows.",
        ),
    ] = None,
    keep_going: Annotated[bool, Parameter(help="Skip unreadable files and list them at the end.", negative=())] = False,
    device: Device = "cpu",
    custom: Custom = None,
) -> None:
    """Predict the class, probability and uncertainty of every input.

    Uncertainty is in nats: in total, and the part on which the particles disagree (between). Rows of a table or array
    are named by their number from 0, or FILE:NUMBER with several files. If the model has feature names, columns are
    found by name; otherwise all columns are used in order.
    """
    streamed = out == Path("-")
    check_file(None if streamed else out)
    if out is not None and not streamed and out.suffix.lower() not in (".csv", ".json"):
        raise ValueError(f"predictions must be .csv or .json, got {out.name}")
    for path in inputs:  # before torch is imported
        if not path.exists() and not keep_going:
            raise ValueError(f"{path}: no such file or folder")

    from refprior._progress import working
    from refprior.training import load_predictor

    skipped: list[str] = []

    def note(path: Path, error: ValueError) -> None:
        said = one_line(error)
        skipped.append(said if str(path) in said else f"{path}: {said}")

    with working(f"predicting with {model}") as progress:
        predictor = load_predictor(model, custom_parts(model, custom).get("network"), device)
        skip = note if keep_going else None
        sources = list(_sources(inputs, predictor, skip))
        rows = list(islice(_rows(predictor, sources, skip, progress), None if out else _SHOWN))
        if out is not None and not streamed:
            _write(out, rows)
    if streamed:
        sys.stdout.write(_csv(rows))
    total = sum(len(source.names) for source in sources)
    if out is not None:
        if not streamed:
            print(f"{counted(len(rows), 'prediction')}: {out}")
    else:
        print_table([_HEAD, *((*row[:2], *(f"{value:.3f}" for value in row[2:])) for row in rows)], keys=2)
    if out is None and total > len(rows) == _SHOWN:
        print(f"Showing the first {len(rows)} of {counted(total, 'input')}; --out predictions.csv writes all.")
    if skipped:
        where = sys.stderr if streamed else sys.stdout
        print(printable(f"Skipped {counted(len(skipped), 'file')}: {'; '.join(skipped)}"), file=where)


def _sources(paths: list[Path], predictor: "Predictor", skip: Skip | None) -> Iterator[Source]:
    """Yield the inputs of each path, in order."""
    several = len(paths) > 1
    for path in paths:
        try:
            yield _source(path, predictor, several)
        except ValueError as error:
            if skip is None:
                raise
            skip(path, error)


def _source(path: Path, predictor: "Predictor", several: bool) -> Source:
    from refprior.data.files import TABLE_SUFFIXES, in_words, naming, pictures_in

    if path.is_dir():
        files, others = pictures_in(path)
        if not files:
            there = f": {in_words(others)}" if others else ", which is empty"
            raise ValueError(f"{path}: no images in this folder{there}")
        if others:
            log.warning("%s: skipped %s", path, in_words(others))
        return _pictures(path, files, predictor)
    if not path.is_file():
        raise ValueError(f"{path}: no such file or folder")
    if path.suffix.lower() not in (".npz", *TABLE_SUFFIXES):
        return _pictures(path, [path], predictor)
    with naming(path):
        values = _array(path, predictor) if path.suffix.lower() == ".npz" else _matrix(path, predictor)
        inputs = predictor.like.tensor(values)
    return Source(path, [f"{path}:{row}" if several else str(row) for row in range(len(inputs))], inputs)


def _pictures(path: Path, files: list[Path], predictor: "Predictor") -> Source:
    if not predictor.like.pictures:
        raise ValueError(
            f"{files[0]}: the model takes inputs of {predictor.shape}, not pictures: give a .csv, .parquet or .npz file"
        )
    return Source(path, [str(file) for file in files], files)


def _array(path: Path, predictor: "Predictor") -> "np.ndarray":
    """Read the inputs in a .npz file; images may have no channels, or channels last."""
    from refprior.data.files import array_names, channels_first, load_arrays

    names = array_names(path)
    name = next((n for n in ("images", "inputs") if n in names), names[0] if len(names) == 1 else None)
    if name is None:
        raise ValueError(f"the file has the arrays {in_short(', '.join(names))}: call one of them images or inputs")
    values = load_arrays(path, (name,))[name]
    return (
        channels_first(values)
        if predictor.like.pictures and values.ndim > 2 and values.shape[1:] != predictor.shape
        else values
    )


def _matrix(path: Path, predictor: "Predictor") -> "np.ndarray":
    """Return the columns of a table that the model names, or all."""
    import numpy as np

    from refprior.data import Columns
    from refprior.data.files import read_table

    columns = predictor.preparation
    if predictor.like.pictures:
        raise ValueError("the model takes pictures, not a table: give image files, folders of them, or a .npz file")
    if isinstance(columns, Columns):
        return columns(read_table(path, columns.text_columns))
    table = read_table(path)
    names = predictor.features or table.columns
    values = table.matrix(names)
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        row, column = bad[0]
        raise ValueError(f"column {names[column]!r} is empty or not finite in row {row}")
    return predictor.like.whole(values)


def _rows(predictor: "Predictor", sources: list[Source], skip: Skip | None, progress: "Progress") -> Iterator[Row]:
    done, total = 0, sum(len(source.names) for source in sources)
    for source in sources:
        rows = _FILES if isinstance(source.inputs, list) else _ROWS
        for start in range(0, len(source.names), rows):
            part = source.part(slice(start, start + rows))
            yield from _block(predictor, part, skip)
            done += len(part.names)
            progress("predicting", done, total)


def _block(predictor: "Predictor", source: Source, skip: Skip | None) -> Iterator[Row]:
    """Predict some inputs. If a file is unreadable, try them one by one to skip only that file."""
    import torch

    from refprior.data.files import naming
    from refprior.posterior import uncertainty

    try:
        with naming(source.path):
            log_p = torch.as_tensor(predictor.log_probabilities(source.inputs))
        probability, best = predictor.mix(log_p).exp().max(-1)
        split = uncertainty(log_p, predictor.log_posterior.to(log_p.device))
        labels = [predictor.classes[index] for index in best.tolist()]
        numbers = (values.tolist() for values in (probability, split.total, split.between))
        yield from map(Row, source.names, labels, *numbers)
    except ValueError as error:
        if not isinstance(source.inputs, list):
            raise
        if skip is None:
            raise ValueError(f"{one_line(error)}; --keep-going skips unreadable files") from None
        if len(source.inputs) == 1:
            skip(source.inputs[0], error)
            return
        for number in range(len(source.names)):
            yield from _block(predictor, source.part(slice(number, number + 1)), skip)


def _write(path: Path, rows: list[Row]) -> None:
    from refprior._files import write_text

    if path.suffix.lower() == ".json":
        records = [dict(zip(_HEAD, row, strict=True)) for row in rows]
        write_text(path, json.dumps(records, indent=1, ensure_ascii=False) + "\n")
        return
    write_text(path, _csv(rows))


def _csv(rows: list[Row]) -> str:
    """Return predictions as csv, with names that no spreadsheet takes for a formula."""
    text = io.StringIO(newline="")
    lines = ((*map(harmless, row[:2]), *(f"{value:.6g}" for value in row[2:])) for row in rows)
    csv.writer(text).writerows([_HEAD, *lines])
    return text.getvalue()


def export(
    model: Model,
    /,
    *,
    out: Annotated[Path, Parameter(help="File to write, for example model.onnx or model.pt2.")],
    kind: Annotated[
        Literal["onnx", "torch"],
        Parameter(name="--format", help="onnx for ONNX runtimes, torch for torch.export.load."),
    ] = "onnx",
    custom: Custom = None,
) -> None:
    """Export a trained model as one graph, from raw inputs to class probabilities, for use without refprior."""
    from refprior._progress import working
    from refprior.data import Backbone, Columns
    from refprior.training import export as write
    from refprior.training import load_predictor

    check_file(out)
    with working(f"writing {model} as a graph"):
        predictor = load_predictor(model, custom_parts(model, custom).get("network"))
        write(predictor, out, kind)
    print(f"Written: {out} ({out.stat().st_size / 2**20:.1f} MB)")
    kinds = f"{str(predictor.dtype).removeprefix('torch.')} {('n', *predictor.shape)}"
    if isinstance(predictor.preparation, Backbone):
        side = predictor.preparation.side
        kinds = f"uint8 (n, 3, {side}, {side})"
    columns = predictor.preparation
    if kind == "onnx" and isinstance(columns, Columns) and "text" not in columns.kinds:
        kinds = f"(n,) each: {columns.kinds}"
    print(f"inputs {kinds} → probabilities of {len(predictor.classes)} classes".replace("'", ""))
