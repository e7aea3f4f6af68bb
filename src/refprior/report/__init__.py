"""Reports: run folders → tables, figures and one HTML page."""

from refprior.report.page import write_report
from refprior.report.pivot import as_latex, as_markdown, pivot
from refprior.report.table import find_runs, group, rows, summarise

__all__ = ["as_latex", "as_markdown", "find_runs", "group", "pivot", "rows", "summarise", "write_report"]
