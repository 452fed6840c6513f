"""Integer symbols: those that are declared so, and those that an expression uses as integers.

Most people type ``n = Symbol("n")``. Where such a symbol is an index, a bound of a range, an extent or an argument of a
delta, it is an integer, in the whole expression: an integer by its use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import sympy
from sympy import Eq, Idx, Mod, Symbol
from sympy.concrete.expr_with_limits import ExprWithLimits
from sympy.core.kind import NumberKind
from sympy.matrices.expressions.matexpr import MatrixElement, MatrixSymbol
from sympy.matrices.expressions.special import Identity, OneMatrix, ZeroMatrix
from sympy.tensor.array.expressions.array_expressions import ArrayElement, ArraySymbol

from sympy_tensordiff.symbolic.expressions.traversal import Below, arguments, nodes_in


def may_be_real(symbol: Any) -> bool:
    """Return whether a scalar symbol can stand for a real number, integers included: False if it is noncommutative, or
    declared as complex or not real.
    """
    declared_complex = symbol.is_complex and not symbol.is_extended_real
    return symbol.is_commutative is not False and symbol.is_extended_real is not False and not declared_complex


def may_be_integer(symbol: Any) -> bool:
    """Return whether a symbol may be an index, a bound or an extent: it is declared as an integer or as real, or has no
    assumptions.
    """
    if symbol.is_integer is not None or isinstance(symbol, sympy.Wild):
        return bool(symbol.is_integer)
    return symbol.kind is NumberKind and may_be_real(symbol)


def integers_by_use(exprs: Iterable[sympy.Basic], below: Below = arguments) -> set[Any]:
    """Return the symbols in `exprs` that are not declared integers but are used as an index, bound or extent, and so
    must be integers. ``below(node)`` returns the arguments of a node that are visited.

    >>> from sympy import symbols
    >>> from sympy_tensordiff.symbolic.index_notation.sums import IndexedSum
    >>> from sympy_tensordiff.symbolic.index_notation.tensors import TensorSymbol
    >>> a, i, n = symbols("a i n")
    >>> sorted(integers_by_use([a*IndexedSum(TensorSymbol("x", n)[i], (i, 0, n - 1))]), key=str)
    [i, n]
    """
    nodes = nodes_in(exprs, below)
    undeclared = {node for node in nodes if isinstance(node, Symbol) and not node.is_integer and may_be_integer(node)}
    found: set[Any] = set()
    for node in nodes if undeclared else ():
        for part in _index_parts(node):
            found |= undeclared.intersection(part.free_symbols)
    return found


def is_integer_in(symbol: Any, *exprs: sympy.Basic) -> bool:
    """Return whether ``symbol`` is an integer in ``exprs``: declared so, or by its use there."""
    return bool(symbol.is_integer) or (may_be_integer(symbol) and symbol in integers_by_use(exprs))


def _index_parts(node: Any) -> Iterable[Any]:
    """Return the expressions that ``node`` itself, of this package or of SymPy's, uses as indices, bounds or extents;
    not those that only its arguments use.
    """
    own: Iterable[Any] | None = getattr(node, "index_parts", None)
    if own is not None:
        return own
    rule = next((_RULES[kind] for kind in type(node).__mro__ if kind in _RULES), None)
    return () if rule is None else rule(node)


def _side_of_congruence(relation: Any) -> tuple[Any, ...]:
    """Return ``(Mod(e, m),)`` for an equation ``Mod(e, m) == number``, because ``e`` must then be an integer; () for
    any other relation.
    """
    left, right = relation.args
    is_congruence = isinstance(left, Mod) and right.is_Integer and left.args[1].is_Integer and left.args[1] > 1
    return (left,) if is_congruence else ()


_RULES: dict[type, Callable[[Any], Iterable[Any]]] = {
    ExprWithLimits: lambda node: [bound for limit in node.limits for bound in limit[1:]],
    sympy.Indexed: lambda node: node.indices,
    sympy.IndexedBase: lambda node: node.shape or (),
    Idx: lambda node: node.args[1:],
    sympy.KroneckerDelta: lambda node: node.args[:2],
    sympy.LeviCivita: lambda node: node.args,
    Eq: _side_of_congruence,
    sympy.Ne: _side_of_congruence,
    MatrixElement: lambda node: node.args[1:],
    ArrayElement: lambda node: node.indices,
    **dict.fromkeys((MatrixSymbol, ArraySymbol, Identity, OneMatrix, ZeroMatrix), lambda node: node.shape),
}
"""The index expressions in nodes of SymPy's own; ours have them as ``index_parts``."""
