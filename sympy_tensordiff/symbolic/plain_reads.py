"""Free indices that stand for whole axes."""

from __future__ import annotations

from typing import Any

from sympy import Expr, Idx, Piecewise, Symbol

from sympy_tensordiff.symbolic.binders import Binder
from sympy_tensordiff.symbolic.entries import TensorEntry
from sympy_tensordiff.symbolic.tabulate import same_extent
from sympy_tensordiff.symbolic.traversal import free_symbols_in


def plain_reads(expr: Any) -> dict[Any, Expr]:
    """The free indices of an expression that only select entries, as ``p`` in ``A[p, j]``, and the extents there.

    Such an index runs over the axes that it reads without leaving any shape: the expression is an
    entry of a tensor with this axis. An index that stands anywhere else, in another index, in a
    bound, in a condition, or as a number, is none of them; nor is one that reads axes of different
    extents.

    >>> import sympy_tensordiff as td
    >>> j, p, q, n, m = td.indices("j p q n m")
    >>> A = td.TensorSymbol("A", (n, m))
    >>> plain_reads(td.IndexedSum(A[p, j]*A[q, j]*q, (j, 0, m - 1)))
    {p: n}
    """
    found: dict[Any, Expr] = {}
    others: set[Any] = set()
    stack, seen = [expr], set()
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, (Symbol, Idx)):
            others.add(node)
        elif isinstance(node, TensorEntry):
            others |= node.tensor.free_symbols
            for index, extent in zip(node.indices, node.tensor.shape, strict=True):
                plain = isinstance(index, (Symbol, Idx)) and same_extent(found.setdefault(index, extent), extent)
                others |= set() if plain else index.free_symbols
        elif isinstance(node, Piecewise):
            others |= free_symbols_in([node])
        else:
            others |= set(node.variables) if isinstance(node, Binder) else set()
            stack += node.args
    return {index: found[index] for index in sorted(found, key=str) if index not in others}
