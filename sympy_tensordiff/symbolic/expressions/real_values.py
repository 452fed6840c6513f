"""Rejection of complex formulas: functions of complex numbers need symbols that are declared real.

Tensors are real, and so is an undeclared symbol or base, until a formula with a conjugate, a part or the imaginary unit
shows that its author means complex numbers.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import sympy
from sympy.concrete.expr_with_limits import ExprWithLimits
from sympy.core.function import AppliedUndef

from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.symbolic.expressions.traversal import native_parts, nodes_in

OF_COMPLEX = (sympy.conjugate, sympy.adjoint, sympy.re, sympy.im, sympy.arg)
"""Functions that a formula of real numbers does not need."""


def undeclared(expr: Any, integers: Collection[Any] = ()) -> list[str]:
    """Return the declarations, as texts, that are missing for ``expr`` to be known as real: one for each symbol, tensor
    and function that is not declared real. ``integers`` are the indices bound around ``expr``.
    """
    nodes = nodes_in([expr], _parts_to_search)
    bound = {variable for node in nodes if isinstance(node, ExprWithLimits) for variable in node.variables}
    found = set()
    for node in nodes:
        if isinstance(node, sympy.IndexedBase):
            name, kind = str(node.label), "IndexedBase"
        elif isinstance(node, sympy.Symbol) and node not in bound and node not in integers:
            name, kind = node.name, "Symbol"
        elif isinstance(node, AppliedUndef):
            name, kind = node.func.__name__, "Function"
        else:
            continue
        if not node.is_extended_real:
            found.add(f"{kind}({name!r}, real=True)")
    return sorted(found)


def refuse_undeclared(applied: Any, integers: Collection[Any] = ()) -> None:
    """Raise `UnsupportedError` unless the argument of ``applied``, a function of complex numbers such as a conjugate,
    is known to be real. Symbols in ``integers`` count as real.
    """
    declarations = undeclared(applied.args[0], integers)
    if declarations:
        raise UnsupportedError(
            f"{applied} is about complex numbers, and tensors and scalars are real: {way_out(declarations)}"
        )


def refuse_imaginary(body: Any, owner: str) -> None:
    """Raise `UnsupportedError` if the imaginary unit occurs in the body of a sum or tensor called ``owner``."""
    if any(node is sympy.S.ImaginaryUnit for node in nodes_in([body], native_parts)):
        raise UnsupportedError(f"the body of {owner} is complex: {body}; tensors are real: {way_out(undeclared(body))}")


def way_out(declarations: Collection[str]) -> str:
    """Return the advice at the end of an error message about complex values: to declare symbols real by the given
    ``declarations``, if any, or to write the real and the imaginary part as two tensors.
    """
    declare = f"declare {', '.join(declarations)}, or " if declarations else ""
    return f"{declare}write two real tensors, one for the real part and one for the imaginary part"


def _parts_to_search(node: Any) -> tuple[Any, ...]:
    """Return the parts of ``node`` in which `undeclared` searches for symbols that are not declared real: the tensor of
    an entry, nothing in nodes of this package, else the arguments.
    """
    if isinstance(node, sympy.Indexed):
        return (node.base,)
    return () if isinstance(node, (sympy.IndexedBase, sympy.Idx)) else native_parts(node)
