"""The files of the page, by name."""

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
    """The content of a file of the page."""
    return files("refprior.explore").joinpath("page", name).read_bytes()
