"""The reference is complete: every public name, every command, from where they are defined."""

import re
import tomllib
import types
from pathlib import Path

import pytest

import refprior as rp
from refprior import estimators, particles

pytest.importorskip("website.browse", reason="needs pip install '.[docs]'")
from website import beside, commands, reference

ROOT = Path(__file__).parents[2]
PAGES = reference.pages()


def test_every_package_has_a_page() -> None:
    packages = [getattr(rp, name) for name in dir(rp) if isinstance(getattr(rp, name), types.ModuleType)]
    assert {*packages, rp.exact.models, estimators, particles} == set(reference.DOORS)


@pytest.mark.parametrize("door", reference.DOORS, ids=lambda door: door.__name__)
def test_every_public_name_is_described_and_listed(door: types.ModuleType) -> None:
    short = door.__name__.removeprefix("refprior.")
    for name in (name for name in door.__all__ if not isinstance(getattr(door, name), types.ModuleType)):
        assert f"{{ #{short}.{name} }}" in PAGES[f"reference/{short}.md"]
        assert f"{short}.md#{short}.{name})" in PAGES["reference/index.md"]


def test_the_front_door_is_listed() -> None:
    for name in (name for name in dir(rp) if not isinstance(getattr(rp, name), types.ModuleType)):
        assert f"`rp.{name}`" in PAGES["reference/index.md"]


def test_signatures_are_as_one_would_write_them() -> None:
    page = PAGES["reference/training.md"]
    assert "train(\n    recipe: Recipe,\n    out: Path | str | None = None,\n    *,\n" in page
    assert "refprior.training._" not in "".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))


def test_prose_keeps_its_signs_and_code_stays_code() -> None:
    assert reference._prose("p(y|x) of *all* w_k, `a_b` < 1") == r"p(y\|x) of \*all\* w\_k, `a_b` \< 1"


def test_every_command_is_described() -> None:
    page = commands.pages()[commands.PAGE]
    for command in ("data get", "exact coin", "exact two-stage", "train", "sweep", "predict", "answer"):
        assert f"# refprior {command}\n" in page
        assert re.search(rf"(?m)^refprior {command} ([A-Z-]|\[)", page), command  # its usage
    assert "mkdocs" not in page


@pytest.mark.parametrize(
    ("link", "page", "found"),
    [
        ("../SECURITY.md", "own.md", "reference/security.md"),
        ("../../SECURITY.md", "guides/deploy.md", "../reference/security.md"),
        ("../examples", "own.md", "reference/examples.md"),
        ("data.md#inputs", "own.md", "data.md#inputs"),
        ("../gallery/abstain.py", "guides/deploy.md", "../gallery/abstain.md"),
        ("abstain.py", "gallery/abstain.md", "abstain.py"),
    ],
)
def test_links_to_files_beside_docs_lead_to_pages(link: str, page: str, found: str) -> None:
    assert beside.relink(f"see [this]({link}).", page) == f"see [this]({found})."


def test_install_lists_every_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    rows = [line.split("|")[1] for line in (ROOT / "docs/start/install.md").read_text().splitlines() if line[:1] == "|"]
    assert [extra for extra in extras if not any(f"`{extra}`" in row for row in rows)] == []
