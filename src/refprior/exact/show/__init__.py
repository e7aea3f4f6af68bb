"""Text, plots and exports of results; knows no question and computes no prior."""

from refprior.exact.show._exports import as_arviz, as_code
from refprior.exact.show._plots import (
    plot_capacity,
    plot_comparison,
    plot_designs,
    plot_posterior,
    plot_scan,
    plot_solution,
)
from refprior.exact.show._text import as_html, atom_lines, decimals_within, gap_in_words

__all__ = [
    "as_arviz",
    "as_code",
    "as_html",
    "atom_lines",
    "decimals_within",
    "gap_in_words",
    "plot_capacity",
    "plot_comparison",
    "plot_designs",
    "plot_posterior",
    "plot_scan",
    "plot_solution",
]
