"""`refprior export`: a predictor as one graph, for programs without refprior. Thin: parse, call, print."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from refprior.cli._parameters import Custom, custom_parts
from refprior.cli._paths import check_file


def export(
    model: Annotated[Path, Parameter(help="Folder of a finished run, or of a saved predictor.")],
    /,
    *,
    out: Annotated[Path, Parameter(help="The file to write, for example model.onnx or model.pt2.")],
    kind: Annotated[
        Literal["onnx", "torch"],
        Parameter(name="--format", help="onnx, for ONNX runtimes; torch, for torch.export.load."),
    ] = "onnx",
    custom: Custom = None,
) -> None:
    """Write a trained model as one graph: inputs as they are stored, of any number, to probabilities."""
    from refprior._progress import working
    from refprior.training import export as write
    from refprior.training import load_predictor

    check_file(out)
    with working(f"writing {model} as a graph"):
        predictor = load_predictor(model, custom_parts(model, custom).get("network"))
        write(predictor, out, kind)
    print(f"Written: {out} ({out.stat().st_size / 2**20:.1f} MB)")
    kinds = f"{str(predictor.dtype).removeprefix('torch.')} {('n', *predictor.shape)}"
    print(f"inputs {kinds} → probabilities of {len(predictor.classes)} classes".replace("'", ""))
