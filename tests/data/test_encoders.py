"""Encoders of texts: TF-IDF from its record, and sentence encoders by name."""

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from refprior.data import _encoders
from refprior.data._encoders import MINILM, TFIDF, Encoder, sentence_encoder

TEXTS = [f"the {color} {thing}" for color in ("red", "blue", "green") for thing in ("ball", "car", "tree")] * 3


def test_tfidf_is_that_of_scikit_learn() -> None:
    encoder = Encoder.fit(TEXTS, TFIDF, 100)
    expected = TfidfVectorizer(sublinear_tf=True, min_df=2).fit_transform(TEXTS).toarray()
    assert np.allclose(encoder(TEXTS), expected)
    assert encoder.features == ["ball", "blue", "car", "green", "red", "the", "tree"]


def test_topics_are_a_projection() -> None:
    whole, topics = Encoder.fit(TEXTS, TFIDF, 100), Encoder.fit(TEXTS, TFIDF, 100, topics=3)
    assert np.allclose(topics(TEXTS), whole(TEXTS) @ np.array(topics.axes).T)


@pytest.mark.parametrize("name", ["../model", "/etc", "~/model", "a/b/c"])
def test_a_place_is_no_name_of_an_encoder(name: str) -> None:
    with pytest.raises(ValueError, match="a sentence encoder is named like"):
        sentence_encoder(name)


def test_without_the_extra_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_encoders, "find_spec", lambda name: None)
    assert _encoders.default_encoder() == TFIDF
    sentence_encoder.cache_clear()
    with pytest.raises(ValueError, match=r"pip install 'refprior\[texts\]'"):
        sentence_encoder(MINILM)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_minilm_from_its_package(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFPRIOR_CACHE", str(tmp_path))
    sentence_encoder.cache_clear()
    encoder = Encoder.fit([], MINILM, 0)
    cat, kitten, tax = encoder(["a cat", "a kitten", "the tax law of Norway"])
    assert encoder.width == len(cat) == 384
    assert cat @ kitten > cat @ tax + 0.3
