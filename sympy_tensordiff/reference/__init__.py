"""The slow exact interpreter: the oracle for all tests.

Plain loops over the SymPy tree, rationals where the functions allow and 30-digit floats
elsewhere, derivatives by dual numbers. It shares no code with the graph, the sweep, the
simplifier or the kernels, so that it does not repeat their errors.
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
