"""The indexed product, and the greatest and the least value over index ranges."""

from __future__ import annotations

from sympy_tensordiff.symbolic.reduction_printing import PrintedExtremum, PrintedProduct
from sympy_tensordiff.symbolic.sums import IndexedReduction


class IndexedProduct(PrintedProduct, IndexedReduction):
    """The product of ``body`` over index ranges.

    Parameters
    ----------
    body : Expr
        A scalar expression.
    *limits : (index, lower, upper)
        As in `IndexedSum`: the upper bound belongs to the range, the first limit is the innermost.

    Raises
    ------
    ArgumentError
        Without a limit, and for a range that is not complete or not finite.
    IndexExpressionError
        For bounds that are no index expressions.
    OutOfShapeError
        For a read that leaves the shape of its tensor.

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


class IndexedMax(PrintedExtremum, IndexedReduction):
    """The greatest value of ``body`` over index ranges.

    Parameters
    ----------
    body : Expr
        A scalar expression.
    *limits : (index, lower, upper)
        As in `IndexedSum`: the upper bound belongs to the range, the first limit is the innermost.

    Raises
    ------
    ArgumentError
        Without a limit, and for a range that is not complete or not finite.
    IndexExpressionError
        For bounds that are no index expressions.
    OutOfShapeError
        For a read that leaves the shape of its tensor.

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


class IndexedMin(PrintedExtremum, IndexedReduction):
    """The least value of ``body`` over index ranges.

    Parameters
    ----------
    body : Expr
        A scalar expression.
    *limits : (index, lower, upper)
        As in `IndexedSum`: the upper bound belongs to the range, the first limit is the innermost.

    Raises
    ------
    ArgumentError
        Without a limit, and for a range that is not complete or not finite.
    IndexExpressionError
        For bounds that are no index expressions.
    OutOfShapeError
        For a read that leaves the shape of its tensor.

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
