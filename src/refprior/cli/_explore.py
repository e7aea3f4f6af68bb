"""`refprior explore`: a local web page for priors, training runs and labeling."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from refprior.cli._options import Custom, check_folder, whole


def explore(
    folder: Annotated[Path, Parameter(help="Folder of runs and sweeps to watch and label.")] = Path("runs"),
    /,
    *,
    port: Annotated[int, Parameter(converter=whole, show_default=False, help="Port to use. Default: a free one.")] = 0,
    browser: Annotated[bool, Parameter(help="Open the page in the browser.")] = True,
    allow_code: Annotated[
        bool, Parameter(help="Let the page run likelihoods typed in Python, with your permissions.", negative=())
    ] = False,
    custom: Custom = None,
    static: Annotated[
        Path | None,
        Parameter(help="Write the page with precomputed answers into this new folder and stop."),
    ] = None,
) -> None:
    """Open a local web page to explore priors, watch training runs, and label. Only this machine can reach it."""
    if not 0 <= port <= 65535:
        raise ValueError(f"port must be from 0 to 65535, got {port}")
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file: give the folder of your runs")
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        raise ValueError("the explorer needs starlette and uvicorn: pip install 'refprior[explore]'") from None
    if static is not None:
        from refprior._progress import working
        from refprior.explore import write_static

        check_folder(static)
        with working("computing answers") as progress:
            write_static(static, folder if folder.is_dir() else None, progress=progress)
        print(f"Written: {static / 'index.html'}")
        return
    import webbrowser

    from refprior.explore.server import Served

    served = Served(folder, port=port, allow_code=allow_code, custom=custom)
    private = "Press Ctrl-C to stop. Keep the address private: it contains the access token."
    print(f"Explore {folder}: {served.address}\n{private}", flush=True)
    if browser:
        webbrowser.open(served.address)
    served.run()
