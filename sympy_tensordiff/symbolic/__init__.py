"""The SymPy classes users write and read: index symbols, tensors, entries, sums, comprehensions.

`lift` reads SymPy's own notation into them, `native` writes it; the graph reads nothing else.
"""

from sympy_tensordiff.symbolic import native as native
from sympy_tensordiff.symbolic import notations as notations
from sympy_tensordiff.symbolic import operators as operators
from sympy_tensordiff.symbolic.entries import TensorEntry, TensorExpr
from sympy_tensordiff.symbolic.indices import indices
from sympy_tensordiff.symbolic.sums import IndexedMax, IndexedMin, IndexedProduct, IndexedSum
from sympy_tensordiff.symbolic.tensors import TensorComprehension, TensorSymbol

__all__ = [
    "IndexedMax",
    "IndexedMin",
    "IndexedProduct",
    "IndexedSum",
    "TensorComprehension",
    "TensorEntry",
    "TensorExpr",
    "TensorSymbol",
    "indices",
]
