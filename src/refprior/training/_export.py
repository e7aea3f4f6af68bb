"""A predictor as one graph, from stored inputs to probabilities: for ONNX runtimes, or for torch without refprior."""

# K particles, n inputs, C classes

import io
import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

from refprior._checks import one_of
from refprior._files import write_bytes
from refprior._words import in_bytes, in_short
from refprior.data import Backbone, Columns, preparation_record, with_columns
from refprior.methods import split_heads
from refprior.training._predictor import Predictor, without_places

Graph = Literal["onnx", "torch"]
INPUTS, PROBABILITIES = "inputs", "probabilities"
_LARGEST = 2**31 - 1  # bytes that one ONNX file can hold


def export(predictor: Predictor, path: Path | str, kind: Graph = "onnx") -> None:
    """Export a predictor as one graph, from stored inputs to probabilities.

    The graph maps inputs `(n, *shape)` to probabilities (n, C) for any n. It includes the fitted inputs, all particles,
    their mixture, temperature and class shares. A model of photos takes images of bytes (n, 3, size, size) and includes
    the pretrained network. An ONNX model of a table takes each column (n,): numbers, and dates as days since 1970, as
    doubles with NaN for missing ones, and categories as strings with "" for missing ones. With columns of text, and in
    a torch graph, it takes the numbers that ``predictor.preparation`` makes of rows. Class names, the record of the
    preparation and provenance are metadata, without the folders of this machine.

    Parameters
    ----------
    predictor : Predictor
        The model.
    path : Path or str
        The file.
    kind : {"onnx", "torch"}, default: "onnx"
        An ONNX file, or one for ``torch.export.load``.

    Raises
    ------
    ValueError
        If the network cannot be written as a graph, or if ONNX is not installed.

    Examples
    --------
    >>> import torch
    >>> import refprior as rp
    >>> run = rp.train(rp.recipes.override(rp.recipes.digits_ssl(), {"steps": 2}))
    >>> rp.training.export(run.predictor(), "digits.pt2", "torch")
    >>> graph = torch.export.load("digits.pt2").module()
    >>> tuple(graph(run.task.test.inputs[:5]).shape)
    (5, 10)
    """
    one_of("kind", kind, ("onnx", "torch"))
    if kind == "onnx":
        _check_onnx(predictor)
    whole = _Whole(predictor).to("cpu").eval()
    backbone = predictor.preparation if isinstance(predictor.preparation, Backbone) else None
    if backbone is None:
        inputs = torch.zeros(3, *predictor.shape, dtype=predictor.dtype)
    else:
        inputs = torch.zeros(3, 3, backbone.side, backbone.side, dtype=torch.uint8)
    known = {
        "classes": predictor.classes,
        "features": predictor.features,
        "preparation": preparation_record(predictor.preparation),
        "provenance": without_places(dict(predictor.provenance)),
    }
    metadata = {name: json.dumps(value, ensure_ascii=False) for name, value in known.items()}
    with _from_others(), torch.no_grad():
        program = torch.export.export(whole, (inputs,), dynamic_shapes=({0: torch.export.Dim("rows", min=1)},))

    if kind == "torch":
        buffer = io.BytesIO()  # torch aborts the process if it writes to a full disk itself
        with _from_others():
            torch.export.save(program, buffer, extra_files=cast(dict[str, Any], metadata))
        write_bytes(Path(path), buffer.getvalue())
        return
    with _from_others():
        translated = torch.onnx.export(
            program, dynamo=True, verbose=False, input_names=[INPUTS], output_names=[PROBABILITIES]
        )
        model = cast(Any, translated).model_proto
        if isinstance(predictor.preparation, Columns):
            model = with_columns(model, predictor.preparation, INPUTS)
    for name, text in metadata.items():
        model.metadata_props.add(key=name, value=text)
    write_bytes(Path(path), model.SerializeToString())


class _Whole(nn.Module):
    """The predictor as an ordinary module: K networks one after another, and the mixture of their outputs."""

    def __init__(self, predictor: Predictor) -> None:
        super().__init__()
        self.networks = nn.ModuleList(predictor.particles.particle(k) for k in range(predictor.particles.count))
        self.predictor = predictor
        self.backbone = predictor.preparation.graph() if isinstance(predictor.preparation, Backbone) else None

    def forward(self, inputs: Tensor) -> Tensor:
        """(n, *shape) -> (n, C) probabilities."""
        if self.backbone is not None:
            inputs = self.backbone(inputs)
        seen = self.predictor.normalizer(inputs)
        logits = torch.stack([network(seen) for network in self.networks])
        log_p = (logits.float() if logits.element_size() < 4 else logits).log_softmax(-1)
        return self.predictor.mix(split_heads(log_p, len(self.predictor.classes))[0]).exp()


def _check_onnx(predictor: Predictor) -> None:
    missing = [name for name in ("onnx", "onnxscript") if find_spec(name) is None]
    if missing:
        raise ValueError(f"ONNX needs {missing[0]}, which is not installed: pip install 'refprior[onnx]'")
    size = sum(tensor.numel() * tensor.element_size() for tensor in predictor.particles.state_dict().values())
    if size > _LARGEST:
        raise ValueError(f"the particles take {in_bytes(size)}, and one ONNX file holds 2 GB: write kind='torch'")


@contextmanager
def _from_others() -> Iterator[None]:
    """Silence deprecation warnings of torch and onnx; raise a ValueError for what they cannot write."""
    log = logging.getLogger("torch.onnx._internal.exporter._registration")  # of packages that are not installed
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            for category in (DeprecationWarning, FutureWarning):
                warnings.simplefilter("ignore", category)
            yield
    except (MemoryError, OSError):
        raise
    except Exception as error:  # of any kind, depending on what a user's network does
        raise ValueError(f"the network cannot be written as a graph: {in_short(error)}") from error
    finally:
        log.setLevel(before)
