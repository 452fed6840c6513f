"""Expressions in index notation, as `parse_indexed` reads it."""

from __future__ import annotations

from typing import Any

from sympy_tensordiff.errors import ParseError, UnsupportedError
from sympy_tensordiff.parsing.indexed.api import parse_indexed
from sympy_tensordiff.parsing.matrix.write import parts_of
from sympy_tensordiff.parsing.parsed import ParsedExpression
from sympy_tensordiff.symbolic.printing import refuse_unprintable
from sympy_tensordiff.symbolic.to_indices import for_readers


def to_index_text(expr: Any) -> str:
    """An expression in index notation, a parsed one as a definition with its declarations and arguments."""
    expression, declared, arguments = parts_of(expr)
    expression = for_readers(expression)
    refuse_unprintable(expression, "index notation")
    text = str(expression)
    if not isinstance(expr, ParsedExpression):
        return text
    name = next(name for number in range(len(expr.tensors) + 1) if (name := f"f{number or ''}") not in expr.tensors)
    whole = f"declare {declared}  {name} = {text} {arguments}"
    try:
        parse_indexed(whole)
    except ParseError as error:
        raise UnsupportedError(f"to_text: td.parse_indexed would not read the text: {error.message}") from None
    return whole
