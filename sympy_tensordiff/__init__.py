"""Symbolic tensor derivatives that compile.

Write an element-wise defined tensor in index notation, differentiate it with plain ``diff``,
read the result without a Kronecker delta under a sum, and run it as a kernel.
"""

from sympy_tensordiff.codegen.api import generate_code as generate_code
from sympy_tensordiff.codegen.api import lambdify as lambdify
from sympy_tensordiff.derivative.api import gradient as gradient
from sympy_tensordiff.derivative.api import hessian as hessian
from sympy_tensordiff.derivative.api import hvp as hvp
from sympy_tensordiff.derivative.api import jacobian as jacobian
from sympy_tensordiff.derivative.api import jvp as jvp
from sympy_tensordiff.derivative.api import simplify_deltas as simplify_deltas
from sympy_tensordiff.derivative.api import vjp as vjp
from sympy_tensordiff.derivative.native import diff as diff
from sympy_tensordiff.symbolic.canonical import canonical as canonical
from sympy_tensordiff.symbolic.indices import indices as indices
from sympy_tensordiff.symbolic.lift import lift as lift
from sympy_tensordiff.symbolic.sums import IndexedSum as IndexedSum
from sympy_tensordiff.symbolic.tensors import TensorComprehension as TensorComprehension
from sympy_tensordiff.symbolic.tensors import TensorEntry as TensorEntry
from sympy_tensordiff.symbolic.tensors import TensorSymbol as TensorSymbol
from sympy_tensordiff.testing.differences import check_derivative as check_derivative

__version__ = "0.1.0"

__all__ = [
    "IndexedSum",
    "TensorComprehension",
    "TensorEntry",
    "TensorSymbol",
    "canonical",
    "check_derivative",
    "diff",
    "generate_code",
    "gradient",
    "hessian",
    "hvp",
    "indices",
    "jacobian",
    "jvp",
    "lambdify",
    "lift",
    "simplify_deltas",
    "vjp",
]
