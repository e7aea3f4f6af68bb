"""Examples for a report: the inputs that the particles of a run disagree about most, if its data can be read."""

import logging
from collections.abc import Sequence

from refprior.report._figures import as_image
from refprior.report._table import Group, Tell
from refprior.report._uncertain import uncertain_figure
from refprior.training import load

log = logging.getLogger("refprior")

GROUPS = 4  # groups with examples: each is a network to load and data to read
_AMONG = 1000  # inputs of a part that are looked at
_COUNT, _COLUMNS = 8, 4


def examples(groups: Sequence[Group], tell: Tell) -> list[tuple[Group, str]]:
    """A figure for the first run of each of the first groups; runs that cannot be loaded here have none."""
    found = []
    for done, runs in enumerate(groups[:GROUPS]):
        tell("looking for examples", done, min(GROUPS, len(groups)))
        try:
            figure = uncertain_figure(load(runs[0].path), _COUNT, _COLUMNS, _AMONG)
        except (OSError, ValueError) as error:
            log.info("no examples of %s: %s", runs[0].path, error)
            continue
        label = f"{runs[0].label}, seed {runs[0].seed}"
        found.append((runs, as_image(figure, f"inputs that the particles of {label} disagree about most")))
    return found
