"""Pages of the reference: one for each public name, with the names of its topic below it.

The table "By topic" of ``reference.md`` is the only list. Each name in it becomes a page ``reference/NAME.md``, whose
text is the docstring, and a link in the table.
"""

from __future__ import annotations

import inspect
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import sympy_tensordiff as td

if TYPE_CHECKING:
    from sphinx.application import Sphinx

DOCS = Path(__file__).resolve().parents[1]
PAGES = DOCS / "reference"
NAME = re.compile(r"`(\w+)`")
ROW = re.compile(r"^\| .*$", re.MULTILINE)


def topics(text: str) -> list[list[str]]:
    """Return the names of each row of the table by topic."""
    return [NAME.findall(row) for row in ROW.findall(text.partition("## Names")[0]) if NAME.search(row)]


def page(name: str, others: list[str]) -> str:
    """Return the page of a name; a second name of a class links to the page of the class."""
    kind, real = getattr(td, name), getattr(td, name).__name__
    if inspect.isclass(kind) and real != name and hasattr(td, real):
        text = f"`td.{name}` is the class [`{real}`]({real}.md)."
    else:
        directive = "autoclass" if inspect.isclass(kind) else "autofunction"
        members = "\n   :members:\n   :show-inheritance:" if directive == "autoclass" else ""
        text = f"```{{eval-rst}}\n.. {directive}:: sympy_tensordiff.{name}{members}\n```"
    links = ", ".join(f"[`{other}`]({other}.md)" for other in others)
    return f"# {name}\n\n{text}\n\n" + (f"**See also:** {links}\n" if links else "")


def build() -> None:
    """Write all pages whose text has changed, and remove those of names that are gone."""
    pages: dict[str, list[str]] = {}
    for names in topics((DOCS / "reference.md").read_text(encoding="utf-8")):
        for name in names:
            pages.setdefault(name, []).extend(other for other in names if other not in (name, *pages.get(name, ())))
    if PAGES.exists() and {path.stem for path in PAGES.iterdir()} - set(pages):
        shutil.rmtree(PAGES)
    PAGES.mkdir(exist_ok=True)
    for name, others in pages.items():
        path, text = PAGES / f"{name}.md", page(name, others)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def link_names(_: Sphinx, document: str, source: list[str]) -> None:
    """Add links from the table to the pages."""
    if document == "reference":
        table, names, rest = source[0].partition("## Names")
        source[0] = ROW.sub(lambda row: NAME.sub(r"[`\1`](reference/\1.md)", row[0]), table) + names + rest


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", lambda _: build())
    app.connect("source-read", link_names)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
