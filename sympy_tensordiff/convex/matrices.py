"""Matrices that are affine in the variables: sums of multiples of symmetric matrices, written out entry by entry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import sympy
from sympy import Expr, KroneckerDelta

from sympy_tensordiff.symbolic.expressions.replacement import Substitution
from sympy_tensordiff.symbolic.index_notation.tensors import TensorComprehension, TensorEntry, TensorSymbol
from sympy_tensordiff.symbolic.whole_tensors.matrix_functions import TensorInverse

if TYPE_CHECKING:
    from sympy_tensordiff.convex.affine_parts import Variables


class SignProver(Protocol):
    """Protocol of an object that proves signs of scalars."""

    def of(self, scalar: Expr) -> str | None:
        """Return the proved sign of ``scalar`` as text: ">" if it is positive, ">=" if it is not negative, "0", "<" or
        "<="; None if no sign is proved.
        """


def matrix_entry(matrix: Any, row: Expr, column: Expr) -> Expr | None:
    """Return the entry of ``matrix`` at ``row`` and ``column``, if ``matrix`` is a tensor symbol or a comprehension;
    None for any other matrix.
    """
    if isinstance(matrix, TensorSymbol):
        return matrix[row, column]
    if isinstance(matrix, TensorComprehension) and matrix.rank == 2:
        return matrix.body.xreplace(Substitution(zip(matrix.indices, (row, column), strict=True)))
    return None


def is_symmetric(matrix: Any) -> bool:
    """Return whether ``matrix`` is visibly symmetric: a sum of multiples of unit matrices and of matrices declared
    symmetric.
    """
    return _symmetric_summands(matrix) is not None


def is_symmetric_affine(variables: Variables, matrix: Any) -> bool:
    """Return whether ``matrix`` is symmetric, affine in the variables, and depends on at least one of them."""
    if not is_symmetric(matrix):
        return False
    row, column = (sympy.Dummy(name, integer=True) for name in "ij")
    return variables.degree(matrix_entry(matrix, row, column)) == 1


def is_positive_definite(signs: SignProver, matrix: Any) -> bool:
    """Return whether ``signs`` can prove that ``matrix`` is positive definite: declared so, a sum of positive multiples
    of such matrices and identity matrices, or an inverse of one.

    >>> import sympy_tensordiff as td
    >>> from sympy_tensordiff.convex.signs import Signs
    >>> from sympy_tensordiff.structure.terms import to_index_notation
    >>> n, c = td.indices("n c")
    >>> S = td.TensorSymbol("S", (n, n), positive=True)
    >>> [is_positive_definite(Signs({}), to_index_notation(M)) for M in (2*S + td.eye(n), S - td.eye(n), td.inv(S))]
    [True, False, True]
    """
    if isinstance(matrix, TensorInverse):
        return is_positive_definite(signs, matrix.args[0])
    terms = _symmetric_summands(matrix)
    if terms is None:
        return False
    signs_of_weights = [signs.of(weight) if tensor is None or tensor.positive else None for weight, tensor in terms]
    return all(sign in (">", ">=", "0") for sign in signs_of_weights) and ">" in signs_of_weights


def _symmetric_summands(matrix: Any) -> list[tuple[Expr, Any]] | None:
    """Return ``matrix`` as a weighted sum of symmetric matrices: a list of pairs ``(weight, symbol)``, where None
    stands for the unit matrix. Return None instead of a list if it is not such a sum.
    """
    row, column = (sympy.Dummy(name, integer=True) for name in "ij")
    body = matrix_entry(matrix, row, column)
    if body is None:
        return None
    summands: list[tuple[Expr, Any]] = []
    for term in sympy.Add.make_args(sympy.expand(body)):
        matrices = [f for f in sympy.Mul.make_args(term) if {row, column} & f.free_symbols]
        if len(matrices) != 1 or not isinstance(matrices[0], TensorEntry | KroneckerDelta):
            return None
        (factor,) = matrices
        if isinstance(factor, KroneckerDelta):
            tensor, indices = None, {*factor.args}
        else:
            tensor, indices = factor.tensor, {*factor.indices}
        if indices != {row, column} or not (tensor is None or tensor.symmetric):
            return None
        summands.append((term / factor, tensor))
    return summands
