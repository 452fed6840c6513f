"""LaTeX formulas as MathML, which browsers render themselves, and the font of the formulas."""

from __future__ import annotations

from functools import cache
from html import escape
from importlib.metadata import distribution
from pathlib import Path

from math_core import LatexError, LatexToMathML

FONT_FILE = Path(str(distribution("ziamath").locate_file("ziamath/fonts/STIXTwoMath-Regular.ttf")))
"""The font STIX Two Math, which the package ziamath contains: few systems have a font with all sizes of brackets."""
_MACROS = {"substack": r"\begin{subarray}{c}#1\end{subarray}"}
"""A command of amsmath that SymPy prints and the converter lacks."""


@cache
def _converter() -> LatexToMathML:
    """Return the converter from LaTeX to MathML."""
    return LatexToMathML(macros=_MACROS, fancy_error=False)


def to_mathml(latex: str, *, is_block: bool = True) -> str:
    """Return ``latex`` as a MathML ``<math>`` element, a displayed formula if ``is_block``, else one in a line of text.
    If it has an unknown command, the element shows the LaTeX source.
    """
    try:
        return _converter().convert_with_local_state(latex, displaystyle=is_block)
    except LatexError:
        return f"<math><mtext>{escape(latex)}</mtext></math>"
