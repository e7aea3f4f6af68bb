"""Reports: run folders → tables, figures and pages."""

from refprior.report._classes import class_rows
from refprior.report._embed import scene_of_runs as scene_of_runs  # for the explorer; not public
from refprior.report._embed import summary as summary  # for the command line; not public
from refprior.report._embed import write_embedding
from refprior.report._page import write_report
from refprior.report._pivot import as_latex, as_markdown, pivot
from refprior.report._published import PUBLISHED, Published
from refprior.report._questions import questions_figure
from refprior.report._rows import rows
from refprior.report._settings import settings_of as settings_of  # for the explorer; not public
from refprior.report._table import Summary, find_runs, group, summarize
from refprior.report._table import origin_of as origin_of  # for the explorer; not public
from refprior.report._uncertain import uncertain_figure

__all__ = [
    "PUBLISHED",
    "Published",
    "Summary",
    "as_latex",
    "as_markdown",
    "class_rows",
    "find_runs",
    "group",
    "pivot",
    "questions_figure",
    "rows",
    "summarize",
    "uncertain_figure",
    "write_embedding",
    "write_report",
]
