"""What a release says of itself is said once, or the same everywhere; its files are what their readers expect."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

import refprior

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
FOR_DEVELOPERS = {"all", "bench", "dev", "docs"}
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = [ROOT / ".github" / "ISSUE_TEMPLATE" / name for name in ("bug.yml", "idea.yml")]


def test_the_version_is_written_once() -> None:
    assert "version" in PROJECT["dynamic"]
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+|rc\d+)?", refprior.__version__)
    assert f"\nversion: {refprior.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_the_changelog_has_its_newest_version() -> None:
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "Unreleased"
    dated = [re.fullmatch(r"(\d+\.\d+\.\d+) \((\d{4}-\d\d-\d\d)\)", heading) for heading in headings[1:]]
    assert all(dated), headings
    assert not dated or dated[0][1] == refprior.__version__  # type: ignore[index]


def test_all_is_every_extra_for_users() -> None:
    (wanted,) = EXTRAS["all"]
    found = re.fullmatch(r"refprior\[(.*)\]", wanted)
    assert found is not None
    assert found[1].split(",") == sorted(set(EXTRAS) - FOR_DEVELOPERS)


def test_one_table_has_all_extras() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    tables = {
        str(page.relative_to(ROOT)): re.findall(r"^\| `([\w-]+)` \|", found[0], re.MULTILINE)
        for page in pages
        if (found := re.search(r"^\| extra \|.*\n(\|.*\n)+", page.read_text(), re.MULTILINE))
    }
    assert [sorted(names) for names in tables.values()] == [sorted(EXTRAS)], tables


def test_every_python_that_is_named_is_tested() -> None:
    named = [c.rpartition(" ")[2] for c in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", c)]
    matrix = re.search(r"python: \[(.*)\]", (ROOT / ".github/workflows/test.yml").read_text())
    assert matrix is not None
    assert json.loads(f"[{matrix[1]}]") == named
    assert PROJECT["requires-python"] == f">={named[0]}"


@pytest.mark.parametrize("name", ["test.yml", "release.yml"])
def test_workflows_call_what_the_makefile_has(name: str) -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    called = set(re.findall(r"\bmake ([\w-]+)", (ROOT / ".github" / "workflows" / name).read_text()))
    assert called
    assert called <= targets


def read(name: str) -> Any:
    return YAML(typ="safe").load(ROOT / name)


@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("github-workflows", WORKFLOWS),
        ("dependabot", [ROOT / ".github" / "dependabot.yml"]),
        ("github-issue-forms", FORMS),
        ("github-issue-config", [ROOT / ".github" / "ISSUE_TEMPLATE" / "config.yml"]),
        ("citation-file-format", [ROOT / "CITATION.cff"]),
    ],
)
def test_files_for_others_have_the_form_they_read(schema: str, files: list[Path]) -> None:
    assert files
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", *map(str, files)]
    done = subprocess.run(check, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout


def test_workflows_may_only_read_unless_a_job_says_more() -> None:
    for path in WORKFLOWS:
        assert read(str(path))["permissions"] == {"contents": "read"}, path.name


def test_updates_look_where_versions_stand() -> None:
    updates = {part["package-ecosystem"]: part for part in read(".github/dependabot.yml")["updates"]}
    assert set(updates) == {"pip", "github-actions", "docker"}
    assert {"dependency-name": "torch"} in updates["pip"]["ignore"]  # constraints.txt says why


def test_checks_before_a_commit_are_those_of_make() -> None:
    (repo,) = read(".pre-commit-config.yaml")["repos"]
    recipe = re.search(r"^check:.*\n((\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe is not None
    programs = {Path(hook["entry"].split()[0]).name for hook in repo["hooks"]}
    assert programs == set(re.findall(r"\$\(BIN\)/([\w-]+)", recipe[1]))


def test_the_dockerfile_is_clean() -> None:
    """Where hadolint is installed, as `make test` does on Linux."""
    found = shutil.which("hadolint", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if found is None:
        pytest.skip("no hadolint for this machine")
    done = subprocess.run([found, ROOT / "Dockerfile"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout


def test_the_image_has_what_it_copies_and_nothing_else_is_sent() -> None:
    text = (ROOT / "Dockerfile").read_text()
    copied = [name for line in re.findall(r"^COPY (?!--)(.*) \S+$", text, re.MULTILINE) for name in line.split()]
    assert copied
    assert all((ROOT / name).exists() for name in copied)
    first, *allowed = (ROOT / ".dockerignore").read_text().split()
    assert first == "*"
    assert sorted(allowed) == sorted(f"!{name}" for name in copied)


def test_publishing_needs_no_password() -> None:
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    assert "id-token: write" in text
    assert not re.search(r"password:|secrets\.", text)
