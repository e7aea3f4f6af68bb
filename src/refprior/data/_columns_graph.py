"""Columns of a table as the first part of an ONNX graph."""

# n rows

from collections.abc import Iterator
from typing import Any

import numpy as np

from refprior.data._columns import Category, Columns, Date, Number, Text

_OUTPUT = "prepared numbers"
_ML = "ai.onnx.ml"
_ML_VERSION = 3


def with_columns(model: Any, columns: Columns, inputs: str) -> Any:
    """Put the preparation of columns before a graph with these inputs; the graph itself if a column holds text.

    Then each column is an input (n,): numbers, and dates as days since 1970, as doubles with NaN for missing ones, and
    categories as strings with "" for missing ones.
    """
    import onnx
    from onnx import TensorProto, helper

    nodes, features, places = [], [], []
    for place, column in enumerate(columns.columns):
        if isinstance(column, Text):
            return model
        kind = TensorProto.STRING if isinstance(column, Category) else TensorProto.DOUBLE
        places.append(helper.make_tensor_value_info(column.name, kind, ["rows"]))
        found = list(_category(column, place) if isinstance(column, Category) else _numbers(column, place))
        nodes += found
        features.append(found[-1].output[0])
    nodes.append(helper.make_node("Concat", features, [_OUTPUT], axis=1))
    output = helper.make_tensor_value_info(_OUTPUT, TensorProto.FLOAT, ["rows", len(columns.features)])
    opsets = [*model.opset_import, helper.make_opsetid(_ML, _ML_VERSION)]
    graph = helper.make_graph(nodes, "columns", places, [output])
    first = helper.make_model(graph, opset_imports=opsets, ir_version=model.ir_version)
    return onnx.compose.merge_models(first, model, io_map=[(_OUTPUT, inputs)])


def _constant(name: str, values: Any) -> Any:
    from onnx import helper, numpy_helper

    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.asarray(values)))


def _stacked(place: int, parts: list[str]) -> Iterator[Any]:
    """Place parts (n,) side by side as floats (n, F)."""
    from onnx import TensorProto, helper

    name = f"column {place}"
    yield _constant(f"{name} axis", np.array([1]))
    for part in parts:
        yield helper.make_node("Cast", [part], [f"{part} float"], to=TensorProto.FLOAT)
        yield helper.make_node("Unsqueeze", [f"{part} float", f"{name} axis"], [f"{part} column"])
    yield helper.make_node("Concat", [f"{part} column" for part in parts], [f"{name} features"], axis=1)


def _numbers(column: Number | Date, place: int) -> Iterator[Any]:
    """Numbers, or days with places in the year, the week and the day: as `Number` and `Date` compute them."""
    from onnx import helper

    name = f"column {place}"
    yield helper.make_node("IsNaN", [column.name], [f"{name} missing"])
    yield _constant(f"{name} median", column.median)
    yield helper.make_node("Where", [f"{name} missing", f"{name} median", column.name], [f"{name} filled"])
    parts = [f"{name} filled"]
    if isinstance(column, Date):
        yield helper.make_node("Sub", [f"{name} filled", f"{name} median"], [f"{name} days"])
        parts = [f"{name} days"]
        for period in column.periods:
            turn = f"{name} turn {period}"
            yield _constant(f"{turn} period", period)
            yield _constant(f"{turn} rate", 2 * np.pi / period)
            yield helper.make_node("Mod", [f"{name} filled", f"{turn} period"], [f"{turn} part"], fmod=1)
            yield helper.make_node("Mul", [f"{turn} part", f"{turn} rate"], [turn])
            yield helper.make_node("Sin", [turn], [f"{turn} sine"])
            yield helper.make_node("Cos", [turn], [f"{turn} cosine"])
            parts += [f"{turn} sine", f"{turn} cosine"]
    yield from _stacked(place, [*parts, *([f"{name} missing"] if column.missing else [])])


def _category(column: Category, place: int) -> Iterator[Any]:
    """Indicators of the values: as `Category` computes them."""
    from onnx import TensorProto, helper

    name = f"column {place}"
    known = {value or "": number for value, number in column.places.items()}
    absent = {} if column.missing else {"": -1}
    yield helper.make_node(
        "LabelEncoder",
        [column.name],
        [f"{name} place"],
        domain=_ML,
        keys_strings=[*known, *absent],
        values_int64s=[*known.values(), *absent.values()],
        default_int64=column.other,
    )
    yield _constant(f"{name} axis", np.array([1]))
    yield _constant(f"{name} values", np.arange(len(column.features)))
    yield helper.make_node("Unsqueeze", [f"{name} place", f"{name} axis"], [f"{name} one"])
    yield helper.make_node("Equal", [f"{name} one", f"{name} values"], [f"{name} equal"])
    yield helper.make_node("Cast", [f"{name} equal"], [f"{name} features"], to=TensorProto.FLOAT)
