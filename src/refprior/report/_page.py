"""One self-contained HTML page: the table, the figures, and where they come from."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from refprior._files import write_text
from refprior.report._figures import all_figures, as_image, as_png
from refprior.report._pivot import pivot
from refprior.report._table import Group, find_runs, group, rows, summarise_finished

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; margin: 1rem 0 } th, td { padding: .35rem .8rem; text-align: right }
th { border-bottom: 2px solid #444 } td { border-bottom: 1px solid #ddd; white-space: nowrap }
th:first-child, td:first-child { text-align: left }
img { max-width: 100%; height: auto } .note { color: #555; max-width: 48rem }
code { background: #f3f3f3; padding: 0 .25rem }
"""
_NOTE = (
    "Test accuracy at the last step, which no choice of the program depends on. Mean ± standard deviation over seeds. "
    "Ensemble: the mean of the particles' probabilities; particle: the mean accuracy of single particles; EMA: moving "
    "average of the weights. NLL (nats) and ECE (15 bins) are of the EMA ensemble. Consensus: clusters of unlabelled "
    "images in the predictions of all particles, matched to the classes; stability: how far two halves of them agree."
)


def write_report(
    paths: Sequence[Path], out: Path, pictures: Path | None = None, column: str | None = None
) -> list[Group]:
    """Write the page for all runs among and below `paths`, and its figures as files too; the groups it shows.

    >>> import refprior as rp
    >>> recipe, origin = rp.recipes.named("digits_ssl", {"steps": 5}, seed=0)
    >>> run = rp.train(recipe, "runs/a", origin=origin)
    >>> from pathlib import Path
    >>> groups = rp.report.write_report([Path("runs")], Path("report.html"))
    >>> Path("report.html").exists()
    True
    """
    found = find_runs(paths)
    groups = group(summarise_finished(found))
    out.parent.mkdir(parents=True, exist_ok=True)
    write_text(out, page(groups, found, column))
    if pictures is not None:
        pictures.mkdir(parents=True, exist_ok=True)
        for title, figure in all_figures(groups).items():
            (pictures / f"{title.lower().replace(' ', '_')}.png").write_bytes(as_png(figure))
    return groups


def page(groups: Sequence[Group], sources: Sequence[Path], column: str | None = None) -> str:
    """The HTML text."""
    sections = {
        **({f"Accuracy by {column}": _table(pivot(groups, column))} if column else {}),
        "Results": f"{_table(rows(groups))}<p class='note'>{_NOTE}</p>",
        **{title: as_image(figure, title) for title, figure in all_figures(groups).items()},
        "Runs": "<ul>" + "".join(f"<li><code>{escape(str(s))}</code></li>" for s in sources) + "</ul>",
    }
    body = "\n".join(f"<h2>{title}</h2>\n{content}" for title, content in sections.items())
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'><title>refprior report</title>"
        f"<style>{_STYLE}</style></head>\n<body><h1>Reference priors: report</h1>\n{body}\n</body></html>\n"
    )


def _table(cells: Sequence[Sequence[str]]) -> str:
    head, *body = cells
    lines = ["<tr>" + "".join(f"<th>{escape(cell)}</th>" for cell in head) + "</tr>"]
    lines += ["<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in line) + "</tr>" for line in body]
    return "<table>" + "\n".join(lines) + "</table>"
