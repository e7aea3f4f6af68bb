"""The build is strict: broken links, unknown equations and untested blocks end it."""

import logging
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytest.importorskip("sphinx", reason="needs pip install '.[docs]'")
pytest.importorskip("sphinx_gallery", reason="needs pip install '.[docs]'")
from website.docstrings import PACKAGES, public_objects

from website import extension

ROOT = Path(__file__).parents[2]
CONF = """
import sys
sys.path.insert(0, {root!r})
extensions = ["myst_parser", "website.extension"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
html_math_renderer = "mathml"
"""
GOOD = {
    "index.md": "# One\n\n[two](two.md#part), `rp.train(recipe)`, `rp.nothing`, eq:tau\n\n```{toctree}\ntwo\n```\n",
    "two.md": "# Two\n\n## Part\n\n$a < b_1$\n\n```{py:function} refprior.training.train(recipe)\n```\n"
    "\n```python\nx\n```\n\n```text\n1\n```\n\n```\nplain\n```\n",
}
BAD = {
    "link": {"index.md": "# One\n\n[three](three.md)\n\n```{toctree}\ntwo\n```\n"},
    "anchor": {"index.md": "# One\n\n[two](two.md#nothing)\n\n```{toctree}\ntwo\n```\n"},
    "absent": {"index.md": "# One\n\n```{toctree}\ntwo\nthree\n```\n"},
    "forgotten": {"index.md": "# One\n"},
    "equation": {"two.md": "# Two\n\n## Part\n\n$\\nonsense{x}$\n"},
    "language": {"two.md": "# Two\n\n## Part\n\n```py\nx\n```\n"},
    "title": {"two.md": "# Two\n\n## Part\n\n```python title='x'\nx\n```\n"},
}


def build(folder: Path, pages: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Build a small site with the extension of ours."""
    folder.mkdir()
    (folder / "conf.py").write_text(CONF.format(root=str(ROOT)))
    for name, text in pages.items():
        (folder / name).write_text(text)
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-W",
        "--keep-going",
        "-q",
        "-b",
        "html",
        str(folder),
        str(folder / "out"),
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_good_site_has_equations_in_mathml_links_to_the_api_and_numbers_of_the_paper(tmp_path: Path) -> None:
    done = build(tmp_path / "good", GOOD)
    assert done.returncode == 0, done.stderr
    one, two = ((tmp_path / "good" / "out" / f"{name}.html").read_text() for name in ("index", "two"))
    assert "<math" in two
    assert "<msub>" in two
    assert 'href="two.html#refprior.training.train"><code' in one
    assert ">rp.nothing</span></code>, " in one
    assert 'title="eq:tau, Section 3.6">Eq. 14</a>' in one


@pytest.mark.thorough
@pytest.mark.parametrize("name", BAD)
def test_what_would_stop_a_reader_fails(name: str, tmp_path: Path) -> None:
    done = build(tmp_path / name, GOOD | BAD[name])
    assert done.returncode != 0
    assert "WARNING" in done.stderr


@pytest.mark.parametrize(
    ("link", "page", "folder", "found"),
    [
        ("../SECURITY.md", "own.md", "docs", "reference/security.md"),
        ("../../SECURITY.md", "guides/deploy.md", "docs/guides", "../reference/security.md"),
        ("../examples", "own.md", "docs", "reference/examples.md"),
        ("data.md#inputs", "own.md", "docs", "data.md#inputs"),
        ("../gallery/abstain.py", "guides/deploy.md", "docs/guides", "../auto_gallery/abstain.rst"),
        ("learn", "index.md", "docs", "auto_learn/index.rst"),
        ("docs/own.md", "reference/architecture.md", "", "../own.md"),
        ("CHANGELOG.md", "reference/contributing.md", "", "changelog.md"),
    ],
)
def test_links_to_files_beside_docs_lead_to_pages(link: str, page: str, folder: str, found: str) -> None:
    assert extension.relink(f"see [this]({link}).", page, folder) == f"see [this]({found})."


def test_blocks_that_no_test_would_run_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        extension.check_blocks("~~~bash\nx\n~~~\n", "page")
    assert "a block of 'bash'" in caplog.text


def test_every_package_is_in_the_reference() -> None:
    index = (ROOT / "docs" / "reference" / "index.md").read_text()
    listed = index.partition(":template:")[2].partition("```")[0].split()[1:]
    assert set(listed) == set(PACKAGES)
    assert all(next(public_objects(package), None) for package in PACKAGES)


def test_install_lists_every_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    rows = [line.split("|")[1] for line in (ROOT / "docs/start/install.md").read_text().splitlines() if line[:1] == "|"]
    assert [extra for extra in extras if not any(f"`{extra}`" in row for row in rows)] == []
