"""Symbols that are integers by use: those whose declaration does not say what they are.

Most people type ``n = Symbol("n")``. Where such a symbol is an index, a bound of a range, an extent or an argument of a
delta, it is an integer, in the whole expression.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from sympy import Basic, Eq, Idx, Indexed, IndexedBase, KroneckerDelta, LeviCivita, Mod, Ne, Symbol
from sympy.concrete.expr_with_limits import ExprWithLimits
from sympy.matrices.expressions.matexpr import MatrixElement, MatrixSymbol
from sympy.matrices.expressions.special import Identity, OneMatrix, ZeroMatrix
from sympy.tensor.array.expressions.array_expressions import ArrayElement, ArraySymbol

from sympy_tensordiff.symbolic.indices import may_be_integer
from sympy_tensordiff.symbolic.traversal import nodes_in


def integers_by_use(exprs: Iterable[Basic]) -> set[Any]:
    """The symbols, free or bound, that are integers because of where they stand, and not declared so.

    >>> from sympy import symbols
    >>> from sympy_tensordiff.symbolic.sums import IndexedSum
    >>> from sympy_tensordiff.symbolic.tensors import TensorSymbol
    >>> a, i, n = symbols("a i n")
    >>> sorted(integers_by_use([a*IndexedSum(TensorSymbol("x", n)[i], (i, 0, n - 1))]), key=str)
    [i, n]
    """
    nodes = nodes_in(exprs)
    undeclared = {node for node in nodes if isinstance(node, Symbol) and not node.is_integer and may_be_integer(node)}
    found: set[Any] = set()
    for node in nodes if undeclared else ():
        for part in _index_parts(node):
            found |= undeclared.intersection(part.free_symbols)
    return found


def is_integer_in(symbol: Any, *exprs: Basic) -> bool:
    """Whether a symbol is an integer in the expressions: declared so, or by its use."""
    return bool(symbol.is_integer) or (may_be_integer(symbol) and symbol in integers_by_use(exprs))


def _index_parts(node: Any) -> Iterable[Any]:
    """The index expressions that a node itself is made of."""
    own: Iterable[Any] | None = getattr(node, "index_parts", None)
    if own is not None:
        return own
    rule = next((_RULES[kind] for kind in type(node).__mro__ if kind in _RULES), None)
    return () if rule is None else rule(node)


def _of_relation(relation: Any) -> tuple[Any, ...]:
    """The sides of a congruence, which results have in place of a condition on a free index."""
    left, right = relation.args
    is_congruence = isinstance(left, Mod) and right.is_Integer and left.args[1].is_Integer and left.args[1] > 1
    return (left,) if is_congruence else ()


_RULES: dict[type, Callable[[Any], Iterable[Any]]] = {
    ExprWithLimits: lambda node: [bound for limit in node.limits for bound in limit[1:]],
    Indexed: lambda node: node.indices,
    IndexedBase: lambda node: node.shape or (),
    Idx: lambda node: node.args[1:],
    KroneckerDelta: lambda node: node.args[:2],
    LeviCivita: lambda node: node.args,
    Eq: _of_relation,
    Ne: _of_relation,
    MatrixElement: lambda node: node.args[1:],
    ArrayElement: lambda node: node.indices,
    **dict.fromkeys((MatrixSymbol, ArraySymbol, Identity, OneMatrix, ZeroMatrix), lambda node: node.shape),
}
"""The index expressions in nodes of SymPy's own; ours have them as ``index_parts``."""
