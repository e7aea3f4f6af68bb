"""The explorer: a local web page to play with priors, watch trainings and label, and the same page without a server.

    refprior explore runs

The page is plain HTML, CSS and JavaScript in `page/`. It asks the server in `server.py`, which only this machine can
reach; a copy made by `write_static` reads files of answers in its place.
"""

from refprior.explore._static import write_static

__all__ = ["write_static"]
