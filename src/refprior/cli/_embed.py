"""`refprior embed`: the particles of runs in the space of their predictions. Thin: parse, call, print."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from refprior._words import printable
from refprior.cli._parameters import Custom, custom_parts
from refprior.cli._paths import check_file
from refprior.cli._words import wrapped


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
    custom: Custom = None,
) -> None:
    """Write an interactive page of the particles of runs: a file that works without a network."""
    from refprior._progress import working
    from refprior.report import summary, write_embedding
    from refprior.training import film

    if not folders:
        raise ValueError("give at least one run folder")
    out = out or folders[0] / "embedding.html"
    if folders[0].is_dir():  # else the reading says what is wrong with it
        check_file(out, picture, animation)
    with working("reading snapshots") as tell:
        films = [film(path, **custom_parts(path, custom)) for path in folders]
        seen = write_embedding(films, out, picture, animation, tell)
    print(wrapped(printable(summary(seen))))
    for path in filter(None, (out, picture, animation)):
        print(f"Written: {path} ({path.stat().st_size / 2**20:.1f} MB)")
