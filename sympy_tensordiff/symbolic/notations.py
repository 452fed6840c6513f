"""The notations that ``expr.rewrite`` knows: index notation and SymPy's matrices."""

from __future__ import annotations

from sympy import MatrixExpr

from sympy_tensordiff.symbolic.hooks import register_notation
from sympy_tensordiff.symbolic.sums import IndexedSum
from sympy_tensordiff.symbolic.to_indices import to_indices
from sympy_tensordiff.symbolic.to_matrices import to_matrices

register_notation(IndexedSum, to_indices)
register_notation(MatrixExpr, to_matrices)
