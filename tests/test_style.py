"""The palette by the numbers of WCAG, and for readers who see fewer colors."""

import io
import re
from itertools import combinations

import numpy as np
import pytest
from matplotlib import rcParams
from matplotlib.figure import Figure

from refprior._style import COLORS, MARKERS, RC, SERIES, as_variables, styled, variables

# Machado, Oliveira and Fernandes 2009, of linear red, green and blue, for readers who lack one kind of cones
BLIND = {
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}

MARKS = ("blue", "vermilion", "green", "purple")


def linear(color: str) -> np.ndarray:
    values = np.array([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """WCAG 2.2: of the relative luminances."""
    low, high = sorted(float(linear(color) @ [0.2126, 0.7152, 0.0722]) for color in (one, other))
    return (high + 0.05) / (low + 0.05)


def lab(values: np.ndarray) -> np.ndarray:
    """CIE L*a*b* of linear red, green and blue."""
    space = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    x, y, z = np.cbrt(np.clip(space @ values / [0.9505, 1.0, 1.089], 1e-4, None))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def test_black_on_white_is_the_largest_contrast() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)


@pytest.mark.parametrize("page", [0, 1], ids=["white", "dark"])
def test_texts_and_marks_stand_out(page: int) -> None:
    of = {name: pair[page] for name, pair in COLORS.items()}
    for behind in ("back", "panel"):
        for text in ("ink", "soft"):
            assert contrast(of[text], of[behind]) >= 4.5, (text, behind)
        for mark in MARKS:
            assert contrast(of[mark], of[behind]) >= 3, (mark, behind)


@pytest.mark.parametrize("page", [0, 1], ids=["white", "dark"])
@pytest.mark.parametrize("kind", [*BLIND, "all cones"])
def test_everybody_tells_the_colors_apart(kind: str, page: int) -> None:
    seen = np.array(BLIND.get(kind, np.eye(3)))
    places = {name: lab(np.clip(seen @ linear(COLORS[name][page]), 0, 1)) for name in MARKS}
    for (one, a), (other, b) in combinations(places.items(), 2):
        assert np.linalg.norm(a - b) > 15, (one, other)  # 2 is just noticeable side by side


def test_series_differ_by_more_than_their_color() -> None:
    assert len(set(MARKERS)) == len(SERIES) == len(set(SERIES))


def test_the_style_is_left_behind_after_drawing() -> None:
    before = rcParams["axes.spines.top"]
    assert styled(lambda: rcParams["axes.spines.top"])() is RC["axes.spines.top"] is not before
    assert rcParams["axes.spines.top"] is before


def test_a_drawing_follows_the_page() -> None:
    figure = styled(lambda: Figure(figsize=(1, 1)))()
    styled(figure.subplots)().plot([0, 1], color=COLORS["blue"][0])
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg")
    text = as_variables(buffer.getvalue())
    assert "stroke: var(--blue)" in text
    assert COLORS["blue"][0] not in re.sub(r"<style>.*?</style>", "", text)
    assert text.count("prefers-color-scheme") == 1
    assert "screen and" in variables()  # paper is white
