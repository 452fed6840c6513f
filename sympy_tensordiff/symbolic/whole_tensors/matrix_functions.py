"""Functions of whole tensors that are not einsum products: inverse, determinant, adjugate, cofactors, log-sum-exp."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sympy import Expr, Integer, Tuple, exp, log

from sympy_tensordiff.errors import ArgumentTypeError, ShapeError
from sympy_tensordiff.symbolic.expressions.arguments import as_expr, as_int
from sympy_tensordiff.symbolic.expressions.base import argument
from sympy_tensordiff.symbolic.index_notation.signatures import Expression, documented
from sympy_tensordiff.symbolic.index_notation.sums import IndexedSum
from sympy_tensordiff.symbolic.index_notation.tabulate import entry_indices, fresh_indices, same_extent
from sympy_tensordiff.symbolic.whole_tensors.operations import (
    Read,
    Shape,
    TensorOperation,
    operand,
    shape_of,
    varying_in,
)

_SECTIONS = """
Parameters
----------
matrix : Expr
    Of rank 2, both extents equal; or of any order with the matrices in its last two axes, of which each is taken.

Raises
------
ShapeError
    If the last two axes are not a square matrix.
"""


def square(value: Any, owner: str) -> Any:
    """Return ``value`` as an expression; raise `ShapeError`, with the function's name `owner`, unless it is a square
    matrix or a stack of such in its last two axes.
    """
    matrix = operand(value, owner)
    shape = shape_of(matrix)
    if len(shape) < 2:
        raise ShapeError(f"{owner} needs a square matrix, but {matrix} has rank {len(shape)} (shape {shape})")
    if not same_extent(*shape[-2:]):
        row = len(shape) - 2
        raise ShapeError(
            f"{owner} needs a square matrix, but axis {row} of {matrix} has extent {shape[-2]} and axis {row + 1} "
            f"extent {shape[-1]}"
        )
    return matrix


class MatrixFunction(TensorOperation):
    """The base class of functions of one square matrix."""

    has_index_form = False

    def __new__(cls, matrix: Expression) -> Any:
        return cls._unchecked(square(matrix, cls.__name__))

    @classmethod
    def _inferred(cls, *args: Any) -> Shape:
        """Return the shape of a matrix function's result: that of the matrix."""
        return shape_of(args[0])

    matrix = argument(0, "The square matrix.")


@documented(_SECTIONS)
class TensorInverse(MatrixFunction):
    """The inverse of a square matrix; it is `td.inv`.

    Notes
    -----
    A singular matrix has none; kernels raise `SingularMatrixError` there. The derivative of entry
    ``[i, j]`` by ``X[k, l]`` is ``-inv(X)[i, k]*inv(X)[l, j]``.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> X = td.TensorSymbol("X", (3, 3))
    >>> td.TensorInverse(X).shape, td.inv(X) == td.TensorInverse(X)
    ((3, 3), True)
    >>> td.inv(td.TensorSymbol("X", (7, 3, 3))).shape
    (7, 3, 3)
    >>> td.gradient(td.trace(td.TensorInverse(X)), X)
    -inv(X).T @ inv(X).T
    """


@documented(_SECTIONS)
class TensorDeterminant(MatrixFunction):
    """The determinant of a square matrix, a scalar; it is `td.det`.

    Examples
    --------
    >>> import sympy, sympy_tensordiff as td
    >>> X = td.TensorSymbol("X", (3, 3))
    >>> td.gradient(td.TensorDeterminant(X), X), td.gradient(sympy.log(td.det(X)), X)
    (adj(X).T, inv(X).T)
    """

    @classmethod
    def _inferred(cls, *args: Any) -> Shape:
        """Return the shape of the determinants of a stack of matrices, its leading axes; ``()`` for a single matrix."""
        return shape_of(args[0])[:-2]


@documented(_SECTIONS)
class TensorAdjugate(MatrixFunction):
    """The adjugate of a square matrix, singular ones too: the transposed matrix of cofactors; it is `td.adj`.

    It is ``det(X)*inv(X)`` where that exists.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> X = td.TensorSymbol("X", (3, 3))
    >>> td.TensorAdjugate(X) == td.adj(X)
    True
    """


class TensorCofactor(TensorOperation):
    """The derivative of order ``order`` of the determinant of a square matrix with respect to the matrix.

    Parameters
    ----------
    order : int
        At least 0.
    matrix : Expr
        Of rank 2, both extents equal; it may be singular.

    Raises
    ------
    ArgumentTypeError
        If the order is not such a number.
    ShapeError
        If the matrix is not square.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> X = td.TensorSymbol("X", (3, 3))
    >>> td.TensorCofactor(2, X).shape
    (3, 3, 3, 3)
    """

    has_index_form = False

    def __new__(cls, order: Any, matrix: Any) -> Any:
        number = as_expr(order, "the order of a TensorCofactor")
        if not isinstance(number, Integer) or number < 0:
            raise ArgumentTypeError(f"the order of a TensorCofactor must be a number, 0, 1, 2, …, not {order}")
        return cls._unchecked(number, square(matrix, cls.__name__))

    @classmethod
    def _inferred(cls, *args: Any) -> Shape:
        """Return the shape of the ``order``-th derivative of a determinant: the leading (batch) axes, then the last
        two axes of the matrix ``order`` times.
        """
        shape = shape_of(args[1])
        return (*shape[:-2], *int(args[0]) * shape[-2:])

    @property
    def order(self) -> int:
        """Return how many times the determinant is differentiated."""
        return int(self.args[0])

    matrix = argument(1, "The square matrix.")

    @property
    def operands(self) -> tuple[Any, ...]:
        """Return the operands of the cofactor node: the matrix alone."""
        return (self.args[1],)


class TensorLogSumExp(TensorOperation):
    """``log(sum(exp(A)))`` over some axes, computed without overflow (`logsumexp`).

    Parameters
    ----------
    tensor : Expr
    axes : int or sequence of int
        The axes that are summed over, which the result does not have; negative ones count from
        the last.

    Raises
    ------
    ShapeError
        If the tensor has no such axis, or one is named twice, or none.
    ArgumentTypeError
        If an axis is not a number.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> A = td.TensorSymbol("A", (3, 4))
    >>> td.TensorLogSumExp(A, 1).shape, td.TensorLogSumExp(A, (0, 1)).shape
    ((3,), ())
    >>> x = td.TensorSymbol("x", 4)
    >>> td.gradient(td.TensorLogSumExp(x, 0), x)
    softmax(x)
    """

    def __new__(cls, tensor: Any, axes: Any) -> Any:
        tensor = operand(tensor, cls.__name__)
        numbers = checked_axes(axes, tensor, cls.__name__)
        if not numbers:
            raise ShapeError(f"TensorLogSumExp({tensor}) needs an axis to sum over; over none it is the tensor itself")
        return cls._unchecked(tensor, Tuple(*map(Integer, sorted(numbers))))

    @classmethod
    def _inferred(cls, *args: Any) -> Shape:
        """Return the shape of the log-sum-exp: that of the tensor, the first argument, without the summed axes, which
        are the second argument.
        """
        gone = {int(axis) for axis in args[1].args}
        return tuple(extent for axis, extent in enumerate(shape_of(args[0])) if axis not in gone)

    tensor = argument(0, "The tensor whose entries are summed.")

    @property
    def axes(self) -> tuple[int, ...]:
        """Return the axes over which the log-sum-exp sums, in ascending order."""
        return tuple(map(int, self.args[1].args))

    @property
    def operands(self) -> tuple[Any, ...]:
        """Return the operands of the log-sum-exp node: the tensor alone."""
        return (self.args[0],)

    def entry_of(self, indices: Sequence[Expr], read: Read) -> Any:
        """Return the entry at ``indices`` written as log(sum(exp(...))) of entries that ``read`` returns; unlike the
        node, this form may overflow.
        """
        lengths = [self.tensor.shape[axis] for axis in self.axes]
        own = entry_indices(fresh_indices(len(lengths), (self.tensor, *indices, *lengths)), lengths)
        rest, summed = iter(indices), iter(own)
        at = [next(summed) if axis in self.axes else next(rest) for axis in range(self.tensor.rank)]
        body = exp(read(self.tensor, at, varying_in(at)))
        limits = [(index, 0, length - 1) for index, length in zip(own, lengths, strict=True) if length != 1]
        return log(IndexedSum(body, *limits) if limits else body)


def checked_axis(axis: Any, tensor: Any, owner: str) -> int:
    """Return ``axis``, which may be negative, as a number counted from 0. Raise `ShapeError`, with the function's name
    `owner`, if ``tensor`` does not have this axis.
    """
    return checked_axes((axis,), tensor, owner)[0]


def checked_axes(axes: Any, tensor: Any, owner: str) -> tuple[int, ...]:
    """Return ``axes`` as numbers that count from 0: a negative axis counts from the end, None means all axes. Raise
    `ShapeError`, which names the function ``owner``, if `tensor` lacks one of them.

    It is also raised if an axis is named twice.
    """
    rank = len(shape_of(tensor))
    if axes is None:
        return tuple(range(rank))
    numbers = []
    for axis in axes if isinstance(axes, (tuple, list, Tuple)) else (axes,):
        number = as_int(axis, f"{owner}: an axis")
        if not -rank <= number < rank:
            raise ShapeError(f"{owner}: {tensor} of shape {shape_of(tensor)} has no axis {number}")
        numbers.append(number % rank)
    if len(set(numbers)) < len(numbers):
        raise ShapeError(f"{owner}: an axis is named twice in {axes}")
    return tuple(numbers)
