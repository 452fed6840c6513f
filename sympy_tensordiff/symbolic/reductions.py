"""What NumPy computes along axes and by choices: compositions of indexed reductions and element-wise functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sympy
from sympy import Expr, Integer, Ne, Piecewise, S
from sympy.logic.boolalg import Boolean

from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.symbolic import entrywise_functions
from sympy_tensordiff.symbolic.documented import documented
from sympy_tensordiff.symbolic.einsum import EinsumProduct
from sympy_tensordiff.symbolic.elementwise import TensorFunction
from sympy_tensordiff.symbolic.entrywise_functions import elementwise, maximum, minimum, sqrt
from sympy_tensordiff.symbolic.functions import OVER_AXES, mean, sum
from sympy_tensordiff.symbolic.indices import as_expr
from sympy_tensordiff.symbolic.matrix_functions import checked_axes
from sympy_tensordiff.symbolic.operations import operand, shape_of
from sympy_tensordiff.symbolic.rearrangements import ravel
from sympy_tensordiff.symbolic.subscripts import axis_labels
from sympy_tensordiff.symbolic.sums import IndexedMax, IndexedMin, IndexedProduct, IndexedSum
from sympy_tensordiff.symbolic.tabulate import fresh_indices, places, read, tabulate
from sympy_tensordiff.symbolic.typed import Expression, Scalar

_RUNNING = """
Parameters
----------
A : Expr
    A tensor expression.
axis : int, optional
    The axis along which it runs. By default over all entries, in the order of `ravel`.

Raises
------
ShapeError
    If there is no such axis.
"""
_OF_TWO = """
Parameters
----------
A, B : Expr or number
    Tensors, repeated to one shape as in NumPy, and scalars.

Raises
------
ShapeError
    If their shapes do not fit.
"""


@documented(OVER_AXES)
def max(A: Expression, axis: Any = None, keepdims: bool = False) -> Any:
    """The largest entry, over all axes or some; entries that are tied share the derivative equally.

    Returns
    -------
    Expr
        A tensor expression of the shape of ``A`` without the axes; a scalar without any axis.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> A = td.TensorSymbol("A", (3, 4))
    >>> td.max(A), td.max(A, axis=0).shape, td.max(A, axis=1, keepdims=True).shape
    (IndexedMax(A[i, j], (i, 0, 2), (j, 0, 3)), (4,), (3, 1))
    """
    return _reduced(IndexedMax, A, axis, keepdims, "max")


@documented(OVER_AXES)
def min(A: Expression, axis: Any = None, keepdims: bool = False) -> Any:
    """The smallest entry, over all axes or some; entries that are tied share the derivative equally.

    Returns
    -------
    Expr
        A tensor expression of the shape of ``A`` without the axes; a scalar without any axis.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> td.min(td.TensorSymbol("A", (3, 4)), axis=1).shape
    (3,)
    """
    return _reduced(IndexedMin, A, axis, keepdims, "min")


@documented(OVER_AXES)
def prod(A: Expression, axis: Any = None, keepdims: bool = False) -> Any:
    """The product of the entries, over all axes or some.

    Returns
    -------
    Expr
        A tensor expression of the shape of ``A`` without the axes; a scalar without any axis.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> x = td.TensorSymbol("x", 4)
    >>> td.prod(x), td.prod(td.outer(x, x), axis=0).shape
    (IndexedProduct(x[i], (i, 0, 3)), (4,))
    """
    return _reduced(IndexedProduct, A, axis, keepdims, "prod")


@documented(OVER_AXES)
def var(A: Expression, axis: Any = None, keepdims: bool = False, ddof: int = 0) -> Any:
    """The mean of ``(A - mean(A))**2``, over all axes or some; ``ddof`` is subtracted from the number of entries.

    Returns
    -------
    Expr
        A tensor expression of the shape of ``A`` without the axes; a scalar without any axis.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> x = td.TensorSymbol("x", 4)
    >>> td.var(x) == td.mean((x - td.mean(x)) ** 2)
    True
    """
    A = operand(A, "var")
    gone = checked_axes(axis, A, "var")
    centred = A - mean(A, gone, keepdims=len(gone) < len(shape_of(A)))
    result = mean(square(centred), gone, keepdims=keepdims)
    count = sympy.Mul(*(shape_of(A)[number] for number in gone))
    return result if ddof == 0 else result * (count / (count - ddof))


@documented(OVER_AXES)
def std(A: Expression, axis: Any = None, keepdims: bool = False, ddof: int = 0) -> Any:
    """The root of `var`.

    Returns
    -------
    Expr
        A tensor expression of the shape of ``A`` without the axes; a scalar without any axis.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> td.std(td.TensorSymbol("A", (3, 4)), axis=0).shape
    (4,)
    """
    return sqrt(var(A, axis, keepdims, ddof))


@documented(_RUNNING)
def cumsum(A: Expression, axis: int | None = None) -> Any:
    """The sums of the entries up to each one.

    Returns
    -------
    Expr
        A tensor expression of the shape of ``A``; of rank 1 without an axis.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> td.cumsum(td.TensorSymbol("x", 4))
    TensorComprehension(IndexedSum(x[j], (j, 0, i)), (i, 4))
    """
    return _running(IndexedSum, A, axis, "cumsum")


@documented(_RUNNING)
def cumprod(A: Expression, axis: int | None = None) -> Any:
    """The products of the entries up to each one.

    Returns
    -------
    Expr
        A tensor expression of the shape of ``A``; of rank 1 without an axis.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> td.cumprod(td.TensorSymbol("A", (3, 4)), axis=1).shape
    (3, 4)
    """
    return _running(IndexedProduct, A, axis, "cumprod")


def _reduced(reduction: Any, A: Any, axis: Any, keepdims: bool, owner: str) -> Any:
    """A reduction over axes, entry by entry."""
    A = operand(A, owner)
    shape, gone = shape_of(A), checked_axes(axis, A, owner)
    if not gone:
        return A
    kept = [axis for axis in range(len(shape)) if axis not in gone]
    lengths = [shape[axis] for axis in sorted(gone)]

    def entry(*indices: Expr) -> Any:
        own = places(fresh_indices(len(gone), (A, *indices, *shape)), lengths)
        at = dict(zip(sorted(gone), own, strict=True))
        at |= zip(kept, [indices[axis] for axis in kept] if keepdims else indices, strict=True)
        limits = [(index, 0, length - 1) for index, length in zip(own, lengths, strict=True) if length != 1]
        body = read(A, [at[axis] for axis in range(len(shape))])
        return reduction(body, *limits) if limits else body

    extents = [S.One if axis in gone else extent for axis, extent in enumerate(shape) if keepdims or axis in kept]
    return tabulate(extents, (A,), entry)


def _running(reduction: Any, A: Any, axis: Any, owner: str) -> Any:
    """A reduction up to each entry along an axis."""
    A = ravel(operand(A, owner)) if axis is None else operand(A, owner)
    (along,) = checked_axes(0 if axis is None else axis, A, owner)

    def entry(*indices: Expr) -> Any:
        (k,) = fresh_indices(1, (A, *indices, *shape_of(A)))
        return reduction(read(A, (*indices[:along], k, *indices[along + 1 :])), (k, 0, indices[along]))

    return tabulate(shape_of(A), (A,), entry)


# ---------------------------------------------------------------------------- entry by entry


def square(A: Scalar) -> Any:
    """``A**2``, entry by entry.

    Parameters
    ----------
    A : Expr or number

    Returns
    -------
    Expr
        A tensor expression of the shape of ``A``; a scalar for a scalar.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> td.square(td.TensorSymbol("A", (3, 4)))
    A**2
    """
    return operand(A, "square") ** Integer(2)


def clip(A: Scalar, low: Any = None, high: Any = None) -> Any:
    """The entries, at least ``low`` and at most ``high``; None is no bound.

    Parameters
    ----------
    A, low, high : Expr or number
        Tensors, repeated to one shape as in NumPy, and scalars.

    Returns
    -------
    Expr
        A tensor expression of the broadcast shape; a scalar for scalars.

    Notes
    -----
    At a bound that is a number, the derivative is 0.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> td.clip(td.TensorSymbol("A", (3, 4)), 0, 1)
    minimum(maximum(A, 0), 1)
    """
    above = operand(A, "clip") if low is None else maximum(A, low)
    return above if high is None else minimum(above, high)


def where(condition: Any, A: Scalar, B: Scalar) -> Any:
    """``A`` where a condition holds, else ``B``, entry by entry.

    Parameters
    ----------
    condition : Expr
        A tensor, whose entries hold where they are not 0, as those of `greater`, `less` and `equal` are 1 or
        0; or a relation between scalars.
    A, B : Expr or number
        They and the condition are repeated to one shape as in NumPy.

    Returns
    -------
    Expr
        A tensor expression of the broadcast shape; a scalar for scalars.

    Raises
    ------
    ShapeError
        If the shapes do not fit.

    Notes
    -----
    The derivative is that of the branch that is taken; the other one may be no number there.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> x, y = td.TensorSymbol("x", 4), td.TensorSymbol("y", 4)
    >>> td.gradient(td.sum(td.where(td.greater(x, 0), td.log(x), y)), y)
    elementwise(lambda t0: Piecewise((0, t0 > 0), (1, True)), x)
    """
    if isinstance(condition, (bool, Boolean)):
        return elementwise(lambda a, b: Piecewise((a, condition), (b, True)), A, B)
    condition = operand(condition, "where")
    holds: Callable[..., Any] = lambda value: Ne(value, 0)  # noqa: E731
    operands = (condition,)
    if isinstance(condition, TensorFunction) and isinstance(condition.template.expr, Piecewise):
        branches = condition.template.expr.args
        if [branch.expr for branch in branches] == [1, 0] and branches[1].cond is S.true:
            relation, names, operands = branches[0].cond, condition.template.variables, condition.operands
            holds = lambda *values: relation.xreplace(dict(zip(names, values, strict=True)))  # noqa: E731
    return elementwise(lambda a, b, *values: Piecewise((a, holds(*values)), (b, True)), A, B, *operands)


def _relation(relation: Any, A: Any, B: Any) -> Any:
    return elementwise(lambda a, b: Piecewise((1, relation(a, b)), (0, True)), A, B)


@documented(_OF_TWO)
def greater(A: Scalar, B: Scalar) -> Any:
    """1 where ``A > B``, 0 elsewhere, entry by entry; the derivative is 0.

    Returns
    -------
    Expr
        A tensor expression of the broadcast shape; a scalar for scalars.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> td.greater(td.TensorSymbol("A", (3, 4)), 0).shape
    (3, 4)
    """
    return _relation(sympy.Gt, A, B)


@documented(_OF_TWO)
def less(A: Scalar, B: Scalar) -> Any:
    """1 where ``A < B``, 0 elsewhere, entry by entry; the derivative is 0.

    Returns
    -------
    Expr
        A tensor expression of the broadcast shape; a scalar for scalars.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> td.less(td.TensorSymbol("A", (3, 4)), 0).shape
    (3, 4)
    """
    return _relation(sympy.Lt, A, B)


@documented(_OF_TWO)
def equal(A: Scalar, B: Scalar) -> Any:
    """1 where the entries are equal, 0 elsewhere; the derivative is 0.

    Returns
    -------
    Expr
        A tensor expression of the broadcast shape; a scalar for scalars.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> td.equal(td.TensorSymbol("A", (3, 4)), 0).shape
    (3, 4)
    """
    return _relation(sympy.Eq, A, B)


def norm(A: Scalar, ord: Any = 2) -> Any:
    """A norm of the vector of all entries; of a matrix the 2-norm is that of Frobenius.

    NumPy's norms of a matrix by ``ord`` 1, 2 and infinity are others: the first is
    ``td.max(td.sum(td.abs(A), axis=0))``, the last the same with ``axis=1``.

    Parameters
    ----------
    A : Expr
        A tensor expression of any rank, or a scalar.
    ord : number, infinity or "fro"
        2 and "fro": the root of the sum of squares. 1: the sum of absolute values. Another positive
        number ``p``: the p-th root of the sum of their powers. Infinity: the largest one.

    Returns
    -------
    Expr
        A scalar.

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
