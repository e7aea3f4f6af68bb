"""Messages in the words of a person."""

import pytest

from refprior._words import counted, duration, in_bytes, in_short, printable


@pytest.mark.parametrize(
    ("count", "words"), [(2e3, "2 kB"), (1.5e6, "1.5 MB"), (23.45e9, "23.4 GB"), (4e12, "4 TB"), (4e16, "4.0e+04 TB")]
)
def test_bytes_in_words(count: float, words: str) -> None:
    assert in_bytes(count) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.004, "4.0 ms"),
        (2.5, "2.5 s"),
        (59, "59 seconds"),
        (150, "2.5 minutes"),
        (7200, "2.0 hours"),
        (2e5, "2.3 days"),
        (1e20, "1,000 years or more"),
    ],
)
def test_times_in_words(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_one_label_and_two_labels() -> None:
    assert (counted(1, "label"), counted(2000, "label")) == ("1 label", "2,000 labels")


def test_what_a_terminal_would_obey_is_spelled_out() -> None:
    assert printable("a\x1b[2J é") == r"a\x1b[2J é"


def test_an_error_is_one_short_printable_line() -> None:
    assert in_short(ValueError("one\n\ttwo\x00")) == r"one two\x00"
    assert in_short(MemoryError()) == "MemoryError"
    long = in_short("x" * 10**6)
    assert len(long) == 301
    assert long.endswith("…")
