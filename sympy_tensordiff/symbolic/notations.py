"""The notations that ``expr.rewrite`` knows: index notation, operations on whole tensors, SymPy's matrices."""

from __future__ import annotations

from sympy import MatrixExpr

from sympy_tensordiff.symbolic.einsum import EinsumProduct
from sympy_tensordiff.symbolic.hooks import register_notation
from sympy_tensordiff.symbolic.sums import IndexedSum
from sympy_tensordiff.symbolic.to_einsum import to_einsum
from sympy_tensordiff.symbolic.to_indices import to_indices
from sympy_tensordiff.symbolic.to_matrices import to_matrices

register_notation(IndexedSum, to_indices)
register_notation(EinsumProduct, to_einsum)
register_notation(MatrixExpr, to_matrices)
