"""Pages of the site from files beside docs/: what the repository's front page shows and the site needs too."""

import posixpath
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = {
    "ARCHITECTURE.md": "reference/architecture.md",
    "CODE_OF_CONDUCT.md": "reference/conduct.md",
    "CHANGELOG.md": "reference/changelog.md",
    "CONTRIBUTING.md": "reference/contributing.md",
    "SECURITY.md": "reference/security.md",
}
EXAMPLES = "reference/examples.md"
EXAMPLES_INTRODUCTION = """# Examples

Complete training loops in plain PyTorch. They take the particles, the views and a loss from refprior and nothing else.
`tests/test_doors.py` runs all three."""
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)(#[^)\s]*)?\)")


def pages() -> dict[str, str]:
    """Page -> Markdown, with links as they would be if the page lay where the file is."""
    found = {page: _moved((ROOT / name).read_text(), page) for name, page in PAGES.items()}
    return {**found, EXAMPLES: _examples()}


def relink(markdown: str, page: str) -> str:
    """Links of a page as the site has them.

    Those that lead out of docs/, `../SECURITY.md` or `../examples`, lead to pages of the site. Those to scripts of
    lessons and of the gallery, which a reader of the repository can open, lead to the pages made from them.
    """

    def new(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), found[1]))
        if target.startswith("docs/"):
            return re.sub(r"\.py(?=[)#])", ".md", found[0]) if (ROOT / "docs" / page).exists() else found[0]
        return f"]({_relative(target, page)}{found[2] or ''})"

    return LINK.sub(new, markdown)


def _moved(markdown: str, page: str) -> str:
    return LINK.sub(lambda found: f"]({_relative(posixpath.normpath(found[1]), page)}{found[2] or ''})", markdown)


def _relative(target: str, page: str) -> str:
    """From a path of the repository to a link on a page of the site; what the site does not have stays, and fails."""
    if target == "README.md":
        target = "docs/index.md"
    if target.rstrip("/").split("/")[0] == "examples":
        target = f"docs/{EXAMPLES}"
    target = f"docs/{PAGES[target]}" if target in PAGES else target
    return posixpath.relpath(target.removeprefix("docs/"), posixpath.dirname(page) or ".")


def _examples() -> str:
    parts = [EXAMPLES_INTRODUCTION]
    for script in sorted((ROOT / "examples").glob("*.py")):
        parts.append(f"## {script.stem.replace('_', ' ').capitalize()}\n\n`examples/{script.name}`")
        parts.append(f"```python\n{script.read_text()}```")
    return "\n\n".join(parts) + "\n"
