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

from website import beside, commands, notebooks, reference

log = logging.getLogger("mkdocs.plugins.refprior")

FENCE = re.compile(r"^ *(?:```+|~~~+)[ ]*(\S.*)$", re.MULTILINE)
LANGUAGES = {"python", "pycon", "text", "console", "json", "toml", "yaml", "dockerfile"}
EQUATION = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made, and the pictures and notebooks that belong to them."""
    made: dict[str, str | bytes] = {**reference.pages(), **commands.pages(), **beside.pages()}
    for name, content in (made | notebooks.files()).items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Refuse blocks that the tests would not run; lead links to files beside docs/ to their pages."""
    for language in FENCE.findall(markdown):
        if language not in LANGUAGES:
            log.warning("%s: a block of %r; blocks are one of %s", page.file.src_uri, language, sorted(LANGUAGES))
    return beside.relink(markdown, page.file.src_uri)


def on_page_content(content: str, page: Page, **_: Any) -> str:
    """Equations as MathML, which browsers draw themselves: no script and no font is loaded."""

    def mathml(found: re.Match[str]) -> str:
        display = found[2] == "["
        try:
            return convert(html.unescape(found[3]).strip(), display="block" if display else "inline")
        except Exception as error:  # whatever a parser raises, the equation cannot be shown
            log.warning("%s: cannot read the equation %s: %s", page.file.src_uri, found[3], error)
            return found[0]

    return EQUATION.sub(mathml, content)
