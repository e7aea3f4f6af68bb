"""Memory that a process keeps from one step to the next.

The C library gives blocks of more than 32 MB back to the system as soon as they are free, and every step pays for
their pages anew: a third of the time of a step of four WRN-28-2 on a CPU.
"""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

# The names that malloc.h of the GNU C library has for its settings.
TRIM_THRESHOLD, MMAP_THRESHOLD, MMAP_MAX = -1, -3, -4
NEVER = -1
LARGEST_THRESHOLD = 32 * 2**20  # to which the library raises its own by itself


@contextmanager
def kept() -> Iterator[None]:
    """What the main thread frees inside goes back to the system at the end; then large blocks go back at once again.

    The peak grows by about a tenth, because blocks leave gaps. Not to be nested. Elsewhere than on glibc, and where
    the user has set MALLOC_ variables of his own, this does nothing.
    """
    library = ctypes.CDLL(None)
    known = hasattr(library, "mallopt") and hasattr(library, "malloc_trim")
    if not known or any(name.startswith("MALLOC_") for name in os.environ):
        yield
        return
    library.mallopt(MMAP_MAX, 0)
    library.mallopt(TRIM_THRESHOLD, NEVER)
    try:
        yield
    finally:
        library.mallopt(MMAP_MAX, 65536)
        library.mallopt(MMAP_THRESHOLD, LARGEST_THRESHOLD)
        library.mallopt(TRIM_THRESHOLD, 2 * LARGEST_THRESHOLD)
        library.malloc_trim(0)
