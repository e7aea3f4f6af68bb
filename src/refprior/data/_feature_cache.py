"""Features of photos and texts, computed once: a cache on disk, by the content of what they are computed from."""

# n inputs, F features

import logging
import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from hashlib import blake2b
from pathlib import Path

import numpy as np

log = logging.getLogger("refprior.features")  # its messages are progress
_FILE = "features.sqlite3"
_QUERY = 500  # keys of one query
_TABLE = "CREATE TABLE IF NOT EXISTS features (key BLOB PRIMARY KEY, numbers BLOB) WITHOUT ROWID"


def cache_folder() -> Path:
    """Return `REFPRIOR_CACHE` if it is set, else the platform's folder for caches."""
    from platformdirs import user_cache_path

    chosen = os.environ.get("REFPRIOR_CACHE")
    return Path(chosen).expanduser() if chosen else user_cache_path("refprior", appauthor=False)


def content_key(maker: str, content: bytes) -> bytes:
    """Return the key of what `maker` makes of some content."""
    return blake2b(maker.encode() + b"\0" + content, digest_size=20).digest()


def cached_features(
    keys: Sequence[bytes], compute: Callable[[Sequence[int]], np.ndarray], width: int, what: str, batch: int
) -> np.ndarray:
    """Return the features of each key, computing those that are not in the cache: (n,) -> (n, F) float32.

    `compute` maps positions to features, a batch at a time. A cache that cannot be used is reported, and everything is
    computed.
    """
    found, first = np.empty((len(keys), width), np.float32), dict[bytes, int]()
    with closing(_opened()) as store:
        known = _read(store, keys)
        for place, key in enumerate(keys):
            numbers = np.frombuffer(known.get(key, b""), "<f4")
            if len(numbers) == width and np.isfinite(numbers).all():
                found[place] = numbers
            else:
                first.setdefault(key, place)
        new = list(first.values())
        for start in range(0, len(new), batch):
            places = new[start : start + batch]
            found[places] = compute(places)
            _write(store, [(keys[place], found[place].astype("<f4").tobytes()) for place in places])
            log.info("%s: %d of %d", what, start + len(places), len(new))
    for place, key in enumerate(keys):
        found[place] = found[first.get(key, place)]
    return found


def _opened() -> sqlite3.Connection:
    """Open the cache, or an empty one in memory if it cannot be used."""
    path = cache_folder() / _FILE
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        store = sqlite3.connect(path, timeout=30)
        store.execute(_TABLE)
    except (OSError, sqlite3.Error) as error:
        log.warning("%s cannot be used (%s): delete it, or set REFPRIOR_CACHE to another folder", path, error)
        store = sqlite3.connect(":memory:")
        store.execute(_TABLE)
    return store


def _read(store: sqlite3.Connection, keys: Sequence[bytes]) -> dict[bytes, bytes]:
    """Return the known features of some keys."""
    known: dict[bytes, bytes] = {}
    try:
        for start in range(0, len(keys), _QUERY):
            some = keys[start : start + _QUERY]
            marks = ",".join("?" * len(some))
            known.update(store.execute(f"SELECT key, numbers FROM features WHERE key IN ({marks})", some))
    except sqlite3.Error as error:
        log.warning("the cache of features is not read: %s", error)
    return known


def _write(store: sqlite3.Connection, rows: list[tuple[bytes, bytes]]) -> None:
    try:
        with store:
            store.executemany("INSERT OR REPLACE INTO features VALUES (?, ?)", rows)
    except sqlite3.Error as error:
        log.warning("the cache of features is not written: %s", error)
