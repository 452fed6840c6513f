"""The text language of the thesis: text in, tensor expressions out.

The grammar makes a tree (`syntax`), which gets orders, constants and axes, each by one pass, and then
becomes an expression (`build`).
"""

from sympy_tensordiff.parsing.api import ParsedExpression, parse

__all__ = ["ParsedExpression", "parse"]
