"""The directive ``messages``: all messages of one error class, taken from the source."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from messages import HOLE, all_messages


class Messages(Directive):
    """The directive ``messages ShapeError``: a list of the messages, with … for the parts that depend on the case."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        texts = {_shown(message.text) for message in all_messages() if message.error == self.arguments[0]}
        result = nodes.bullet_list()
        for text in sorted(filter(_says_something, texts), key=_letters):
            result += nodes.list_item("", nodes.paragraph("", "", nodes.literal(text, text)))
        return [result]


def _shown(text: str) -> str:
    """Return a message with one … for each part that depends on the case."""
    return re.sub(r"…+", "…", re.sub(r"\{\w*\}", "…", text.replace(HOLE, "…"))).strip(" ;")


def _says_something(text: str) -> bool:
    """Return whether a message has more than two words."""
    return len(re.findall(r"\w+", text)) > 2


def _letters(text: str) -> str:
    """Return the words of ``text`` in lower case, as a sort key."""
    return " ".join(re.findall(r"\w+", text)).casefold()


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("messages", Messages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
