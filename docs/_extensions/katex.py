"""Formulas set by the KaTeX that the package bundles for its page, so that the site needs no network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

BUNDLED = Path(__file__).resolve().parents[2] / "sympy_tensordiff" / "app" / "web" / "static" / "katex"


def inline(writer: Any, node: nodes.math) -> None:
    writer.body.append(writer.starttag(node, "span", "", CLASS="math notranslate nohighlight"))
    writer.body.append(f"{writer.encode(node.astext())}</span>")
    raise nodes.SkipNode


def block(writer: Any, node: nodes.math_block) -> None:
    writer.body.append(writer.starttag(node, "div", "", CLASS="math notranslate nohighlight"))
    writer.body.append(f"{writer.encode(node.astext())}</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("katex", (inline, None), (block, None))
    app.add_css_file("katex.min.css")
    app.add_js_file("katex.min.js")
    app.add_js_file("formulas.js")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
