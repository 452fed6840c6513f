"""Reductions of whole tensors, and compositions of them: sum, mean, norm, log-sum-exp, softmax."""

from __future__ import annotations

from typing import Any

from sympy import Mul, Pow, Rational

from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.symbolic import entrywise_functions
from sympy_tensordiff.symbolic.einsum import EinsumProduct, FilledTensor
from sympy_tensordiff.symbolic.elementwise import TensorAdd, TensorMul
from sympy_tensordiff.symbolic.matrix_functions import TensorLogSumExp, checked_axes
from sympy_tensordiff.symbolic.operations import operand, shape_of
from sympy_tensordiff.symbolic.subscripts import axis_labels


def sum(A: Any, axis: Any = None) -> Any:
    """The sum of the entries, over all axes or some.

    Parameters
    ----------
    A : Expr
        A tensor expression; a scalar is its own sum.
    axis : int or tuple of int, optional
        The axes that are summed over, which the result does not have; negative ones count from
        the last. By default all.

    Raises
    ------
    ShapeError
        If there is no such axis, or one is named twice.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> A = td.TensorSymbol("A", (3, 4))
    >>> td.sum(A).shape, td.sum(A, axis=0).shape, td.sum(A, axis=-1).shape
    ((), (4,), (3,))
    """
    A = operand(A, "sum")
    gone = checked_axes(axis, A, "sum")
    return EinsumProduct(_without(A, gone), A) if gone else A


def mean(A: Any, axis: Any = None) -> Any:
    """The mean of the entries, over all axes or some.

    Parameters
    ----------
    A : Expr
        A tensor expression; a scalar is its own mean.
    axis : int or tuple of int, optional
        As in `sum`.

    Raises
    ------
    ShapeError
        If there is no such axis, or one is named twice.

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
    return EinsumProduct(f",{_without(A, gone)}", 1 / count, A)


def norm(A: Any, ord: Any = 2) -> Any:
    """The 2-norm or the 1-norm of all entries of a tensor; of a matrix the 2-norm is that of Frobenius.

    Parameters
    ----------
    A : Expr
        A tensor expression of any rank, or a scalar.
    ord : {2, 1}
        2: the root of the sum of squares. 1: the sum of absolute values.

    Raises
    ------
    UnsupportedError
        If ``ord`` is another number.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> A = td.TensorSymbol("A", (3, 4))
    >>> td.norm(A) == td.sqrt(td.einsum("ij,ij->", A, A))
    True
    """
    A = operand(A, "norm")
    if ord == 1:
        return sum(entrywise_functions.abs(A))
    if ord != 2:
        raise UnsupportedError(f"norm: ord must be 1 or 2, not {ord!r}; others are sums of powers of td.abs(A)")
    labels = axis_labels(shape_of(A))
    return Pow(EinsumProduct(f"{labels},{labels}->", A, A), Rational(1, 2)) if labels else entrywise_functions.abs(A)


def logsumexp(A: Any, axis: Any = None) -> Any:
    """``log(sum(exp(A)))`` over all axes or some, without overflow.

    Parameters
    ----------
    A : Expr
        A tensor expression; a scalar is its own.
    axis : int or tuple of int, optional
        As in `sum`.

    Raises
    ------
    ShapeError
        If there is no such axis, or one is named twice.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> A = td.TensorSymbol("A", (3, 4))
    >>> td.logsumexp(A, axis=1).shape
    (3,)
    """
    A = operand(A, "logsumexp")
    gone = checked_axes(axis, A, "logsumexp")
    return TensorLogSumExp(A, gone) if gone else A


def softmax(A: Any, axis: Any = -1) -> Any:
    """``exp(A)`` divided by its sum over an axis, without overflow.

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
        kept = "".join(label for number, label in enumerate(labels) if number not in gone)
        summed = "".join(labels[number] for number in gone)
        ones = FilledTensor(1, [shape_of(A)[number] for number in gone])
        total = EinsumProduct(f"{kept},{summed}->{labels}", total, ones)
    return entrywise_functions.exp(TensorAdd(A, TensorMul(-1, total) if shape_of(total) else -total))


def _without(A: Any, axes: tuple[int, ...]) -> str:
    """The subscripts of the sum over some axes."""
    labels = axis_labels(shape_of(A))
    return f"{labels}->{''.join(label for axis, label in enumerate(labels) if axis not in axes)}"
