"""Public functions of whole tensors: constant tensors, transposes, products, determinants and solutions of linear
systems.
"""

from __future__ import annotations

from typing import Any

from sympy import Integer, KroneckerDelta

from sympy_tensordiff.errors import ArgumentError, ShapeError
from sympy_tensordiff.symbolic.expressions.arguments import as_int
from sympy_tensordiff.symbolic.expressions.call_errors import explained
from sympy_tensordiff.symbolic.index_notation.limits import checked_extent
from sympy_tensordiff.symbolic.index_notation.signatures import Expression, documented
from sympy_tensordiff.symbolic.index_notation.tabulate import tabulate
from sympy_tensordiff.symbolic.whole_tensors import entrywise_functions
from sympy_tensordiff.symbolic.whole_tensors.einsum import DeltaTensor, EinsumProduct, FilledTensor
from sympy_tensordiff.symbolic.whole_tensors.elementwise import Entrywise
from sympy_tensordiff.symbolic.whole_tensors.matrix_functions import (
    TensorAdjugate,
    TensorDeterminant,
    TensorInverse,
    checked_axes,
)
from sympy_tensordiff.symbolic.whole_tensors.operations import operand, shape_of
from sympy_tensordiff.symbolic.whole_tensors.subscripts import LETTERS, axis_labels, unused_labels

einsum = EinsumProduct
inv = TensorInverse
det = TensorDeterminant
adj = TensorAdjugate

_FILLED = """
Parameters
----------
shape : int, Expr, or sequence of them

Returns
-------
Expr
    A constant tensor of this shape.

Raises
------
ShapeError
    If an extent is not positive.
"""


@documented(_FILLED)
def zeros(shape: Any) -> Any:
    """The tensor of zeros.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> td.zeros((2, 3)).shape
    (2, 3)
    """
    return FilledTensor(Integer(0), shape)


@documented(_FILLED)
def ones(shape: Any) -> Any:
    """The tensor of ones.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> td.ones((2, 3)).shape
    (2, 3)
    """
    return FilledTensor(Integer(1), shape)


@explained
def eye(N: Any, M: Any = None, k: int = 0) -> Any:
    """The matrix with ``N`` rows and ``M`` columns (``N`` by default) that has ones on diagonal number ``k`` and zeros
    elsewhere: by default, the identity matrix.

    Parameters
    ----------
    N : int or Expr
        The number of rows.
    M : int or Expr, optional
        The number of columns; that of the rows where it is left out.
    k : int
        The diagonal, counted from the main one to the right.

    Returns
    -------
    Expr
        A tensor expression of shape ``(N, M)``.

    Raises
    ------
    ShapeError
        If an extent is not positive.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> n, m = td.indices("n m")
    >>> td.eye(n), td.eye(n, m, 1)
    (DeltaTensor(n), TensorComprehension(KroneckerDelta(j, i + 1), (i, n), (j, m)))
    """
    rows = checked_extent(N, "td.eye")
    columns = rows if M is None else checked_extent(M, "td.eye")
    diagonal = as_int(k, "eye: k")
    if rows == columns and diagonal == 0:
        return DeltaTensor(rows)
    return tabulate((rows, columns), (), lambda i, j: KroneckerDelta(j, i + diagonal))


@explained
def trace(A: Expression) -> Any:
    """The sum of the diagonal of a square matrix.

    Parameters
    ----------
    A : Expr
        Of rank 2, both extents equal.

    Raises
    ------
    ShapeError
        If it is not a square matrix.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> X = td.TensorSymbol("X", (3, 3))
    >>> td.trace(X) == td.einsum("ii->", X)
    True
    """
    return EinsumProduct("ii->", A)


@explained
def diag(A: Expression) -> Any:
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


@explained
def transpose(A: Expression, axes: Any = None) -> Any:
    """The tensor with its axes in another order; a matrix that is known to be symmetric is its own transpose.

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
    >>> td.ones((4, 3)).T.shape
    (3, 4)
    >>> S = td.TensorSymbol("S", (3, 3), symmetric=True)
    >>> td.transpose(2*td.inv(S) + td.DeltaTensor(3))
    DeltaTensor(3) + 2*inv(S)
    """
    A = operand(A, "transpose")
    labels = axis_labels(shape_of(A))
    order = checked_axes(axes, A, "transpose") if axes is not None else tuple(range(len(labels)))[::-1]
    if len(order) < len(labels):
        raise ShapeError(f"transpose: {tuple(order)} does not name all axes of {A}, whose shape is {shape_of(A)}")
    if order == tuple(range(len(labels))) or (order == (1, 0) and is_symmetric(A)):
        return A
    return EinsumProduct(f"{labels}->{''.join(labels[axis] for axis in order)}", A)


def is_symmetric(matrix: Any) -> bool:
    """Return whether ``matrix`` is symmetric by construction: a variable declared so, a unit matrix, or made of these
    by inverses, adjugates and elementwise operations.
    """
    rows, columns = shape_of(matrix)
    if rows != columns:
        return False
    stack, seen = [matrix], {matrix}
    while stack:
        node = stack.pop()
        if isinstance(node, DeltaTensor | FilledTensor) or not shape_of(node) or node.symmetric:
            continue
        if not isinstance(node, TensorInverse | TensorAdjugate | Entrywise):
            return False
        parts = [part for part in node.operands if part not in seen]
        seen.update(parts)
        stack += parts
    return True


@explained
def dot(x: Expression, y: Expression) -> Any:
    """Return the inner product of the vectors ``x`` and ``y``.

    Parameters
    ----------
    x, y : Expr
        Of rank 1 and of one extent.

    Raises
    ------
    ShapeError
        If they are not vectors, or their extents differ.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> x, y = td.TensorSymbol("x", 3), td.TensorSymbol("y", 3)
    >>> td.dot(x, y) == td.einsum("i,i->", x, y)
    True
    """
    return EinsumProduct("i,i->", x, y)


@explained
def outer(A: Expression, B: Expression) -> Any:
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


@explained
def logdet(A: Expression) -> Any:
    """The logarithm of the determinant of a square matrix, where that is positive; its gradient is ``inv(A).T``.

    Parameters
    ----------
    A : Expr
        Of rank 2, both extents equal; or of any order with the matrices in its last two axes.

    Raises
    ------
    ShapeError
        If it is not a square matrix.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> X = td.TensorSymbol("X", (3, 3))
    >>> td.logdet(X), td.gradient(td.logdet(X), X)
    (log(det(X)), inv(X).T)
    """
    return entrywise_functions.log(det(A))


@explained
def solve(A: Expression, b: Expression) -> Any:
    """The solution ``x`` of ``A @ x = b`` for a vector ``b``, or for each column of a matrix ``b``, as
    `numpy.linalg.solve`.

    Parameters
    ----------
    A : Expr
        Of rank 2, both extents equal; or of any order with the matrices in its last two axes.
    b : Expr
        Of rank 1, or with the columns in its last two axes; those in front meet those of ``A`` by NumPy's rule.

    Returns
    -------
    Expr
        A tensor expression of the shape of the right-hand side.

    Raises
    ------
    ShapeError
        If the last two axes of ``A`` are not a square matrix, or the extents differ.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> X, y = td.TensorSymbol("X", (3, 3)), td.TensorSymbol("y", 3)
    >>> td.solve(X, y)
    inv(X) @ y
    >>> td.solve(td.TensorSymbol("A", (7, 3, 3)), y).shape
    (7, 3)
    """
    inverse, right = inv(A), operand(b, "solve")
    if not shape_of(right):
        raise ShapeError(f"solve: {b} is a scalar; give a vector, or matrices in its last two axes")
    return inverse @ right
