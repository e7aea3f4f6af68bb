"""Reports: run folders → tables, figures and one HTML page."""

from refprior.report.embed import write_embedding
from refprior.report.page import write_report
from refprior.report.table import find_runs, group, markdown, rows, summarise

__all__ = ["find_runs", "group", "markdown", "rows", "summarise", "write_embedding", "write_report"]
