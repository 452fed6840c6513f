"""Reductions over index ranges: the sum, the product, the greatest and the least value."""

from __future__ import annotations

from typing import Any

from sympy import Max, Min

from sympy_tensordiff.errors import ArgumentError
from sympy_tensordiff.symbolic import deep
from sympy_tensordiff.symbolic.base import RealScalar
from sympy_tensordiff.symbolic.binders import Binder
from sympy_tensordiff.symbolic.checks import check_reads
from sympy_tensordiff.symbolic.documented import documented
from sympy_tensordiff.symbolic.expanded_sums import expanded_sum
from sympy_tensordiff.symbolic.limits import bound_forms, check_names, check_scopes, checked_body, checked_range
from sympy_tensordiff.symbolic.reduction_printing import PrintedExtremum, PrintedProduct, PrintedSum

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
    For bounds that are no index expressions.
OutOfShapeError
    For a read that leaves the shape of its tensor.
"""


class IndexedReduction(Binder, RealScalar):
    """Base of the sum, the product, the maximum and the minimum: one number out of those at all points of ranges."""

    def __new__(cls, body: Any, *limits: Any) -> Any:
        owner = cls.__name__
        body = checked_body(body, owner)
        if not limits:
            raise ArgumentError(f"{owner}({body}) has no range; write {owner}(body, (k, 0, n - 1))")
        ranges = tuple(checked_range(limit, owner) for limit in limits)
        check_names(body, ranges, owner)
        check_scopes(ranges, owner)
        result = cls._unchecked(body, *ranges)
        check_reads(body, result.ranges(), of_axes=False)
        return result

    def ranges(self) -> list[tuple[Any, tuple[Any, ...], tuple[Any, ...]]]:
        return [(k, bound_forms(low, Max), bound_forms(high, Min)) for k, low, high in reversed(self.limits)]

    @property
    def function(self) -> Any:
        """The body, under the name SymPy's printers ask for."""
        return self.args[0]


@documented(_SECTIONS)
class IndexedSum(PrintedSum, IndexedReduction):
    """The sum of ``body`` over index ranges.

    Notes
    -----
    An empty range sums to 0. (`sympy.Sum` follows Karr's convention there and does not.)

    Examples
    --------
    >>> from sympy_tensordiff.symbolic import TensorSymbol, indices
    >>> i, n = indices("i n")
    >>> x = TensorSymbol("x", n)
    >>> IndexedSum(x[i]**2, (i, 0, n - 1))
    IndexedSum(x[i]**2, (i, 0, n - 1))
    """

    def _eval_is_zero(self) -> bool | None:
        return True if self.args[0] == 0 else None

    def _eval_expand_basic(self, **hints: Any) -> Any:
        deep.refuse_walk(self, "expand")
        return expanded_sum(self, **hints)


@documented(_SECTIONS)
class IndexedProduct(PrintedProduct, IndexedReduction):
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
class IndexedMax(PrintedExtremum, IndexedReduction):
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

    _word = "max"


@documented(_SECTIONS)
class IndexedMin(PrintedExtremum, IndexedReduction):
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

    _word = "min"
