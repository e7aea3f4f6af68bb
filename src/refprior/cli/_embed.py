"""`refprior embed`: the particles of runs in the space of their predictions. Thin: parse, call, print."""

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter


def embed(
    folders: Annotated[list[Path], Parameter(help="Run folders. Several are shown along the same axes.")],
    /,
    *,
    out: Annotated[Path | None, Parameter(help="The page to write. Default: embedding.html in the first run.")] = None,
    picture: Annotated[
        Path | None, Parameter(help="Also draw start, middle and end of the first run into this file (.png).")
    ] = None,
    animation: Annotated[
        Path | None, Parameter(help="Also write the spreading of the first run as a film into this file (.gif).")
    ] = None,
) -> None:
    """Write an interactive page of the particles of runs: a file that works without a network."""
    from refprior.report import write_embedding
    from refprior.report._embed import summary
    from refprior.training import film

    if not folders:
        raise ValueError("give at least one run folder")
    out = out or folders[0] / "embedding.html"
    films = [film(path) for path in folders]
    print(f"drawing {sum(len(found.snapshots) for found in films)} snapshots …", file=sys.stderr)
    print(summary(write_embedding(films, out, picture, animation)))
    for path in filter(None, (out, picture, animation)):
        print(f"Written: {path} ({path.stat().st_size / 2**20:.1f} MB)")
