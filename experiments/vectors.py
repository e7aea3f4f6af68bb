"""Four kinds of vectors with labels, each with a pool to train on and a part to test with: what can be had without a
download, and a way to get the rest.

embeddings   features of a pretrained network for CIFAR-10, 60,000 × 128 (docs/embeddings.md says how they are made)
digits       scikit-learn's 8×8 digits as rows of 64 numbers, 1,797 rows
satellite    a table: spectral values of 3×3 pixels, 6 kinds of soil, 6,435 rows (Debian's package r-cran-mlbench, and
             `pip install rdata` to read it)
texts        one-line descriptions of Debian's packages, 10 sections, TF-IDF, sparse (`apt-cache dumpavail`)
"""

import subprocess
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import StandardScaler

EMBEDDINGS = "cifar10_effnetlite0_pca128.npz"
_PLACES = [Path.home() / ".local/share/refprior", Path(__file__).parents[2] / "shared/data"]
_SATELLITE = Path("/usr/lib/R/site-library/mlbench/data/Satellite.rda")
_SECTIONS = ("science", "games", "sound", "graphics", "net", "admin", "text", "math", "fonts", "web")
_POOL = 30_000  # rows at most


@dataclass(frozen=True)
class Vectors:
    """Rows and the numbers of their classes."""

    pool: Any  # (n, D), an array or sparse
    pool_labels: np.ndarray  # (n,)
    test: Any
    test_labels: np.ndarray

    def few(self, per_class: int, seed: int) -> np.ndarray:
        """The labels of some rows of the pool, equally many per class, and −1 for all others: (n,)."""
        random = np.random.RandomState(seed)
        y = np.full(len(self.pool_labels), -1)
        for label in np.unique(self.pool_labels):
            chosen = random.permutation(np.flatnonzero(self.pool_labels == label))[:per_class]
            y[chosen] = label
        return y


def read(name: str) -> Vectors:
    """One of the four; FileNotFoundError if it is not on this machine."""
    return {"embeddings": _embeddings, "digits": _digits, "satellite": _satellite, "texts": _texts}[name]()


def for_validation(data: Vectors) -> Vectors:
    """The same pool, with a third of it (5,000 rows at most) in place of the test part: to choose settings by."""
    order = np.random.RandomState(7).permutation(len(data.pool_labels))
    count = min(5000, len(order) // 3)
    kept, rest = order[:count], order[count:]
    return Vectors(data.pool[rest], data.pool_labels[rest], data.pool[kept], data.pool_labels[kept])


def _embeddings() -> Vectors:
    found = [place / EMBEDDINGS for place in _PLACES if (place / EMBEDDINGS).exists()]
    if not found:
        raise FileNotFoundError(f"{EMBEDDINGS} is not in {_PLACES[0]}: docs/embeddings.md says what it has")
    with np.load(found[0]) as arrays:
        chosen = np.random.RandomState(0).permutation(len(arrays["train"]))[:_POOL]
        return Vectors(
            arrays["train"][chosen].astype(np.float32),
            arrays["train_labels"][chosen].astype(np.int64),
            arrays["test"].astype(np.float32),
            arrays["test_labels"].astype(np.int64),
        )


def _digits() -> Vectors:
    return _divided(*load_digits(return_X_y=True))


def _satellite() -> Vectors:
    if not _SATELLITE.exists():
        raise FileNotFoundError(f"{_SATELLITE}: install Debian's package r-cran-mlbench")
    try:
        import rdata
    except ImportError:
        raise FileNotFoundError("to read the table, pip install rdata") from None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of an encoding that the file does not name
        table = rdata.read_rda(_SATELLITE)["Satellite"]
    labels = np.unique(table["classes"].astype(str).to_numpy(), return_inverse=True)[1]
    return _divided(StandardScaler().fit_transform(table.drop(columns="classes").to_numpy(float)), labels)


def _texts() -> Vectors:
    try:
        listed = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        raise FileNotFoundError("no list of Debian's packages: apt-get update") from None
    pairs: dict[str, int] = {}
    for block in listed.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if line[:1] != " " and ": " in line)
        section = fields.get("Section", "").split("/")[-1]
        if section in _SECTIONS and "Description" in fields:
            pairs.setdefault(fields["Description"], _SECTIONS.index(section))
    if len(pairs) < 1000:
        raise FileNotFoundError(f"only {len(pairs)} descriptions of Debian's packages: apt-get update")
    texts = sorted(pairs)
    words = TfidfVectorizer(min_df=3, sublinear_tf=True, stop_words="english").fit_transform(texts)
    return _divided(words, np.array([pairs[text] for text in texts]))


def _divided(rows: Any, labels: np.ndarray) -> Vectors:
    """A quarter of the rows to test with."""
    order = np.random.RandomState(123).permutation(len(labels))
    test, pool = order[: len(order) // 4], order[len(order) // 4 :]
    return Vectors(rows[pool], labels[pool], rows[test], labels[test])
