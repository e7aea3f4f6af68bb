"""Executed notebooks as pages of the site: text, code, what it printed, its pictures; and cards that lead to them."""

import base64
import html
import re
from collections.abc import Iterator
from typing import Any

import nbformat
from nbformat import NotebookNode

from website.notebooks import FIGURE


def files(found: dict[str, NotebookNode]) -> dict[str, str | bytes]:
    """Pages, pictures and notebooks to download of executed notebooks, by name."""
    made: dict[str, str | bytes] = {}
    for name, nb in found.items():
        made[f"{name}.md"] = page(name, nb)
        made[f"{name}.ipynb"] = nbformat.writes(nb)
        made |= {f"{name}-{number}.png": picture for number, (picture, _) in enumerate(pictures(nb))}
    return made


def pictures(nb: NotebookNode) -> Iterator[tuple[bytes, str]]:
    """Every picture of a notebook and its description, in order."""
    for cell in nb.cells:
        for output in cell.get("outputs", []):
            if "image/png" in output.get("data", {}):
                yield base64.b64decode(output.data["image/png"]), cell.metadata.get("figure", "")


def page(name: str, nb: NotebookNode) -> str:
    """The page of an executed notebook: text, code and what it gave."""
    stem = name.rpartition("/")[2]
    numbers = iter(range(1000))
    title, *rest = nb.cells
    download = f'[Notebook]({stem}.ipynb){{ download="" }} · [Script]({stem}.py){{ download="" }}\n{{ .download }}'
    parts = [_title_and(download, title.source)]
    for cell in rest:
        parts += [cell.source] if cell.cell_type == "markdown" else [_shown(cell), *_outputs(cell, stem, numbers)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _title_and(download: str, source: str) -> str:
    title, _, text = source.partition("\n")
    return f"{title}\n\n{download}\n\n{text.strip()}"


def _shown(cell: NotebookNode) -> str:
    code = f"```python\n{cell.source}\n```"
    if "figure" not in cell.metadata:
        return code
    inner = "\n".join(f"    {line}".rstrip() for line in code.splitlines())
    return f'??? note "Code of the figure"\n\n{inner}'


def _outputs(cell: NotebookNode, stem: str, numbers: Iterator[int]) -> Iterator[str]:
    """What was printed, in one piece, and then what was shown."""
    printed = "".join(output.text for output in cell.outputs if output.output_type == "stream")
    if printed:
        yield _printed(printed)
    for output in (output for output in cell.outputs if output.output_type != "stream"):
        data: dict[str, Any] = output.data
        if "image/png" in data:
            description = cell.metadata.get("figure")
            if not description:
                raise ValueError(f"{stem}: a picture without a description: begin its cell with '# %% {FIGURE}…'")
            width = output.get("metadata", {}).get("image/png", {}).get("width")  # as large as it was drawn, not larger
            sized = f'{{ width="{width}" }}' if width else ""
            yield f"![{description}]({stem}-{next(numbers)}.png){sized}"
        elif "text/html" in data:
            yield f'<div class="rich">{_one_block(data["text/html"])}</div>'
        else:
            yield _printed(data["text/plain"])


def _printed(text: str) -> str:
    return f'<div class="output" markdown="1">\n\n```text\n{text.rstrip()}\n```\n\n</div>'


def _one_block(text: str) -> str:
    """HTML without empty lines, which would end it for Markdown."""
    return re.sub(r"\n\s*\n", "\n", text)


def cards(found: dict[str, NotebookNode], section: str, names: list[str]) -> str:
    """A picture, a title and a sentence for each notebook of a section, as links."""
    inner = "\n".join(_card(name, found[name], section) for name in names if name in found)
    return f'<div class="gallery">\n{inner}\n</div>'


def _card(name: str, nb: NotebookNode, section: str) -> str:
    title, _, text = nb.cells[0].source.partition("\n")
    sentence = re.sub(r"[*`$]|\[([^\]]*)\]\([^)]*\)", r"\1", text.strip().partition("\n\n")[0].replace("\n", " "))
    stem = name.removeprefix(f"{section}/")
    picture = f'<img src="{stem}-0.png" alt="" loading="lazy">' if next(pictures(nb), None) else ""
    shown = f"<strong>{html.escape(title.removeprefix('# '))}</strong><span>{html.escape(sentence)}</span>"
    return f'<a href="{stem}.html">{picture}{shown}</a>'
