"""The slow exact interpreter: the oracle that everything else is tested against.

Plain loops over the SymPy tree, rationals where the functions allow and 30-digit floats
elsewhere, derivatives by dual numbers. It shares no code with the graph, the sweep, the
simplifier or the kernels, so that an error of theirs is not repeated here.
"""

from sympy_tensordiff.reference.derivatives import derivative, differentiate, hessian, hvp
from sympy_tensordiff.reference.inputs import symbols_of, tensors_of
from sympy_tensordiff.reference.interpreter import evaluate, points

__all__ = [
    "derivative",
    "differentiate",
    "evaluate",
    "hessian",
    "hvp",
    "points",
    "symbols_of",
    "tensors_of",
]
