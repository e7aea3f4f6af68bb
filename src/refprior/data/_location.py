"""Where data sets lie on this computer."""

import os
import sys
from pathlib import Path


def data_folder() -> Path:
    """`REFPRIOR_DATA` where it is set, else the place that the platform keeps for programs' data."""
    chosen = os.environ.get("REFPRIOR_DATA")
    if chosen:
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "refprior"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "refprior"
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "refprior"


def places(name: str, folder: str | Path | None) -> list[Path]:
    """Where to look for a data set, in this order: `folder`/name and `folder` itself."""
    root = Path(folder).expanduser() if folder is not None else data_folder()
    return [root / name, root]
