"""Refusals that the page treats in its own way."""


class ConflictError(ValueError):
    """What was asked for no longer fits what is there."""


class BusyError(ValueError):
    """Somebody else works in the folder: it can be tried again."""
