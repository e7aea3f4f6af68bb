"""The build is strict: what a reader would stumble over ends it."""

import logging
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

pytest.importorskip("website.browse", reason="needs pip install '.[docs]'")
from website import hooks

ROOT = Path(__file__).parents[2]
PAGE: Any = SimpleNamespace(file=SimpleNamespace(src_uri="own.md"))
CONFIG: Any = SimpleNamespace(nav=[])


def build(folder: Path, pages: dict[str, str], nav: list[str]) -> subprocess.CompletedProcess[str]:
    """A small site with the strictness of ours."""
    ours = yaml.load((ROOT / "mkdocs.yml").read_text(), yaml.BaseLoader)
    small = {"site_name": "small", "strict": ours["strict"] == "true", "validation": ours["validation"], "nav": nav}
    (folder / "docs").mkdir(parents=True)
    (folder / "mkdocs.yml").write_text(yaml.safe_dump(small))
    for name, text in pages.items():
        (folder / "docs" / name).write_text(text)
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_broken_links_and_missing_pages_fail(tmp_path: Path) -> None:
    good = {"index.md": "# One\n\n[two](two.md#part)\n", "two.md": "# Two\n\n## Part\n"}
    nav = ["index.md", "two.md"]
    assert build(tmp_path / "good", good, nav).returncode == 0
    bad = {
        "link": ({**good, "index.md": "# One\n\n[three](three.md)\n"}, nav),
        "anchor": ({**good, "index.md": "# One\n\n[two](two.md#nothing)\n"}, nav),
        "absent": (good, [*nav, "three.md"]),
        "forgotten": (good, ["index.md"]),
    }
    for name, (pages, order) in bad.items():
        done = build(tmp_path / name, pages, order)
        assert done.returncode != 0, name
        assert "WARNING" in done.stderr, name


@pytest.mark.parametrize("fence", ["```py", "```python title='x'", "~~~bash"])
def test_blocks_that_no_test_would_run_are_warned_of(fence: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "mkdocs.plugins.refprior"):
        hooks.on_page_markdown(f"{fence}\nx\n```\n", PAGE, CONFIG)
    assert "a block of" in caplog.text


@pytest.mark.parametrize("text", ["Three rules:\n- one\n- two\n", "**Rules:**\n1. one\n"])
def test_lists_that_would_run_on_are_warned_of(text: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "mkdocs.plugins.refprior"):
        hooks.on_page_markdown("Text.\n\n- one\n  more\n- two\n\n* one\n* two\n\n```text\nx:\n- y\n```\n", PAGE, CONFIG)
        assert not caplog.text
        hooks.on_page_markdown(text, PAGE, CONFIG)
    assert "an empty line" in caplog.text


def test_the_blocks_of_our_pages_are_fine(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "mkdocs.plugins.refprior"):
        hooks.on_page_markdown("```python\nx\n```\n\n```text\n1\n```\n\n```\nplain\n```\n", PAGE, CONFIG)
    assert not caplog.text


def test_equations_become_mathml() -> None:
    page = hooks.on_page_content(r'<p><span class="arithmatex">\(a &lt; b_1\)</span></p>', PAGE)
    assert page.startswith("<p><math")
    assert "<msub>" in page
    assert "arithmatex" not in page


def test_an_equation_that_cannot_be_read_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "mkdocs.plugins.refprior"):
        hooks.on_page_content(r'<div class="arithmatex">\[\nonsense{x}\]</div>', PAGE)
    assert "cannot read the equation" in caplog.text


def test_no_page_of_ours_names_a_font_or_script_from_elsewhere() -> None:
    ours = yaml.load((ROOT / "mkdocs.yml").read_text(), yaml.BaseLoader)
    assert ours["theme"]["font"] == "false"
    assert not [asset for asset in ours["extra_css"] + ours.get("extra_javascript", []) if "://" in asset]
