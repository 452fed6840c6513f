"""The text language of the thesis: text in, tensor expressions out.

The front end of both languages makes a tree of a text by a grammar (`frontend`). Here the tree gets axes
(`axes`), then becomes an expression (`build`); `to_text` makes a text of an expression (`text_writer`).
Index notation is a language of its own, in `indexed`.
"""

from sympy_tensordiff.parsing.api import parse
from sympy_tensordiff.parsing.indexed.api import parse_indexed
from sympy_tensordiff.parsing.parsed import ParsedExpression
from sympy_tensordiff.parsing.to_text import to_text

__all__ = ["ParsedExpression", "parse", "parse_indexed", "to_text"]
