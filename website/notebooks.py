"""Pages that are programs: a script with Markdown in its comments -> a notebook -> the notebook with its outputs.

    python -m website.notebooks [NAME …]        # run those whose outputs are missing or out of date

A script has cells, as Jupytext and many editors know them:

    # %% [markdown]                     text, a Markdown comment
    # %%                                code; what it prints and its last line are shown
    # %% figure: what it shows          code that is folded away on the page; its picture has that description

Executed notebooks are kept in build/notebooks, with a key of the script, of all of refprior's code and of the packages
below it: the tests and the site run each of them once between them.
"""

import functools
import hashlib
import importlib.metadata
import os
import re
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import nbformat
from jupyter_client.provisioning.factory import KernelProvisionerFactory
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from website import kernels

ROOT = Path(__file__).parents[1]
SECTIONS = ("learn", "gallery")
KEPT = ROOT / "build" / "notebooks"
CELL = re.compile(r"^# %%[ ]*(.*)$", re.MULTILINE)
FIGURE = "figure: "
CODE = {".py", ".html", ".css", ".js"}
SECONDS = 300  # for one cell
INLINE = "module://matplotlib_inline.backend_inline"
KERNEL_CONFIG = """
c.InlineBackend.figure_formats = ["retina"]
c.InlineBackend.rc = {}
c.IPKernelApp.log_level = "ERROR"
"""


@dataclass(frozen=True)
class Script:
    """A file of docs/learn or docs/gallery."""

    path: Path

    @property
    def name(self) -> str:
        """As the site calls it: `gallery/digits`."""
        return f"{self.path.parent.name}/{self.path.stem}"

    @property
    def kept(self) -> Path:
        """Where its executed notebook is."""
        return KEPT / f"{self.name}.ipynb"

    @property
    def key(self) -> str:
        """What its outputs depend on: the script, refprior, and what refprior stands on."""
        return hashlib.sha256(self.path.read_bytes() + key_of_code().encode()).hexdigest()


def scripts() -> list[Script]:
    """All of them."""
    return [Script(path) for section in SECTIONS for path in sorted((ROOT / "docs" / section).glob("*.py"))]


@functools.cache
def key_of_code() -> str:
    """Another text whenever refprior has changed, or one of the packages that it computes and draws with."""
    sources = sorted(path for path in (ROOT / "src" / "refprior").rglob("*") if path.suffix in CODE)
    packages = ("matplotlib", "numpy", "scikit-learn", "scipy", "torch")
    versions = " ".join([sys.version, *map(importlib.metadata.version, packages)]).encode()
    return hashlib.sha256(b"".join([versions, *(source.read_bytes() for source in sources)])).hexdigest()


def notebook(text: str) -> NotebookNode:
    """A script as a notebook that has not run yet."""
    head, *parts = CELL.split(text)
    if head.strip() or not parts:
        raise ValueError("a script begins with a line '# %% [markdown]'")
    cells = [_cell(number, *pair) for number, pair in enumerate(zip(parts[::2], parts[1::2], strict=True))]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    made: NotebookNode = new_notebook(cells=cells, metadata=metadata)
    return made


def _cell(number: int, title: str, body: str) -> NotebookNode:
    if title == "[markdown]":
        text = re.sub(r"(?m)^# ?", "", body.strip("\n"))
        words: NotebookNode = new_markdown_cell(text, id=f"cell-{number}")
        return words
    if title and not title.startswith(FIGURE):
        raise ValueError(f"a cell is '# %%', '# %% [markdown]' or '# %% {FIGURE}…', got '# %% {title}'")
    metadata = {"figure": title.removeprefix(FIGURE)} if title else {}
    code: NotebookNode = new_code_cell(body.strip("\n"), id=f"cell-{number}", metadata=metadata)
    return code


def execute(script: Script) -> NotebookNode:
    """Run a script's notebook from top to bottom in an empty folder, and keep it; a word on stderr is an error."""
    found = notebook(script.path.read_text())
    with tempfile.TemporaryDirectory() as folder:
        profile = Path(folder, "ipython", "profile_default")
        profile.mkdir(parents=True)
        (profile / "ipython_kernel_config.py").write_text(KERNEL_CONFIG)
        work = Path(folder, "work")
        work.mkdir()
        threads = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
        environment = {**os.environ, **threads, "IPYTHONDIR": str(profile.parent), "MPLBACKEND": INLINE}
        client = NotebookClient(found, timeout=SECONDS, resources={"metadata": {"path": str(work)}})
        KernelProvisionerFactory.instance().default_provisioner_name = kernels.NAME
        client.execute(env=environment)
    for cell in found.cells:
        cell.metadata.pop("execution", None)  # times: not the same from run to run
    complaints = [o.text for cell in found.cells for o in cell.get("outputs", []) if o.get("name") == "stderr"]
    if complaints:
        raise RuntimeError(f"{script.name} says on stderr: {complaints[0].strip()}")
    found.metadata["refprior"] = {"key": script.key}
    script.kept.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(found, script.kept)
    return found


def executed(script: Script) -> NotebookNode | None:
    """The notebook with its outputs, if it has been run as it is now."""
    if not script.kept.exists():
        return None
    found = nbformat.read(script.kept, as_version=4)
    return found if found.metadata.get("refprior", {}).get("key") == script.key else None


def _tried(script: Script) -> tuple[bool, str]:
    try:
        execute(script)
    except (CellExecutionError, RuntimeError, ValueError) as error:
        return False, f"{script.name}: {str(error).strip().splitlines()[-1]}"
    return True, f"{script.name}: done"


def main(names: list[str]) -> int:
    """Run what is missing or out of date, or what is named, two at a time; exit code 1 if something failed."""
    wanted = [script for script in scripts() if script.name in names or (not names and executed(script) is None)]
    fine = True
    with ProcessPoolExecutor(2) as pool:
        for done, line in pool.map(_tried, wanted):
            fine &= done
            print(line, flush=True)
    return int(not fine)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
