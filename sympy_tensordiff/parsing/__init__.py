"""Text languages: `parse` converts text to tensor expressions, `to_text` writes expressions as text.

`frontend` parses a text to a tree, for all languages. For the language of the thesis, `axes` infers the axes of the
tree and `build` builds the expression; `text_writer` writes it back. Index notation is read by `indexed`, matrix
formulas by `matrix`, LaTeX by `latex`.
"""

from sympy_tensordiff.parsing.api import parse
from sympy_tensordiff.parsing.indexed.api import parse_indexed
from sympy_tensordiff.parsing.parsed import ParsedExpression
from sympy_tensordiff.parsing.to_text import to_text

__all__ = ["ParsedExpression", "parse", "parse_indexed", "to_text"]
