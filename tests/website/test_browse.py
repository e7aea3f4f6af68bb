"""The look at the site finds what it is there to find, in a real browser."""

from pathlib import Path

import pytest

browse = pytest.importorskip("website.browse", reason="needs pip install '.[docs]'")

GOOD = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>a page</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">
<style>body {{ background: #fff }} @media (prefers-color-scheme: dark) {{ body {{ background: #000 }} }} {style}</style>
</head><body><p id="one">text</p>{body}</body></html>"""

PAGES = {
    "console": ("", "<script>throw new Error('trouble')</script>", "console: "),
    "outside": ("", "<script>fetch('http://127.0.0.2:9/x').catch(() => 0)</script>", "request leaves the page"),
    "missing": ("", "<script>fetch('nothing.json')</script>", "404"),
    "wide": ("", "<div style='width: 2000px'>long</div>", "wide, light: wider than the window"),
    "narrow": ("", "<div style='width: 700px'>long</div>", "narrow, dark: wider than the window"),
    "bright": ("body { background: #fff !important }", "", "wide, dark: the background is not dark"),
    "picture": ("", "<img src='data:image/gif;base64,R0lGODlhAQABAAAAACw='>", "image without a description"),
    "broken": ("", "<img alt='a picture' src='data:image/png;base64,AAAA'>", "image that cannot be shown"),
    "twice": ("", "<p id='one'>again</p>", "id used twice: one"),
}


def write(folder: Path, name: str, style: str = "", body: str = "") -> None:
    (folder / f"{name}.html").write_text(GOOD.format(style=style, body=body))


@pytest.mark.skipif(bool(browse.missing()), reason=browse.missing() or "a browser is there")
def test_each_trouble_is_found_and_a_good_page_has_none(tmp_path: Path) -> None:
    write(tmp_path, "good", body="<div style='overflow-x: auto'><div style='width: 2000px'>it scrolls</div></div>")
    for name, (style, body, _) in PAGES.items():
        write(tmp_path, name, style, body)
    found = list(browse.troubles(tmp_path))
    assert not [line for line in found if line.startswith("good.html")]
    for name, (_, _, said) in PAGES.items():
        assert any(line.startswith(f"{name}.html: ") and said in line for line in found), (name, found)


def test_without_a_site_it_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert browse.main([str(tmp_path)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
