"""Formulas as MathML, converted when the pages are built, with the font of the package's own page."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

from sympy_tensordiff.app.web.typesetting import FONT_FILE, to_mathml


def inline(writer: Any, node: nodes.math) -> None:
    writer.body.append(to_mathml(node.astext(), is_block=False))
    raise nodes.SkipNode


def block(writer: Any, node: nodes.math_block) -> None:
    writer.body.append(writer.starttag(node, "div", "", CLASS="math notranslate nohighlight"))
    writer.body.append(f"{to_mathml(node.astext())}</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    app.config.html_static_path.append(str(FONT_FILE))
    app.add_css_file("formulas.css")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
