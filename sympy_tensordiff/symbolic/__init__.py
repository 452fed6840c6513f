"""The SymPy classes users write and read: index symbols, tensors, entries, sums, comprehensions.

`lift` reads SymPy's own notation into them, which the graph reads and writes.
"""

from sympy_tensordiff.symbolic import operators as operators
from sympy_tensordiff.symbolic import rewriting as rewriting
from sympy_tensordiff.symbolic import scalar_functions as scalar_functions
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
