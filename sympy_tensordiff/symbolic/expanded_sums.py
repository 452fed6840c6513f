"""The sum of each term of a body, as `sympy.expand` wants it.

Sums of terms become sums, a factor without a bound index leaves its sum, and the sum of a constant
becomes a multiple of it. An empty range sums to 0 whatever the body is, so that what may have no value
(a quotient, a read that nothing else keeps inside of its tensor) leaves a range only where that is
never empty.
"""

from __future__ import annotations

from typing import Any

from sympy import Add, Dummy, Idx, Max, Mul, Symbol, expand

from sympy_tensordiff.symbolic.binders import Binder
from sympy_tensordiff.symbolic.entries import TensorExpr
from sympy_tensordiff.symbolic.indices import Renaming
from sympy_tensordiff.symbolic.reduction_printing import PrintedSum
from sympy_tensordiff.symbolic.traversal import nodes_in


def expanded_sum(total: Any, **hints: Any) -> Any:
    """The sum with its body multiplied out and its terms summed one by one.

    >>> from sympy import symbols
    >>> from sympy_tensordiff.symbolic import IndexedSum, TensorSymbol, indices
    >>> i, n, mu = indices("i"), symbols("n", integer=True, positive=True), symbols("mu")
    >>> expanded_sum(IndexedSum(TensorSymbol("x", n)[i] - mu, (i, 0, n - 1)))
    -n*mu + IndexedSum(x[i], (i, 0, n - 1))
    """
    body = total.body.expand(**hints)
    extents = {e for node in nodes_in([total]) if isinstance(node, TensorExpr) for e in node.shape}
    return Add(*(_sum_of(total, term, extents) for term in Add.make_args(body)))


def _sum_of(total: Any, term: Any, extents: set[Any]) -> Any:
    """The sum of one term over the ranges of ``total``, without the factors and the ranges that it does not need."""
    indices = set(total.variables)
    is_never_empty = all((high - low).is_nonnegative for _, low, high in total.limits)
    outside = [
        factor
        for factor in Mul.make_args(term)
        if indices.isdisjoint(factor.free_symbols) and (is_never_empty or _is_total(factor, {}))
    ]
    inside = Mul(*(factor for factor in Mul.make_args(term) if factor not in outside))
    limits = list(total.limits)
    for limit in total.limits:
        index, low, high = limit
        rest = [other for other in limits if other is not limit]
        ranges = {k: (first, last) for k, first, last in rest}
        used = inside.free_symbols.union(*(b.free_symbols for other in rest for b in other[1:]))
        is_constant = index not in used and indices.isdisjoint(low.free_symbols | high.free_symbols)
        if is_constant and ((high - low).is_nonnegative or _is_total(inside, ranges)):
            outside.append(_count(low, high, extents))
            limits = rest
    if not limits:
        return Mul(*outside, inside)
    # The first names of the sum, so that terms over equal ranges are one sum.
    left = total.func(inside, *limits)
    pairs = zip(limits, total.variables, strict=False)
    names = Renaming((limit[0], name) for limit, name in pairs if limit[0] != name)
    return Mul(*outside, left.xreplace(names))


def _count(low: Any, high: Any, extents: set[Any]) -> Any:
    """The number of integers in a range; no extent of a tensor is negative."""
    count = expand(high - low + 1)
    sizes = {extent: Dummy(integer=True, nonnegative=True) for extent in extents if isinstance(extent, Symbol)}
    is_size = count in extents or count.xreplace(sizes).is_nonnegative
    return count if is_size else Max(0, count)


def _is_total(expr: Any, ranges: dict[Any, tuple[Any, Any]]) -> bool:
    """Whether an expression has a value for all sizes, with its bound indices in their ``ranges``."""
    if isinstance(expr, (Symbol, Idx)) or expr.is_Number or (isinstance(expr, TensorExpr) and expr.is_symbol):
        return True
    if expr.is_Add or expr.is_Mul:
        return all(_is_total(arg, ranges) for arg in expr.args)
    if expr.is_Pow:
        return bool(expr.exp.is_Integer and expr.exp > 0 and _is_total(expr.base, ranges))
    if getattr(expr, "is_tensor_entry", False) and expr.tensor.is_symbol:
        return all(_is_inside(*axis, ranges) for axis in zip(expr.indices, expr.tensor.shape, strict=True))
    if isinstance(expr, PrintedSum) and isinstance(expr, Binder):
        own = {k: (low, high) for k, low, high in expr.limits}
        return _is_total(expr.body, {**ranges, **own})
    return False


def _is_inside(index: Any, extent: Any, ranges: dict[Any, tuple[Any, Any]]) -> bool:
    """Whether an index is inside of its axis wherever it is read."""
    low, high = ranges.get(index, (index, index))
    return bool(low.is_nonnegative and (extent - 1 - high).is_nonnegative)
