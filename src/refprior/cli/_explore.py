"""`refprior explore`: a page to play with priors, watch trainings and label. Thin: parse, call, print."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from refprior.cli._parameters import whole
from refprior.cli._paths import check_folder


def explore(
    folder: Annotated[Path, Parameter(help="Folder of runs and sweeps to watch and label.")] = Path("runs"),
    /,
    *,
    port: Annotated[int, Parameter(converter=whole, help="Port to listen on. Default: any that is free.")] = 0,
    browser: Annotated[bool, Parameter(help="Open the page in the browser.")] = True,
    allow_code: Annotated[
        bool, Parameter(help="Let the page run likelihoods that you type in Python, with your rights.", negative=())
    ] = False,
    static: Annotated[
        Path | None,
        Parameter(help="Write the page with answers that were computed beforehand into this new folder, and end."),
    ] = None,
) -> None:
    """Open a page in the browser: play with a prior, watch trainings, label. Only this machine can reach it."""
    if not 0 <= port <= 65535:
        raise ValueError(f"a port is a number from 0 to 65535, got {port}")
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file: give the folder of your runs")
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        raise ValueError("the explorer needs starlette and uvicorn: pip install 'refprior[explore]'") from None
    if static is not None:
        return _write(folder, static)
    return _serve(folder, port, browser, allow_code)


def _serve(folder: Path, port: int, browser: bool, allow_code: bool) -> None:
    import webbrowser

    from refprior.explore.server import Served

    served = Served(folder, port=port, allow_code=allow_code)
    print(
        f"Explore {folder}: {served.address}\nCtrl-C ends it. Keep the address to yourself: it holds the key.",
        flush=True,
    )
    if browser:
        webbrowser.open(served.address)
    served.run()


def _write(folder: Path, out: Path) -> None:
    from refprior._progress import working
    from refprior.explore import write_static

    check_folder(out)
    with working("computing answers") as tell:
        write_static(out, folder if folder.is_dir() else None, tell=tell)
    print(f"Written: {out / 'index.html'}")
