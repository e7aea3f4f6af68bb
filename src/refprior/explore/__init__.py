"""The explorer: a local web page to explore priors, watch training runs and label inputs.

    refprior explore runs

The page is plain HTML, CSS and JavaScript in `page/`. It queries the server in `server.py`, which only this machine can
reach. A copy made by `write_static` reads files with precomputed answers instead.
"""

from refprior.explore._static import write_static

__all__ = ["write_static"]
