from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from refprior.training._records import Record


@contextmanager
def logging_to(kinds: Sequence[str], folder: Path) -> Iterator[Callable[[Record], None]]:
    yield lambda record: None
