"""The files of the page, and errors that the page handles specially."""

from importlib.resources import files

PAGE = {
    "index.html": "text/html",
    "style.css": "text/css",
    "ask.js": "text/javascript",
    "label.js": "text/javascript",
    "main.js": "text/javascript",
    "page.js": "text/javascript",
    "play.js": "text/javascript",
    "plot.js": "text/javascript",
    "watch.js": "text/javascript",
}


def page_bytes(name: str) -> bytes:
    """Read a file of the page."""
    return files("refprior.explore").joinpath("page", name).read_bytes()


class ConflictError(ValueError):
    """The request no longer fits the state of the run."""

    status = 409


class BusyError(ValueError):
    """Another process uses the folder; the request can be repeated."""

    status = 423
