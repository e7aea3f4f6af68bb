"""Whether something fits into memory."""

from refprior._limits import check_memory

_SMALL = 30_000_000  # bytes; finding out what is free takes a millisecond, too long for each of many small files


def check_room(needed: int, what: str, remedy: str = "close other programs") -> None:
    """Refuse what memory does not hold."""
    if needed > _SMALL:
        check_memory(needed, what, remedy)
