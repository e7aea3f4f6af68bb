"""One visual style for all figures and pages.

The colors are those of Okabe and Ito, which readers with any color vision can distinguish. Purple is slightly darker on
white, so that lines and marks have a contrast of at least 3:1 on white and on dark pages, and text 4.5:1 (WCAG 2.2).
No meaning depends on color alone: lines differ by dashes, marks by shape, and both are labeled.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

# name: (on a white page, on a dark one)
COLORS = {
    "ink": ("#222222", "#e6e6e6"),
    "soft": ("#595959", "#b4b8bd"),  # notes, ticks, reference lines
    "line": ("#d5d9de", "#454b53"),  # grids and borders
    "panel": ("#f4f6f8", "#272b31"),
    "back": ("#ffffff", "#1b1e23"),
    "blue": ("#0072b2", "#56b4e9"),
    "vermilion": ("#d55e00", "#e69f00"),
    "green": ("#009e73", "#009e73"),
    "purple": ("#b65a8f", "#cc79a7"),
}
INK, SOFT, LINE, PANEL, BACK, BLUE, VERMILION, GREEN, PURPLE = (light for light, _ in COLORS.values())
# The same thing has the same color everywhere.
ATOM, PARTICLE, ENSEMBLE, JEFFREYS = BLUE, BLUE, VERMILION, VERMILION
MARGINAL, CONDITIONAL = BLUE, VERMILION  # the two entropies, h_y and h_yw; the second is dashed
MOMENTS = START, MIDDLE, END = BLUE, VERMILION, GREEN  # of training
CLASSES = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#595959", "#8c6d4f", "#a6a6a6")
SERIES = (BLUE, VERMILION, GREEN, PURPLE, INK)  # lines of one kind
MARKERS = ("o", "s", "^", "D", "v")  # one for each
AROUND = (VERMILION, "#f7f7f7", BLUE)  # diverging scale: below, middle, above

RC: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": SOFT,
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": INK,
    "axes.titlesize": "medium",
    "font.size": 10.0,
    "grid.color": LINE,
    "grid.linewidth": 0.6,
    "legend.fontsize": "small",
    "legend.frameon": False,
    "svg.hashsalt": "refprior",
    "text.color": INK,
    "xtick.color": SOFT,
    "xtick.labelcolor": INK,
    "ytick.color": SOFT,
    "ytick.labelcolor": INK,
}


def styled(draw: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function that draws with matplotlib so that it uses this style."""

    @wraps(draw)
    def in_style(*arguments: P.args, **settings: P.kwargs) -> R:
        from matplotlib import rc_context

        with rc_context(RC):
            return draw(*arguments, **settings)

    return in_style


def variables() -> str:
    """Return the colors as CSS variables for light and dark pages; print is light."""
    light, dark = (";".join(f"--{name}:{pair[i]}" for name, pair in COLORS.items()) for i in (0, 1))
    return f":root{{{light}}}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}"


PAGE = f"""
:root {{ color-scheme: light dark }}
{variables()}
* {{ box-sizing: border-box }}
body {{ font: 16px/1.5 system-ui, sans-serif; margin: 0; color: var(--ink); background: var(--back) }}
h1 {{ font-size: 1.5rem; line-height: 1.25; overflow-wrap: anywhere }}
h2 {{ font-size: 1.15rem; margin: 1.6rem 0 .3rem }}
.note {{ color: var(--soft); max-width: 48rem; margin: .3rem 0; overflow-wrap: anywhere }}
code {{ background: var(--panel); padding: 0 .25rem; overflow-wrap: anywhere }}
:focus-visible {{ outline: 3px solid var(--blue); outline-offset: 2px }}
@media print {{ body {{ font-size: 10pt }} h2 {{ break-after: avoid }} img, tr {{ break-inside: avoid }} }}
"""


def as_variables(svg: str) -> str:
    """Replace the colors of a drawing by CSS variables, so that they follow a light or dark page."""
    for name, (light, _) in COLORS.items():
        svg = svg.replace(light, f"var(--{name})")
    return svg.replace("<defs>", f"<style>{variables().replace(':root', 'svg')}</style><defs>", 1)
