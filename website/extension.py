"""Sphinx extension: MathML, links to files beside docs/ and to the API, descriptions of figures."""

import hashlib
import importlib.metadata
import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator
from sphinx_gallery.scrapers import matplotlib_scraper

from refprior.explore import write_static

log = logging.getLogger(__name__)

ROOT = Path(__file__).parents[1]
CODE = {".py", ".html", ".css", ".js"}
PACKAGES = ("matplotlib", "numpy", "scikit-learn", "scipy", "torch")
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)(#[^)\s]*)?\)")
FIGURE = re.compile(r"^# Figure: (.*(?:\n# .*)*)", re.MULTILINE)
FUNCTION = re.compile(r"<mi>(log|exp|sin|cos|max)</mi>")  # a thin space follows
NUMBERED = re.compile(r"^\| ([^|]+) \| ((?:Section|Appendix) [^|]+) \| ((?:eq|fig|rem|tab|eg):[^|]+) \|$", re.MULTILINE)
NUMBERS = {  # label of the paper: its section, and its number or "–"
    label: (section, number)
    for number, section, label in NUMBERED.findall((ROOT / "docs" / "equations.md").read_text())
}
LABEL = re.compile(r"(?<![\w:])(" + "|".join(map(re.escape, sorted(NUMBERS, key=len, reverse=True))) + r")(?!\w)")
API = re.compile(r"(?:rp|refprior)((?:\.\w+)+)(?:\(.*)?", re.DOTALL)
FENCE = re.compile(r"^ *(?:```+|~~~+)[ ]*(\S.*)$", re.MULTILINE)
LANGUAGES = {"python", "pycon", "text", "console", "json", "toml", "yaml", "dockerfile"}
BESIDE = {  # files that the repository's front page shows, and their pages
    "ARCHITECTURE.md": "reference/architecture.md",
    "CHANGELOG.md": "reference/changelog.md",
    "CODE_OF_CONDUCT.md": "reference/conduct.md",
    "CONTRIBUTING.md": "reference/contributing.md",
    "README.md": "index.md",
    "SECURITY.md": "reference/security.md",
    "examples": "reference/examples.md",
}


def relink(markdown: str, page: str, folder: str) -> str:
    """Lead links to files beside docs/ and to scripts of the galleries to their pages; folder: where the text is."""

    def new(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, found[1]))
        inside = BESIDE.get(target) or BESIDE.get(target.partition("/")[0]) or target.removeprefix("docs/")
        inside = re.sub(r"^(learn|gallery)(?:/index\.md)?$", r"auto_\1/index.rst", inside)
        inside = re.sub(r"^(learn|gallery)/(\w+)\.(?:py|md)$", r"auto_\1/\2.rst", inside)
        return f"]({posixpath.relpath(inside, posixpath.dirname(page) or '.')}{found[2] or ''})"

    return LINK.sub(new, markdown)


def _source_read(app: Sphinx, docname: str, source: list[str]) -> None:
    path = Path(app.env.doc2path(docname))
    if path.suffix == ".md":
        page = path.relative_to(app.srcdir).as_posix()
        source[0] = relink(source[0], page, posixpath.join("docs", posixpath.dirname(page)))
        check_blocks(source[0], docname)


def _include_read(app: Sphinx, path: Path, _: str, source: list[str]) -> None:
    if path.suffix == ".md":
        source[0] = relink(source[0], f"{app.env.docname}.md", "")


def check_blocks(markdown: str, docname: str) -> None:
    """Warn about blocks that the tests would not run."""
    for language in FENCE.findall(markdown):
        if language not in LANGUAGES and not language.startswith("{"):
            log.warning("%s: a block of %r; blocks are one of %s", docname, language, sorted(LANGUAGES))


def mathml(self: HTML5Translator, node: nodes.math | nodes.math_block) -> None:
    """Write an equation as MathML, which browsers draw without a script or a font."""
    block = isinstance(node, nodes.math_block)
    made = convert(node.astext().strip(), display="block" if block else "inline")
    if re.search(r">\\[a-zA-Z]", made):
        log.warning("unknown command in the equation %s", node.astext(), location=node)
    self.body.append(FUNCTION.sub(r'<mi>\1</mi><mspace width="0.17em"/>', made))
    raise nodes.SkipNode


class LinkNames(SphinxPostTransform):
    """Link `rp.train` and other public names in code font to the API."""

    default_priority = 5

    def run(self, **_: Any) -> None:
        """Wrap each literal that names a public object in a link."""
        objects = self.env.get_domain("py").data["objects"]
        for literal in list(self.document.findall(nodes.literal)):
            found = API.fullmatch(literal.astext())
            if not found or isinstance(literal.parent, nodes.reference | pending_xref | nodes.title):
                continue
            # `rp.train` is refprior.training.train
            ours = re.compile(rf"refprior(\.[a-z_]+){{0,2}}{re.escape(found[1])}")
            names = (name for name in objects if ours.fullmatch(name))
            name = min(names, key=len, default=None)
            if name and objects[name].docname != self.env.docname:
                uri = self.app.builder.get_relative_uri(self.env.docname, objects[name].docname)
                link = nodes.reference("", "", internal=True, refuri=f"{uri}#{objects[name].node_id}")
                literal.replace_self(link)
                link += literal


class NumberLabels(SphinxPostTransform):
    """Show the number that an equation, table or figure has in the published paper instead of its label."""

    default_priority = 6

    def run(self, **_: Any) -> None:
        """Replace labels in texts by links to the page of equations."""
        if self.env.docname == "equations":
            return
        uri = self.app.builder.get_relative_uri(self.env.docname, "equations")
        for text in list(self.document.findall(nodes.Text)):
            parts = LABEL.split(text)
            if len(parts) == 1 or isinstance(
                text.parent, nodes.literal | nodes.literal_block | nodes.reference | nodes.title
            ):
                continue
            made: list[nodes.Node] = []
            for plain, label in zip(parts[::2], [*parts[1::2], ""], strict=True):
                made += [nodes.Text(plain)] if plain else []
                if label:
                    section, number = NUMBERS[label]
                    shown = section if number == "–" else number
                    made.append(nodes.reference("", shown, internal=True, refuri=uri, reftitle=f"{label}, {section}"))
            text.parent.replace(text, made)


def described_figures(block: Any, block_vars: Any, gallery_conf: Any) -> str:
    """Save the figures of a block as sphinx-gallery does, with the description in its comment as the alt text."""
    text: str = matplotlib_scraper(block, block_vars, gallery_conf)
    if not text:
        return text
    found = FIGURE.search(block.content)
    if not found:
        raise ValueError("a figure without a description: begin its block with '# Figure: …'")
    return re.sub(r":alt: .*", ":alt: " + found[1].replace("\n# ", " "), text)


def key_of_code() -> str:
    """Return a text that changes with refprior and with the packages that it computes and draws with."""
    sources = sorted(path for path in (ROOT / "src" / "refprior").rglob("*") if path.suffix in CODE)
    versions = " ".join([sys.version, *map(importlib.metadata.version, PACKAGES)]).encode()
    return hashlib.sha256(b"".join([versions, *(source.read_bytes() for source in sources)])).hexdigest()[:20]


def forget_outputs(folders: list[Path], key: Path) -> None:
    """Let sphinx-gallery run all scripts again if refprior has changed since the last build."""
    if not key.exists() or key.read_text() != key_of_code():
        for script in (path for folder in folders for path in folder.glob("*.md5")):
            script.unlink()
        key.parent.mkdir(parents=True, exist_ok=True)
        key.write_text(key_of_code())


def explorer(folder: Path) -> Path:
    """Return a folder with the explorer and its answers, computed once per version of the code."""
    found = folder / key_of_code()
    if not (found / "explorer").exists():
        write_static(found / "explorer")
    return found


def setup(app: Sphinx) -> dict[str, bool]:
    """Register all of it with Sphinx."""
    app.connect("source-read", _source_read)
    app.connect("include-read", _include_read)
    app.add_html_math_renderer("mathml", inline_renderers=(mathml, None), block_renderers=(mathml, None))
    app.add_post_transform(LinkNames)
    app.add_post_transform(NumberLabels)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
