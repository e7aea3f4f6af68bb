"""`refprior embed`: the particles of runs in the space of their predictions. Thin: parse, call, print."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

if TYPE_CHECKING:
    from refprior.training._snapshot import Film


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

    if not folders:
        raise ValueError("give at least one run folder")
    out = out or folders[0] / "embedding.html"
    films = [_film(path) for path in folders]
    print(f"drawing {sum(len(film.snapshots) for film in films)} snapshots …", file=sys.stderr)
    print(summary(write_embedding(films, out, picture, animation)))
    for path in filter(None, (out, picture, animation)):
        print(f"Written: {path} ({path.stat().st_size / 2**20:.1f} MB)")


def _film(path: Path) -> "Film":
    """The snapshots of a run, or what its checkpoints predict."""
    from refprior.recipes import again
    from refprior.training import _folder as folder
    from refprior.training import _snapshot as snapshot

    header = folder.read_header(path)
    film = snapshot.read(path)
    if film is not None:
        return film
    if header["origin"] is None:
        raise ValueError(
            f"{path} was trained from Python and kept no snapshots: train with Recipe(…, snapshots=20), or call "
            "refprior.report.write_embedding([refprior.training._snapshot.from_checkpoints(path, recipe)], out)"
        )
    print(f"{path} kept no snapshots: reading its checkpoints …", file=sys.stderr)
    return snapshot.from_checkpoints(path, again(header["origin"]))
