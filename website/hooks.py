"""What MkDocs calls while it builds: pages that are made, equations as MathML, links to files beside docs/.

Whatever is wrong is a warning, and the build is strict: it fails.
"""

import html
import logging
import re
from typing import Any

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from nbformat import NotebookNode

from refprior.explore import write_static
from website import beside, commands, notebooks, reference, showing

log = logging.getLogger("mkdocs.plugins.refprior")

FENCE = re.compile(r"^ *(?:```+|~~~+)[ ]*(\S.*)$", re.MULTILINE)
FENCED = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
RUN_ON = re.compile(r"^((?![-*] |\d+\. )[^\s#|>].*)\n(?:[-*]|1\.) ", re.MULTILINE)  # a list on GitHub, and none here
LANGUAGES = {"python", "pycon", "text", "console", "json", "toml", "yaml", "dockerfile"}
FUNCTION = re.compile(r"<mi>(log|exp|sin|cos|max)</mi>")  # a thin space follows
CELL = re.compile(r"<td[^>]*>[^<]*</td>")  # a number and its error stay in one line
CARDS = "<!-- cards -->"
EXECUTED: dict[str, NotebookNode] = {}  # of this build
EQUATION = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made, and the pictures and notebooks that belong to them."""
    EXECUTED.clear()
    EXECUTED.update(_executed())
    made: dict[str, str | bytes] = {**reference.pages(), **commands.pages(), **beside.pages()}
    for name, content in (made | showing.files(EXECUTED) | _explorer()).items():
        files.append(File.generated(config, name, content=content))
    return files


def _explorer() -> dict[str, str | bytes]:
    """The explorer with answers that are computed beforehand, in explorer/. They take two minutes, and are kept."""
    folder = notebooks.ROOT / "build" / "explorer" / notebooks.key_of_code()[:20]
    if not (folder / "explorer").exists():
        write_static(folder / "explorer")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _executed() -> dict[str, NotebookNode]:
    found = {script.name: notebooks.executed(script) for script in notebooks.scripts()}
    for name in (name for name, nb in found.items() if nb is None):
        log.warning("%s has not been run as it is now: python -m website.notebooks", name)
    return {name: nb for name, nb in found.items() if nb is not None}


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, **_: Any) -> str:
    """Refuse blocks that the tests would not run; lead links to files beside docs/ to their pages; put in cards."""
    for language in FENCE.findall(markdown):
        if language not in LANGUAGES:
            log.warning("%s: a block of %r; blocks are one of %s", page.file.src_uri, language, sorted(LANGUAGES))
    for line in RUN_ON.findall(FENCED.sub("", markdown)):
        log.warning("%s: a list needs an empty line before it, after %r", page.file.src_uri, line)
    if CARDS in markdown:
        section = page.file.src_uri.partition("/")[0]
        markdown = markdown.replace(CARDS, showing.cards(EXECUTED, section, _in_order(config.nav, section)))
    return beside.relink(markdown, page.file.src_uri)


def _in_order(nav: Any, section: str) -> list[str]:
    """The pages of a section that are notebooks, in the order of the navigation."""
    texts = re.findall(rf"'({section}/[^']*)\.md'", str(nav))
    return [name for name in texts if any(script.name == name for script in notebooks.scripts())]


def on_page_content(content: str, page: Page, **_: Any) -> str:
    """Equations as MathML, which browsers draw themselves: no script and no font is loaded."""

    def mathml(found: re.Match[str]) -> str:
        made: str = convert(html.unescape(found[3]).strip(), display="block" if found[2] == "[" else "inline")
        if re.search(r">\\[a-zA-Z]", made):  # a command that it does not know is left as it was
            log.warning("%s: cannot read the equation %s", page.file.src_uri, found[3])
        return FUNCTION.sub(r'<mi>\1</mi><mspace width="0.17em"/>', made)

    content = CELL.sub(lambda found: found[0].replace(" ± ", "\u00a0±\u00a0"), content)
    return EQUATION.sub(mathml, content)
