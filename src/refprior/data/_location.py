"""Where data sets are kept on this computer."""

import os
from pathlib import Path

from platformdirs import user_data_path


def data_folder() -> Path:
    """`REFPRIOR_DATA` where it is set, else the platform's folder for the data of programs.

    >>> from refprior.data import data_folder
    >>> data_folder().is_absolute()
    True
    """
    chosen = os.environ.get("REFPRIOR_DATA")
    return Path(chosen).expanduser() if chosen else user_data_path("refprior", appauthor=False)


def places(name: str, folder: str | Path | None) -> list[Path]:
    """Where to look for a data set, in this order: `folder`/name and `folder` itself."""
    root = Path(folder).expanduser() if folder is not None else data_folder()
    return [root / name, root]
