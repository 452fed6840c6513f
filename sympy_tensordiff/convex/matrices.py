"""Matrices that are affine in the variables: sums of multiples of symmetric matrices, as they are written out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import sympy
from sympy import Expr, KroneckerDelta

from sympy_tensordiff.symbolic.indices import Substitution
from sympy_tensordiff.symbolic.matrix_functions import TensorInverse
from sympy_tensordiff.symbolic.tensors import TensorComprehension, TensorEntry, TensorSymbol

if TYPE_CHECKING:
    from sympy_tensordiff.convex.affine_parts import Variables


class Signs(Protocol):
    """The signs of scalars: ">", ">=", "0", or another text where none of these is known."""

    def of(self, scalar: Expr) -> str | None: ...


def entry(matrix: Any, row: Expr, column: Expr) -> Expr | None:
    """Return the entry of a variable or of a matrix that is written entry by entry, else None."""
    if isinstance(matrix, TensorSymbol):
        return matrix[row, column]
    if isinstance(matrix, TensorComprehension) and matrix.rank == 2:
        return matrix.body.xreplace(Substitution(zip(matrix.indices, (row, column), strict=True)))
    return None


def is_symmetric(matrix: Any) -> bool:
    """Whether a matrix is a sum of multiples of matrices that are declared symmetric, and of unit matrices."""
    return _terms(matrix) is not None


def is_affine(by: Variables, matrix: Any) -> bool:
    """Whether a symmetric matrix is affine in the variables, and not constant."""
    if not is_symmetric(matrix):
        return False
    row, column = (sympy.Dummy(name, integer=True) for name in "ij")
    return by.degree(entry(matrix, row, column)) == 1


def is_positive(signs: Signs, matrix: Any) -> bool:
    """Whether a matrix is positive definite as declared, or as a sum of positive multiples of such, or its inverse is.

    >>> import sympy_tensordiff as td
    >>> from sympy_tensordiff.convex.signs import Signs
    >>> from sympy_tensordiff.structure.terms import written_out
    >>> n, c = td.indices("n c")
    >>> S = td.TensorSymbol("S", (n, n), positive=True)
    >>> [is_positive(Signs({}), written_out(M)) for M in (2*S + td.eye(n), S - td.eye(n), td.inv(S))]
    [True, False, True]
    """
    if isinstance(matrix, TensorInverse):
        return is_positive(signs, matrix.args[0])
    terms = _terms(matrix)
    if terms is None:
        return False
    found = [signs.of(weight) if tensor is None or tensor.positive else None for weight, tensor in terms]
    return all(sign in (">", ">=", "0") for sign in found) and ">" in found


def _terms(matrix: Any) -> list[tuple[Expr, Any]] | None:
    """Return the weights of symmetric variables, and of the unit matrix (None), that add up to a matrix, else None."""
    row, column = (sympy.Dummy(name, integer=True) for name in "ij")
    body = entry(matrix, row, column)
    if body is None:
        return None
    found: list[tuple[Expr, Any]] = []
    for term in sympy.Add.make_args(sympy.expand(body)):
        matrices = [f for f in sympy.Mul.make_args(term) if {row, column} & f.free_symbols]
        if len(matrices) != 1 or not isinstance(matrices[0], TensorEntry | KroneckerDelta):
            return None
        (factor,) = matrices
        if isinstance(factor, KroneckerDelta):
            tensor, places = None, {*factor.args}
        else:
            tensor, places = factor.tensor, {*factor.indices}
        if places != {row, column} or not (tensor is None or tensor.symmetric):
            return None
        found.append((term / factor, tensor))
    return found
