"""Functions of whole tensors as users write them: matrices, axes, constant tensors."""

from __future__ import annotations

from typing import Any

from sympy import Integer

from sympy_tensordiff.errors import ArgumentError, ShapeError
from sympy_tensordiff.symbolic.einsum import DeltaTensor, EinsumProduct, FilledTensor
from sympy_tensordiff.symbolic.matrix_functions import (
    TensorAdjugate,
    TensorDeterminant,
    TensorInverse,
    checked_axes,
)
from sympy_tensordiff.symbolic.operations import operand, shape_of
from sympy_tensordiff.symbolic.subscripts import LETTERS, axis_labels, unused_labels


def einsum(subscripts: Any, *operands: Any) -> Any:
    """The einsum product of the operands; see `EinsumProduct`.

    Parameters
    ----------
    subscripts : str
        As in `numpy.einsum`, with ``->``.
    *operands : Expr or number

    Raises
    ------
    ArgumentError, ShapeError
        If the subscripts are malformed, or do not fit the operands.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> A, B = td.TensorSymbol("A", (2, 3)), td.TensorSymbol("B", (3, 4))
    >>> td.einsum("ij,jk->ik", A, B).shape
    (2, 4)
    """
    return EinsumProduct(subscripts, *operands)


def inv(A: Any) -> Any:
    """The inverse of a square matrix.

    Parameters
    ----------
    A : Expr
        Of rank 2, both extents equal.

    Raises
    ------
    ShapeError
        If it is no square matrix.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> td.inv(td.TensorSymbol("X", (3, 3))).shape
    (3, 3)
    """
    return TensorInverse(A)


def det(A: Any) -> Any:
    """The determinant of a square matrix, a scalar.

    Parameters
    ----------
    A : Expr
        Of rank 2, both extents equal.

    Raises
    ------
    ShapeError
        If it is no square matrix.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> td.det(td.TensorSymbol("X", (3, 3))).shape
    ()
    """
    return TensorDeterminant(A)


def adj(A: Any) -> Any:
    """The adjugate of a square matrix, singular ones too: ``det(A)*inv(A)`` where that exists.

    Parameters
    ----------
    A : Expr
        Of rank 2, both extents equal.

    Raises
    ------
    ShapeError
        If it is no square matrix.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> td.adj(td.TensorSymbol("X", (3, 3))).shape
    (3, 3)
    """
    return TensorAdjugate(A)


def trace(A: Any) -> Any:
    """The sum of the diagonal of a square matrix.

    Parameters
    ----------
    A : Expr
        Of rank 2, both extents equal.

    Raises
    ------
    ShapeError
        If it is no square matrix.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> X = td.TensorSymbol("X", (3, 3))
    >>> td.trace(X) == td.einsum("ii->", X)
    True
    """
    return EinsumProduct("ii->", A)


def diag(A: Any) -> Any:
    """The diagonal of a square matrix, or the matrix with a vector as its diagonal.

    Parameters
    ----------
    A : Expr
        Of rank 1 or 2.

    Raises
    ------
    ShapeError
        If it is neither a vector nor a square matrix.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> x, X = td.TensorSymbol("x", 3), td.TensorSymbol("X", (3, 3))
    >>> td.diag(x).shape, td.diag(X).shape
    ((3, 3), (3,))
    """
    A = operand(A, "diag")
    shape = shape_of(A)
    if len(shape) not in (1, 2):
        raise ShapeError(f"diag needs a vector or a square matrix, but {A} has rank {len(shape)} (shape {shape})")
    return EinsumProduct("ii->i", A) if len(shape) == 2 else EinsumProduct("i,ij->ij", A, DeltaTensor(shape))


def transpose(A: Any, axes: Any = None) -> Any:
    """The tensor with its axes in another order.

    Parameters
    ----------
    A : Expr
        A tensor expression.
    axes : tuple of int, optional
        Axis ``n`` of the result is axis ``axes[n]`` of ``A``. By default the reverse order.

    Raises
    ------
    ShapeError
        If ``axes`` does not name every axis once.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> T = td.TensorSymbol("T", (2, 3, 4))
    >>> td.transpose(T).shape, td.transpose(T, (1, 0, 2)).shape
    ((4, 3, 2), (3, 2, 4))
    """
    A = operand(A, "transpose")
    labels = axis_labels(shape_of(A))
    order = checked_axes(axes, A, "transpose") if axes is not None else tuple(range(len(labels)))[::-1]
    if len(order) < len(labels):
        raise ShapeError(f"transpose: {tuple(order)} does not name all axes of {A}, whose shape is {shape_of(A)}")
    if order == tuple(range(len(labels))):
        return A
    return EinsumProduct(f"{labels}->{''.join(labels[axis] for axis in order)}", A)


def dot(x: Any, y: Any) -> Any:
    """The inner product of two vectors.

    Parameters
    ----------
    x, y : Expr
        Of rank 1 and of one extent.

    Raises
    ------
    ShapeError
        If they are no vectors, or their extents differ.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> x, y = td.TensorSymbol("x", 3), td.TensorSymbol("y", 3)
    >>> td.dot(x, y) == td.einsum("i,i->", x, y)
    True
    """
    return EinsumProduct("i,i->", x, y)


def outer(A: Any, B: Any) -> Any:
    """The outer product: all entries of ``A`` times all entries of ``B``; the axes of ``A`` first.

    Parameters
    ----------
    A, B : Expr
        Tensor expressions of any rank, or scalars.

    Raises
    ------
    ArgumentError
        If they have more axes together than there are labels.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> x, A = td.TensorSymbol("x", 2), td.TensorSymbol("A", (3, 4))
    >>> td.outer(x, A).shape
    (2, 3, 4)
    """
    A, B = operand(A, "outer"), operand(B, "outer")
    left, rank = axis_labels(shape_of(A)), len(shape_of(B))
    right = "".join(unused_labels(left)[:rank])
    if len(right) < rank:
        raise ArgumentError(f"outer: {len(left) + rank} axes are more than the {len(LETTERS)} labels a-z and A-Z")
    return EinsumProduct(f"{left},{right}->{left}{right}", A, B)


def zeros(shape: Any) -> Any:
    """The tensor of zeros.

    Parameters
    ----------
    shape : int, Expr, or sequence of them

    Raises
    ------
    ShapeError
        If an extent is not positive.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> td.zeros((2, 3)).shape
    (2, 3)
    """
    return FilledTensor(Integer(0), shape)


def ones(shape: Any) -> Any:
    """The tensor of ones.

    Parameters
    ----------
    shape : int, Expr, or sequence of them

    Raises
    ------
    ShapeError
        If an extent is not positive.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> td.ones((2, 3)).shape
    (2, 3)
    """
    return FilledTensor(Integer(1), shape)
