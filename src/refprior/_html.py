"""HTML representation of objects in notebooks: a small table in the notebook's fonts and colors."""

from collections.abc import Mapping
from html import escape


def table(title: str, rows: Mapping[str, object]) -> str:
    """Return names and values as an HTML table; all text is escaped."""
    cells = "".join(
        f'<tr><th style="text-align:left;font-weight:normal">{escape(name)}</th>'
        f'<td style="text-align:left">{escape(str(value))}</td></tr>'
        for name, value in rows.items()
    )
    return f"<table><thead><tr><th colspan='2' style='text-align:left'>{escape(title)}</th></tr></thead>{cells}</table>"


def shortened(names: tuple[str, ...], most: int = 6) -> str:
    """List the first names, with their total number if there are more."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown}, … ({len(names)})"
