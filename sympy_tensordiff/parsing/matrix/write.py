"""Expressions as matrix formulas: what `str` says of them, where it is one."""

from __future__ import annotations

import re
from typing import Any

from sympy import Symbol

from sympy_tensordiff.errors import ParseError, UnsupportedError
from sympy_tensordiff.parsing.matrix.api import read_matrix
from sympy_tensordiff.parsing.parsed import ParsedExpression
from sympy_tensordiff.symbolic.indices import as_expr
from sympy_tensordiff.symbolic.operations import shape_of
from sympy_tensordiff.symbolic.printing import refuse_unprintable
from sympy_tensordiff.symbolic.tensors import TensorSymbol


def parts_of(expr: Any) -> tuple[Any, str, str]:
    """The expression, the declarations of its tensors, and its arguments as they end a text.

    Without arguments it is an expression alone, of which no declarations are written.
    """
    if isinstance(expr, ParsedExpression):
        arguments = "".join(f" derivative wrt {argument.name}" for argument in expr.arguments)
        return expr.expression, ", ".join(map(_declaration, expr.tensors.values())), arguments
    expression = as_expr(expr, "the argument of to_text")
    return expression, ", ".join(map(_declaration, _tensors(expression).values())), ""


def to_matrix_text(expr: Any) -> str:
    """An expression as a formula, a parsed one with its declarations and arguments."""
    is_parsed = isinstance(expr, ParsedExpression)
    expression, declared, arguments = parts_of(expr)
    declared = f"declare {declared} " * bool(declared)
    refuse_unprintable(expression, "a matrix formula")
    text = str(expression)
    dotted = re.sub(r"(?<![*.])[*/](?![*])", r".\g<0>", text)
    is_numpy = bool(re.search(r"@|\.T\b|\*\*", text))
    reason = "it would be read as another expression"
    for candidate in (text,) if is_numpy else (text, dotted):
        try:
            again = read_matrix(f"{declared}{candidate}{arguments}")
        except ParseError as error:
            reason = error.message
            continue
        # Where * is the product of matrices, what is read tells whether it was that of the entries.
        is_same = again.expression == expression if candidate is not dotted and not is_numpy else True
        if is_same and shape_of(again.expression) == shape_of(expression):
            return f"{declared}{candidate}{arguments}" if is_parsed else candidate
    raise UnsupportedError(
        f'to_text: matrix formulas cannot say {expression}: {reason}; write it in index notation, with language="index"'
    )


def _tensors(expression: Any) -> dict[str, Any]:
    """The tensors and the real symbols of an expression, by their names."""
    symbols = sorted(expression.free_symbols, key=str)
    sizes = {s for t in symbols if isinstance(t, TensorSymbol) for extent in t.shape for s in extent.free_symbols}
    sizes |= {s for extent in getattr(expression, "shape", ()) for s in extent.free_symbols}
    return {s.name: s for s in symbols if isinstance(s, TensorSymbol) or (isinstance(s, Symbol) and s not in sizes)}


def _declaration(tensor: Any) -> str:
    shape = getattr(tensor, "shape", ())
    name = f"{'int ' * (getattr(tensor, 'dtype', float) is int)}{tensor.name}"
    return f"{name}[{', '.join(map(str, shape))}]" if shape else name
