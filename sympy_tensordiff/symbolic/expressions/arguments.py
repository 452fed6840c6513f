"""Arguments of public functions, converted to SymPy objects and checked."""

from __future__ import annotations

from operator import index
from typing import Any

import sympy
from sympy.core.sympify import SympifyError, _sympify

from sympy_tensordiff.errors import ArgumentTypeError
from sympy_tensordiff.symbolic.expressions.partial_derivatives import distinct
from sympy_tensordiff.symbolic.expressions.traversal import native_parts, nodes_in


def as_expr(value: object, description: str) -> Any:
    """Return ``value`` converted to a SymPy object. Raise `ArgumentTypeError` if it cannot be converted; the message
    names it ``description``.

    Strings are not parsed, since that would evaluate them.
    """
    try:
        expr = _sympify(value)
    except SympifyError:
        expr = None
    if not isinstance(expr, sympy.Basic):
        hint = "; name an array as a td.TensorSymbol, and pass it to the kernel" if hasattr(value, "__array__") else ""
        if isinstance(value, str):
            hint = '; a text is not a symbol: n = td.indices("n") is one for an index or a size'
        raise ArgumentTypeError(f"{description} must be a SymPy expression or a number, not {value!r}{hint}")
    parts = nodes_in([expr], native_parts) if expr.args else ()
    return distinct(expr) if any(isinstance(part, (sympy.Derivative, sympy.Subs)) for part in parts) else expr


def as_int(value: Any, description: str) -> int:
    """Return ``value`` as an int. Raise `ArgumentTypeError`, whose message names it ``description``, for a bool or
    another value that is not an integer.
    """
    try:
        if not isinstance(value, bool):
            return index(value)
    except TypeError:
        pass
    raise ArgumentTypeError(f"{description} must be an int, not {value!r}")
