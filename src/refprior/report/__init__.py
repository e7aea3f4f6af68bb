"""Reports: run folders → tables, figures and pages.

Names that are imported here but not in `__all__` are internal: the command line and the explorer use them.
"""

from refprior.report._embed import scene_of_runs as scene_of_runs
from refprior.report._embed import summary as summary
from refprior.report._embed import write_embedding
from refprior.report._page import write_report
from refprior.report._published import PUBLISHED as PUBLISHED
from refprior.report._published import Published as Published
from refprior.report._runs import Summary as Summary
from refprior.report._runs import find_runs, summarize
from refprior.report._runs import group as group
from refprior.report._runs import origin_of as origin_of
from refprior.report._runs import settings_of as settings_of
from refprior.report._tables import as_latex, as_markdown, results_table
from refprior.report._tables import class_rows as class_rows
from refprior.report._tables import pivot as pivot
from refprior.report._tables import rows as rows
from refprior.report._tables import run_confusion as run_confusion
from refprior.report._tiles import labeled_picture as labeled_picture
from refprior.report._tiles import most_uncertain as most_uncertain
from refprior.report._tiles import picture_url as picture_url
from refprior.report._tiles import pool_name as pool_name
from refprior.report._tiles import pool_picture as pool_picture
from refprior.report._tiles import questions_figure as questions_figure
from refprior.report._tiles import short_name as short_name
from refprior.report._tiles import uncertain_figure

__all__ = [
    "as_latex",
    "as_markdown",
    "find_runs",
    "results_table",
    "summarize",
    "uncertain_figure",
    "write_embedding",
    "write_report",
]
