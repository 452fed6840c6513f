"""Derivatives of SymPy's matrices: a matrix of one entry is a scalar, and results are matrices where they are."""

from __future__ import annotations

from typing import Any

from sympy import MatrixExpr, MatrixSymbol
from sympy.matrices.matrixbase import MatrixBase

from sympy_tensordiff.errors import TensorDiffError
from sympy_tensordiff.symbolic.base import Node
from sympy_tensordiff.symbolic.lift import as_operand
from sympy_tensordiff.symbolic.lift_matrices import only_entry
from sympy_tensordiff.symbolic.measures import measures
from sympy_tensordiff.symbolic.whole import is_whole


def as_scalar(s: Any, what: str) -> Any:
    """An expression in the classes of this package; of a matrix of SymPy's with one entry, that entry."""
    lifted = as_operand(s, what)
    is_entry = isinstance(s, (MatrixExpr, MatrixBase)) and s.shape == (1, 1)
    return only_entry(lifted) if is_entry else lifted


def in_matrices(result: Any, wrt: Any, *given: Any) -> Any:
    """A derivative as a matrix of SymPy's, where everything given is in SymPy's notation and the variable is a matrix.

    It stays a tensor where it has no such form, and where not all of its matrices are among those given.

    Parameters
    ----------
    result : Expr
        In the classes of this package.
    wrt : Expr
        The variable.
    *given : Expr
        What is differentiated, cotangents and tangents.
    """
    if not isinstance(wrt, MatrixSymbol) or any(isinstance(part, Node) for part in given):
        return result
    if not is_whole(result) or result.rank != 2 or measures(result).is_deep:
        return result
    try:
        matrix = result.rewrite(MatrixExpr)
    except TensorDiffError:
        return result
    known = set().union(*(part.atoms(MatrixSymbol) for part in (wrt, *given) if hasattr(part, "atoms")))
    return matrix if matrix.atoms(MatrixSymbol) <= known else result
