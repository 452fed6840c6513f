"""Reductions over index ranges: sum, product, maximum and minimum."""

from __future__ import annotations

from typing import Any

from sympy import Add, Dummy, Idx, Max, Mul, Symbol, expand

from sympy_tensordiff.errors import ArgumentError
from sympy_tensordiff.symbolic.expressions import depth
from sympy_tensordiff.symbolic.expressions.base import RealScalar, argument
from sympy_tensordiff.symbolic.expressions.binders import Binder
from sympy_tensordiff.symbolic.expressions.replacement import IndexRenaming
from sympy_tensordiff.symbolic.expressions.traversal import nodes_in
from sympy_tensordiff.symbolic.index_notation.entries import TensorExpr
from sympy_tensordiff.symbolic.index_notation.limits import (
    IndexRange,
    check_names,
    check_reads,
    check_scopes,
    checked_body,
    checked_range,
)
from sympy_tensordiff.symbolic.index_notation.signatures import documented

_SECTIONS = """
Parameters
----------
body : Expr
    A scalar expression.
*limits : (index, lower, upper)
    The upper bound belongs to the range. As in `sympy.Sum` the first limit is the
    innermost: its bounds may contain the indices of later limits.

Raises
------
ArgumentError
    Without a limit, and for a range that is not complete or not finite.
IndexExpressionError
    For bounds that are not index expressions.
OutOfShapeError
    For a read that leaves the shape of its tensor.
"""


class IndexedReduction(Binder, RealScalar):
    """The base class of sum, product, maximum and minimum of a scalar ``body`` over index ranges."""

    def __new__(cls, body: Any, *limits: Any) -> Any:
        owner = cls.__name__
        body = checked_body(body, owner)
        if not limits:
            raise ArgumentError(f"{owner}({body}) has no range; write {owner}(body, (k, 0, n - 1))")
        ranges = tuple(checked_range(limit, owner) for limit in limits)
        check_names(body, ranges, owner)
        check_scopes(ranges, owner)
        result = cls._unchecked(body, *ranges)
        check_reads(result)
        return result

    def ranges(self) -> tuple[IndexRange, ...]:
        """Return the ranges of the indices, outermost first."""
        return tuple(IndexRange(*limit) for limit in reversed(self.limits))

    @classmethod
    def class_key(cls) -> tuple[int, int, str]:
        """Override `Basic.class_key`: reductions sort last in products, where they need no parentheses."""
        return 8, 0, cls.__name__

    function = argument(0, "The body, under the name SymPy's printers ask for.")


@documented(_SECTIONS)
class IndexedSum(IndexedReduction):
    """The sum of ``body`` over index ranges.

    Notes
    -----
    An empty range sums to 0. (`sympy.Sum` follows Karr's convention there and does not.)

    Examples
    --------
    >>> from sympy_tensordiff.symbolic import TensorSymbol
    >>> from sympy_tensordiff.symbolic.index_notation.indices import indices
    >>> i, n = indices("i n")
    >>> x = TensorSymbol("x", n)
    >>> IndexedSum(x[i]**2, (i, 0, n - 1))
    IndexedSum(x[i]**2, (i, 0, n - 1))
    """

    def _eval_is_zero(self) -> bool | None:
        """SymPy's hook for the assumption `zero`: True if the body is 0, else None."""
        return True if self.args[0] == 0 else None

    def _eval_expand_basic(self, **hints: Any) -> Any:
        """SymPy's hook for `expand`: expand the body and sum its terms one by one."""
        depth.refuse_walk(self, "expand")
        return expanded_sum(self, **hints)


@documented(_SECTIONS)
class IndexedProduct(IndexedReduction):
    """The product of ``body`` over index ranges.

    Notes
    -----
    The product over an empty range is 1. (`sympy.Product` follows Karr's convention there and is not.)

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> i, n = td.indices("i n")
    >>> x = td.TensorSymbol("x", n)
    >>> td.IndexedProduct(1 + x[i], (i, 0, n - 1))
    IndexedProduct(x[i] + 1, (i, 0, n - 1))
    """


@documented(_SECTIONS)
class IndexedMax(IndexedReduction):
    """The greatest value of ``body`` over index ranges.

    Notes
    -----
    Over an empty range it is negative infinity, the supremum of nothing. Points of the greatest value share
    its derivative equally.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> i, k, n, m = td.indices("i k n m")
    >>> A = td.TensorSymbol("A", (n, m))
    >>> td.TensorComprehension(td.IndexedMax(A[i, k], (k, 0, m - 1)), (i, n))
    TensorComprehension(IndexedMax(A[i, k], (k, 0, m - 1)), (i, n))
    """


@documented(_SECTIONS)
class IndexedMin(IndexedReduction):
    """The least value of ``body`` over index ranges.

    Notes
    -----
    Over an empty range it is infinity, the infimum of nothing. Points of the least value share its derivative
    equally.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> i, n = td.indices("i n")
    >>> x = td.TensorSymbol("x", n)
    >>> td.IndexedMin(x[i]**2, (i, 0, n - 1))
    IndexedMin(x[i]**2, (i, 0, n - 1))
    """


# ---------------------------------------------------------------------------- sums of terms


def expanded_sum(total: Any, **hints: Any) -> Any:
    """Return ``total`` with its body expanded and its terms summed one by one, as `sympy.expand` does.

    Sums of terms become sums, a factor without a bound index is taken out of its sum, and the sum of a constant becomes
    a multiple of it. An empty range sums to 0 whatever the body is, so a part that may have no value (a quotient, or a
    read that only the range keeps in bounds) is taken out of a range only if that is never empty.

    >>> from sympy import symbols
    >>> from sympy_tensordiff.symbolic import IndexedSum, TensorSymbol
    >>> from sympy_tensordiff.symbolic.index_notation.indices import indices
    >>> i, n, mu = indices("i"), symbols("n", integer=True, positive=True), symbols("mu")
    >>> expanded_sum(IndexedSum(TensorSymbol("x", n)[i] - mu, (i, 0, n - 1)))
    -mu*n + IndexedSum(x[i], (i, 0, n - 1))
    """
    body = total.body.expand(**hints)
    extents = {e for node in nodes_in([total]) if isinstance(node, TensorExpr) for e in node.shape}
    return Add(*(_sum_of(total, term, extents) for term in Add.make_args(body)))


def _sum_of(total: Any, term: Any, extents: set[Any]) -> Any:
    """Return the sum of ``term`` over the ranges of ``total``, simplified: constant factors are put in front, and a
    range of an unused index becomes a factor, its length. The ``extents`` are known to be at least 0.
    """
    indices = set(total.variables)
    is_never_empty = all((high - low).is_nonnegative for _, low, high in total.limits)
    outside = [
        factor
        for factor in Mul.make_args(term)
        if indices.isdisjoint(factor.free_symbols) and (is_never_empty or _is_defined_everywhere(factor, {}))
    ]
    inside = Mul(*(factor for factor in Mul.make_args(term) if factor not in outside))
    limits = list(total.limits)
    for limit in total.limits:
        index, low, high = limit
        rest = [other for other in limits if other is not limit]
        ranges = {k: (first, last) for k, first, last in rest}
        used = inside.free_symbols.union(*(b.free_symbols for other in rest for b in other[1:]))
        is_constant = index not in used and indices.isdisjoint(low.free_symbols | high.free_symbols)
        if is_constant and ((high - low).is_nonnegative or _is_defined_everywhere(inside, ranges)):
            outside.append(_range_length(low, high, extents))
            limits = rest
    if not limits:
        return Mul(*outside, inside)
    # The first names of the sum, so that terms over equal ranges are one sum.
    left = total.func(inside, *limits)
    pairs = zip(limits, total.variables, strict=False)
    names = IndexRenaming((limit[0], name) for limit, name in pairs if limit[0] != name)
    return Mul(*outside, left.xreplace(names))


def _range_length(low: Any, high: Any, extents: set[Any]) -> Any:
    """Return the number of integers from ``low`` to ``high``: ``Max(0, count)``, or just the count if it cannot be
    negative because ``extents`` are not.
    """
    count = expand(high - low + 1)
    sizes = {extent: Dummy(integer=True, nonnegative=True) for extent in extents if isinstance(extent, Symbol)}
    is_size = count in extents or count.xreplace(sizes).is_nonnegative
    return count if is_size else Max(0, count)


def _is_defined_everywhere(expr: Any, ranges: dict[Any, tuple[Any, Any]]) -> bool:
    """Return whether ``expr`` has a value for all sizes (no division by 0, all reads in bounds) when bound indices lie
    in their ``ranges``.
    """
    if isinstance(expr, (Symbol, Idx)) or expr.is_Number or (isinstance(expr, TensorExpr) and expr.is_symbol):
        return True
    if expr.is_Add or expr.is_Mul:
        return all(_is_defined_everywhere(arg, ranges) for arg in expr.args)
    if expr.is_Pow:
        return bool(expr.exp.is_Integer and expr.exp > 0 and _is_defined_everywhere(expr.base, ranges))
    if getattr(expr, "is_tensor_entry", False) and expr.tensor.is_symbol:
        return all(_is_inside(*axis, ranges) for axis in zip(expr.indices, expr.tensor.shape, strict=True))
    if isinstance(expr, IndexedSum):
        own = {k: (low, high) for k, low, high in expr.limits}
        return _is_defined_everywhere(expr.body, {**ranges, **own})
    return False


def _is_inside(index: Any, extent: Any, ranges: dict[Any, tuple[Any, Any]]) -> bool:
    """Return whether ``index`` is provably inside of an axis of ``extent``, given the ``ranges`` of bound indices."""
    low, high = ranges.get(index, (index, index))
    return bool(low.is_nonnegative and (extent - 1 - high).is_nonnegative)
