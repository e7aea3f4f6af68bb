"""The page of commands, from the parser itself: what it prints cannot differ from what it takes."""

import re
import sys
from unittest.mock import patch

from refprior.cli import app

PAGE = "reference/commands.md"
INTRODUCTION = """# Commands

Every command has `--help`, which says the same. Exit codes and interruptions:
[Run folders](../runs.md#how-commands-end).

"""


def pages() -> dict[str, str]:
    """The one page, by its name."""
    with patch.object(sys, "argv", ["refprior"]):  # else usage would name the program that builds the site
        text = app.generate_docs(output_format="markdown")
    body = text[text.index("**Commands**") :]
    return {PAGE: INTRODUCTION + _escaped(body)}


def _escaped(text: str) -> str:
    """Help texts are plain: what Markdown would read as emphasis or a tag is escaped, but in code and in headings."""
    lines, code = [], False
    for line in text.splitlines():
        code ^= line.startswith("```")
        lines.append(line if code else re.sub(r"<(?=[a-zA-Z/])", "&lt;", line))
    return "\n".join(lines) + "\n"
