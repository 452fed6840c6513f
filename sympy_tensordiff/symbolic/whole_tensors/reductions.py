"""Reductions along axes as in NumPy: sums, means, extrema, running sums, norms, softmax."""

from __future__ import annotations

from typing import Any

import sympy
from sympy import Expr, Mul, S

from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.symbolic.expressions.arguments import as_expr
from sympy_tensordiff.symbolic.expressions.call_errors import explained
from sympy_tensordiff.symbolic.index_notation.signatures import Expression, Scalar, documented
from sympy_tensordiff.symbolic.index_notation.sums import IndexedMax, IndexedMin, IndexedProduct, IndexedSum
from sympy_tensordiff.symbolic.index_notation.tabulate import (
    entry_indices,
    fresh_indices,
    inline_entry,
    tabulate,
    upper_nodes,
)
from sympy_tensordiff.symbolic.whole_tensors import entrywise_functions
from sympy_tensordiff.symbolic.whole_tensors.einsum import EinsumProduct, FilledTensor, with_unit_axes
from sympy_tensordiff.symbolic.whole_tensors.elementwise import TensorAdd, TensorMul
from sympy_tensordiff.symbolic.whole_tensors.entrywise_functions import sqrt, square
from sympy_tensordiff.symbolic.whole_tensors.matrix_functions import TensorLogSumExp, checked_axes, checked_axis
from sympy_tensordiff.symbolic.whole_tensors.operations import operand, shape_of
from sympy_tensordiff.symbolic.whole_tensors.rearrangements import ravel
from sympy_tensordiff.symbolic.whole_tensors.subscripts import axis_labels

OVER_AXES = """
Parameters
----------
A : Expr
    A tensor expression; a scalar is its own sum, mean, maximum and log-sum-exp.
axis : int or tuple of int, optional
    The axes that are reduced; negative ones count from the last. By default all.
keepdims : bool
    Whether these axes stay, with the extent 1.

Returns
-------
Expr
    A tensor expression of the shape of ``A`` without the axes; a scalar without any axis.

Raises
------
ShapeError
    If there is no such axis, or one is named twice.
"""


@documented(OVER_AXES)
def sum(A: Expression, axis: Any = None, keepdims: bool = False) -> Any:
    """The sum of the entries of ``A`` along the axes ``axis``, by default all, as `numpy.sum`. With ``keepdims``, these
    axes remain in the result with length 1.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> A = td.TensorSymbol("A", (3, 4))
    >>> td.sum(A).shape, td.sum(A, axis=0).shape, td.sum(A, axis=-1).shape
    ((), (4,), (3,))
    """
    A = operand(A, "sum")
    gone = checked_axes(axis, A, "sum")
    return with_unit_axes(EinsumProduct(_sum_subscripts(A, gone), A), gone if keepdims else ()) if gone else A


@documented(OVER_AXES)
def mean(A: Expression, axis: Any = None, keepdims: bool = False) -> Any:
    """The mean of the entries of ``A`` along the axes ``axis``, by default all, as `numpy.mean`. With ``keepdims``,
    these axes remain in the result with length 1.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> A = td.TensorSymbol("A", (3, 4))
    >>> td.mean(A, axis=0).shape
    (4,)
    """
    A = operand(A, "mean")
    gone = checked_axes(axis, A, "mean")
    if not gone:
        return A
    count = Mul(*(shape_of(A)[number] for number in gone))
    return with_unit_axes(EinsumProduct(f",{_sum_subscripts(A, gone)}", 1 / count, A), gone if keepdims else ())


@documented(OVER_AXES)
def logsumexp(A: Expression, axis: Any = None, keepdims: bool = False) -> Any:
    """Return ``log(sum(exp(A)))`` over the axes ``axis``, by default all, without overflow. With ``keepdims``, these
    axes stay with length 1.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> A = td.TensorSymbol("A", (3, 4))
    >>> td.logsumexp(A, axis=1).shape
    (3,)
    """
    A = operand(A, "logsumexp")
    gone = checked_axes(axis, A, "logsumexp")
    return with_unit_axes(TensorLogSumExp(A, gone), gone if keepdims else ()) if gone else A


@explained
def softmax(A: Expression, axis: Any = -1) -> Any:
    """Return ``exp(A)`` divided by its sum over ``axis``, by default the last axis, without overflow.

    Parameters
    ----------
    A : Expr
        A tensor expression of rank > 0.
    axis : int or tuple of int, optional
        As in `sum`; None means all. By default the last.

    Raises
    ------
    ShapeError
        If there is no such axis, or one is named twice.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> A = td.TensorSymbol("A", (3, 4))
    >>> td.softmax(A).shape
    (3, 4)
    """
    A = operand(A, "softmax")
    gone = checked_axes(axis, A, "softmax")
    total = logsumexp(A, gone)
    if shape_of(total):
        labels = axis_labels(shape_of(A))
        remaining = "".join(label for number, label in enumerate(labels) if number not in gone)
        summed = "".join(labels[number] for number in gone)
        ones = FilledTensor(1, [shape_of(A)[number] for number in gone])
        total = EinsumProduct(f"{remaining},{summed}->{labels}", total, ones)
    return entrywise_functions.exp(TensorAdd(A, TensorMul(-1, total) if shape_of(total) else -total))


def _sum_subscripts(A: Any, axes: tuple[int, ...]) -> str:
    """Return the einsum subscripts of the sum of ``A`` over ``axes``: ``"ij->j"`` for axis 0 of a matrix."""
    labels = axis_labels(shape_of(A))
    return f"{labels}->{''.join(label for axis, label in enumerate(labels) if axis not in axes)}"


_RUNNING = """
Parameters
----------
A : Expr
    A tensor expression.
axis : int, optional
    The axis along which it runs. By default over all entries, in the order of `ravel`.

Returns
-------
Expr
    A tensor expression of the shape of ``A``; of rank 1 without an axis.

Raises
------
ShapeError
    If there is no such axis.
"""


@documented(OVER_AXES)
def max(A: Expression, axis: Any = None, keepdims: bool = False) -> Any:
    """The largest entry of ``A``, over all axes or those in ``axis``; entries that are tied share the derivative
    equally. With ``keepdims``, these axes stay with length 1.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> A = td.TensorSymbol("A", (3, 4))
    >>> td.max(A), td.max(A, axis=0).shape, td.max(A, axis=1, keepdims=True).shape
    (IndexedMax(A[i, j], (i, 0, 2), (j, 0, 3)), (4,), (3, 1))
    """
    return _reduce(IndexedMax, A, axis, keepdims, "max")


@documented(OVER_AXES)
def min(A: Expression, axis: Any = None, keepdims: bool = False) -> Any:
    """The smallest entry of ``A``, over all axes or those in ``axis``; entries that are tied share the derivative
    equally. With ``keepdims``, these axes stay with length 1.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> td.min(td.TensorSymbol("A", (3, 4)), axis=1).shape
    (3,)
    """
    return _reduce(IndexedMin, A, axis, keepdims, "min")


@documented(OVER_AXES)
def prod(A: Expression, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the product of the entries of ``A`` over the axes ``axis``, by default all. With ``keepdims``, these axes
    stay with length 1.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> x = td.TensorSymbol("x", 4)
    >>> td.prod(x), td.prod(td.outer(x, x), axis=0).shape
    (IndexedProduct(x[i], (i, 0, 3)), (4,))
    """
    return _reduce(IndexedProduct, A, axis, keepdims, "prod")


@documented(OVER_AXES)
def var(A: Expression, axis: Any = None, keepdims: bool = False, ddof: int = 0) -> Any:
    """The mean of ``(A - mean(A))**2`` over all axes or those in ``axis``; ``ddof`` is subtracted from the number of
    entries by which the sum is divided. With ``keepdims``, these axes stay with length 1.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> x = td.TensorSymbol("x", 4)
    >>> td.var(x) == td.mean((x - td.mean(x)) ** 2)
    True
    """
    A, ddof = operand(A, "var"), as_expr(ddof, "var: ddof")
    gone = checked_axes(axis, A, "var")
    centred = A - mean(A, gone, keepdims=len(gone) < len(shape_of(A)))
    result = mean(square(centred), gone, keepdims=keepdims)
    count = sympy.Mul(*(shape_of(A)[number] for number in gone))
    return result if ddof == 0 else result * (count / (count - ddof))


@documented(OVER_AXES)
def std(A: Expression, axis: Any = None, keepdims: bool = False, ddof: int = 0) -> Any:
    """Return the standard deviation of the entries of ``A`` over the axes ``axis``, by default all: the square root of
    `var`. ``ddof`` is subtracted from the number of entries; with ``keepdims``, these axes stay with length 1.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> td.std(td.TensorSymbol("A", (3, 4)), axis=0).shape
    (4,)
    """
    return sqrt(var(A, axis, keepdims, ddof))


@documented(_RUNNING)
def cumsum(A: Expression, axis: int | None = None) -> Any:
    """Return the running sums along an axis: each entry of the result is the sum of the entries of ``A`` up to its
    position. Without an axis, all entries are summed in row-major order, as one vector.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> td.cumsum(td.TensorSymbol("x", 4))
    TensorComprehension(IndexedSum(x[j], (j, 0, i)), (i, 4))
    """
    return _running_reduction(IndexedSum, A, axis, "cumsum")


@documented(_RUNNING)
def cumprod(A: Expression, axis: int | None = None) -> Any:
    """Return the running products along an axis: each entry of the result is the product of the entries of ``A`` up to
    its position. Without an axis, all entries are multiplied in row-major order, as one vector.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> td.cumprod(td.TensorSymbol("A", (3, 4)), axis=1).shape
    (3, 4)
    """
    return _running_reduction(IndexedProduct, A, axis, "cumprod")


def _reduce(reduction: Any, A: Any, axis: Any, keepdims: bool, owner: str) -> Any:
    """Return the reduction of ``A`` along ``axis`` by the class ``reduction``, such as `IndexedMax`; ``A`` itself if
    there are no axes to reduce. With ``keepdims``, reduced axes are kept with length 1. ``owner`` names the function in
    errors.
    """
    A = operand(A, owner)
    shape, gone = shape_of(A), checked_axes(axis, A, owner)
    if not gone:
        return A
    remaining = [axis for axis in range(len(shape)) if axis not in gone]
    if keepdims and remaining:
        return with_unit_axes(_reduce(reduction, A, axis, False, owner), gone)
    lengths = [shape[axis] for axis in sorted(gone)]

    def entry(*indices: Expr) -> Any:
        """Return the entry of the result at ``indices``: the reduction of entries of ``A`` over the reduced axes."""
        own = entry_indices(fresh_indices(len(gone), (A, *indices, *shape)), lengths)
        at = dict(zip(sorted(gone), own, strict=True))
        at |= zip(remaining, [indices[axis] for axis in remaining] if keepdims else indices, strict=True)
        limits = [(index, 0, length - 1) for index, length in zip(own, lengths, strict=True) if length != 1]
        body = inline_entry(A, [at[axis] for axis in range(len(shape))])
        return reduction(body, *limits) if limits else body

    extents = [S.One if axis in gone else extent for axis, extent in enumerate(shape) if keepdims or axis in remaining]
    return tabulate(extents, (A,), entry)


def _running_reduction(reduction: Any, A: Any, axis: Any, owner: str) -> Any:
    """Return the running reduction of ``A`` along ``axis``, such as a running sum: each entry is the reduction of the
    entries up to it. If ``axis`` is None, it runs over all entries in row-major order. Errors name the operation
    ``owner``.
    """
    A = ravel(operand(A, owner)) if axis is None else operand(A, owner)
    along = checked_axis(0 if axis is None else axis, A, owner)

    def entry(*indices: Expr) -> Any:
        """Return the entry at ``indices`` of a cumulative sum (or another reduction) of ``A``: the reduction of the
        entries of ``A`` along the axis, from the first one to this position.
        """
        (k,) = fresh_indices(1, (A, *indices, *shape_of(A)))
        last = shape_of(A)[along] - 1

        def entry_at(index: Expr) -> Expr:
            """Return the entry of the tensor ``A`` at ``index`` along the axis that is reduced, and at ``indices``
            along the other axes.
            """
            result: Expr = inline_entry(A, (*indices[:along], index, *indices[along + 1 :]))
            return result

        forwards, backwards = entry_at(k), entry_at(last - k)
        if len(upper_nodes(backwards)) < len(upper_nodes(forwards)):
            return reduction(backwards, (k, last - indices[along], last))  # of a reversed tensor
        return reduction(forwards, (k, 0, indices[along]))

    return tabulate(shape_of(A), (A,), entry)


# ---------------------------------------------------------------------------- entry by entry


@explained
def norm(A: Scalar, ord: Any = 2) -> Any:
    """Return a norm of all entries of ``A``, taken as one vector: ``ord`` is 2, 1, another positive number or infinity.
    The 2-norm of a matrix is thus the Frobenius norm.

    NumPy's norms of a matrix by ``ord`` 1, 2 and infinity are others: the first is
    ``td.max(td.sum(td.abs(A), axis=0))``, the last the same with ``axis=1``.

    Parameters
    ----------
    A : Expr
        A tensor expression of any rank, or a scalar.
    ord : number, infinity or "fro"
        2 and "fro": the root of the sum of squares. 1: the sum of absolute values. Another positive
        number ``p``: the p-th root of the sum of their powers. Infinity: the largest one.

    Raises
    ------
    UnsupportedError
        If ``ord`` is something else: norms of singular values, such as "nuc", are not there.

    Examples
    --------
    >>> import sympy, sympy_tensordiff as td
    >>> A = td.TensorSymbol("A", (3, 4))
    >>> td.norm(A) == td.norm(A, "fro") == td.sqrt(td.einsum("ij,ij->", A, A))
    True
    >>> td.norm(A, 3), td.norm(A, sympy.oo) == td.max(td.abs(A))
    (sum(abs(A)**3)**(1/3), True)
    """
    A = operand(A, "norm")
    if ord in (2, "fro"):
        labels = axis_labels(shape_of(A))
        return sqrt(EinsumProduct(f"{labels},{labels}->", A, A)) if labels else entrywise_functions.abs(A)
    power = None if isinstance(ord, str) else as_expr(ord, "ord of norm")
    if power is None or not power.is_extended_positive:
        raise UnsupportedError(
            f'norm: ord must be a positive number, infinity or "fro", not {ord!r}; a norm of singular values ("nuc") '
            "has no form here"
        )
    if power == sympy.oo:
        return max(entrywise_functions.abs(A))
    total = sum(entrywise_functions.abs(A) if power == 1 else entrywise_functions.abs(A) ** power)
    return total if power == 1 else total ** (1 / power)
