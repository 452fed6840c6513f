"""The SymPy classes users write and read: index symbols, tensors, entries, sums, comprehensions.

`lift` reads SymPy's own notation into them, which the graph reads and writes.
"""

from sympy_tensordiff.symbolic.conversion import rewriting as rewriting
from sympy_tensordiff.symbolic.index_notation.entries import TensorEntry, TensorExpr
from sympy_tensordiff.symbolic.index_notation.indices import indices
from sympy_tensordiff.symbolic.index_notation.sums import IndexedMax, IndexedMin, IndexedProduct, IndexedSum
from sympy_tensordiff.symbolic.index_notation.tensors import TensorComprehension, TensorSymbol
from sympy_tensordiff.symbolic.whole_tensors import operators as operators
from sympy_tensordiff.symbolic.whole_tensors import scalar_functions as scalar_functions

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
