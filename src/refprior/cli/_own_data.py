"""The user's own data of `refprior train` and `refprior sweep`: from options, and in words."""

import sys
from typing import TYPE_CHECKING

from refprior._words import printable

if TYPE_CHECKING:
    from refprior._kinds import Kind
    from refprior.recipes import OwnData
    from refprior.training import Recipe


def own_data(data: str | None, source: str | None, kind: "Kind | None") -> "OwnData | None":
    """What --data, --source-data and --kind say; None without --data."""
    from refprior.recipes import OwnData

    if data is None and (source or kind):
        raise ValueError(f"--{'source-data' if source else 'kind'} is for your own data: give --data too")
    return None if data is None else OwnData(data, source, kind)


def show_own_data(own: "OwnData", recipe: "Recipe") -> None:
    """Say what was found, and what became of the recipe, before anything long begins."""
    from refprior.recipes import described

    for place in filter(None, (own.data, own.source)):
        show_folder(place)
    _say(*described(recipe))


def show_folder(place: str) -> None:
    """What is in a folder of images, and what is skipped there; nothing of other data."""
    from refprior.data import survey
    from refprior.data.sources import is_folder

    if is_folder(place):
        _say(f"{place}:", *str(survey(place)).splitlines())


def _say(*lines: str) -> None:
    for line in lines:
        print(printable(line), file=sys.stderr, flush=True)
