"""Symbolic tensor derivatives that compile.

Write a tensor function in index notation or as whole tensors, differentiate it with plain
``diff``, read the result without a Kronecker delta under a sum, and run it as a kernel.
"""

from types import ModuleType as _Module
from typing import TYPE_CHECKING

from sympy_tensordiff import lazy as _lazy
from sympy_tensordiff.symbolic.conversion.lift import lift as lift
from sympy_tensordiff.symbolic.expressions.canonical import canonical as canonical
from sympy_tensordiff.symbolic.expressions.partial_derivatives import Subs as Subs
from sympy_tensordiff.symbolic.index_notation.indices import indices as indices
from sympy_tensordiff.symbolic.index_notation.sums import IndexedMax as IndexedMax
from sympy_tensordiff.symbolic.index_notation.sums import IndexedMin as IndexedMin
from sympy_tensordiff.symbolic.index_notation.sums import IndexedProduct as IndexedProduct
from sympy_tensordiff.symbolic.index_notation.sums import IndexedSum as IndexedSum
from sympy_tensordiff.symbolic.index_notation.tensors import NamedTensor as NamedTensor
from sympy_tensordiff.symbolic.index_notation.tensors import TensorComprehension as TensorComprehension
from sympy_tensordiff.symbolic.index_notation.tensors import TensorEntry as TensorEntry
from sympy_tensordiff.symbolic.index_notation.tensors import TensorSymbol as TensorSymbol
from sympy_tensordiff.symbolic.printing import notebooks as _notebooks  # noqa: F401 (registers formulas)
from sympy_tensordiff.symbolic.recurrences.scan_function import scan as scan
from sympy_tensordiff.symbolic.recurrences.scans import Scan as Scan
from sympy_tensordiff.symbolic.recurrences.scans import ScanVariable as ScanVariable
from sympy_tensordiff.symbolic.recurrences.scans import Time as Time
from sympy_tensordiff.symbolic.whole_tensors.comparisons import equal as equal
from sympy_tensordiff.symbolic.whole_tensors.comparisons import greater as greater
from sympy_tensordiff.symbolic.whole_tensors.comparisons import greater_equal as greater_equal
from sympy_tensordiff.symbolic.whole_tensors.comparisons import less as less
from sympy_tensordiff.symbolic.whole_tensors.comparisons import less_equal as less_equal
from sympy_tensordiff.symbolic.whole_tensors.comparisons import logical_and as logical_and
from sympy_tensordiff.symbolic.whole_tensors.comparisons import logical_not as logical_not
from sympy_tensordiff.symbolic.whole_tensors.comparisons import logical_or as logical_or
from sympy_tensordiff.symbolic.whole_tensors.comparisons import not_equal as not_equal
from sympy_tensordiff.symbolic.whole_tensors.comparisons import where as where
from sympy_tensordiff.symbolic.whole_tensors.concatenation import concatenate as concatenate
from sympy_tensordiff.symbolic.whole_tensors.concatenation import cross as cross
from sympy_tensordiff.symbolic.whole_tensors.concatenation import kron as kron
from sympy_tensordiff.symbolic.whole_tensors.concatenation import stack as stack
from sympy_tensordiff.symbolic.whole_tensors.einsum import DeltaTensor as DeltaTensor
from sympy_tensordiff.symbolic.whole_tensors.einsum import EinsumProduct as EinsumProduct
from sympy_tensordiff.symbolic.whole_tensors.einsum import FilledTensor as FilledTensor
from sympy_tensordiff.symbolic.whole_tensors.elementwise import TensorAdd as TensorAdd
from sympy_tensordiff.symbolic.whole_tensors.elementwise import TensorFunction as TensorFunction
from sympy_tensordiff.symbolic.whole_tensors.elementwise import TensorMul as TensorMul
from sympy_tensordiff.symbolic.whole_tensors.elementwise import TensorPow as TensorPow
from sympy_tensordiff.symbolic.whole_tensors.entrywise_functions import abs as abs
from sympy_tensordiff.symbolic.whole_tensors.entrywise_functions import acos as acos
from sympy_tensordiff.symbolic.whole_tensors.entrywise_functions import acosh as acosh
from sympy_tensordiff.symbolic.whole_tensors.entrywise_functions import arccos as arccos
from sympy_tensordiff.symbolic.whole_tensors.entrywise_functions import arcsin as arcsin
from sympy_tensordiff.symbolic.whole_tensors.entrywise_functions import arctan as arctan
from sympy_tensordiff.symbolic.whole_tensors.entrywise_functions import asin as asin
from sympy_tensordiff.symbolic.whole_tensors.entrywise_functions import asinh as asinh
from sympy_tensordiff.symbolic.whole_tensors.entrywise_functions import atan as atan
from sympy_tensordiff.symbolic.whole_tensors.entrywise_functions import atanh as atanh
from sympy_tensordiff.symbolic.whole_tensors.entrywise_functions import ceiling as ceiling
from sympy_tensordiff.symbolic.whole_tensors.entrywise_functions import clip as clip
from sympy_tensordiff.symbolic.whole_tensors.entrywise_functions import cos as cos
from sympy_tensordiff.symbolic.whole_tensors.entrywise_functions import cosh as cosh
from sympy_tensordiff.symbolic.whole_tensors.entrywise_functions import elementwise as elementwise
from sympy_tensordiff.symbolic.whole_tensors.entrywise_functions import entr as entr
from sympy_tensordiff.symbolic.whole_tensors.entrywise_functions import erf as erf
from sympy_tensordiff.symbolic.whole_tensors.entrywise_functions import erfc as erfc
from sympy_tensordiff.symbolic.whole_tensors.entrywise_functions import exp as exp
from sympy_tensordiff.symbolic.whole_tensors.entrywise_functions import expm1 as expm1
from sympy_tensordiff.symbolic.whole_tensors.entrywise_functions import floor as floor
from sympy_tensordiff.symbolic.whole_tensors.entrywise_functions import hypot as hypot
from sympy_tensordiff.symbolic.whole_tensors.entrywise_functions import log as log
from sympy_tensordiff.symbolic.whole_tensors.entrywise_functions import log1p as log1p
from sympy_tensordiff.symbolic.whole_tensors.entrywise_functions import logaddexp as logaddexp
from sympy_tensordiff.symbolic.whole_tensors.entrywise_functions import maximum as maximum
from sympy_tensordiff.symbolic.whole_tensors.entrywise_functions import minimum as minimum
from sympy_tensordiff.symbolic.whole_tensors.entrywise_functions import relu as relu
from sympy_tensordiff.symbolic.whole_tensors.entrywise_functions import sign as sign
from sympy_tensordiff.symbolic.whole_tensors.entrywise_functions import sin as sin
from sympy_tensordiff.symbolic.whole_tensors.entrywise_functions import sinh as sinh
from sympy_tensordiff.symbolic.whole_tensors.entrywise_functions import sqrt as sqrt
from sympy_tensordiff.symbolic.whole_tensors.entrywise_functions import square as square
from sympy_tensordiff.symbolic.whole_tensors.entrywise_functions import tan as tan
from sympy_tensordiff.symbolic.whole_tensors.entrywise_functions import tanh as tanh
from sympy_tensordiff.symbolic.whole_tensors.functions import adj as adj
from sympy_tensordiff.symbolic.whole_tensors.functions import det as det
from sympy_tensordiff.symbolic.whole_tensors.functions import diag as diag
from sympy_tensordiff.symbolic.whole_tensors.functions import dot as dot
from sympy_tensordiff.symbolic.whole_tensors.functions import einsum as einsum
from sympy_tensordiff.symbolic.whole_tensors.functions import eye as eye
from sympy_tensordiff.symbolic.whole_tensors.functions import inv as inv
from sympy_tensordiff.symbolic.whole_tensors.functions import logdet as logdet
from sympy_tensordiff.symbolic.whole_tensors.functions import ones as ones
from sympy_tensordiff.symbolic.whole_tensors.functions import outer as outer
from sympy_tensordiff.symbolic.whole_tensors.functions import solve as solve
from sympy_tensordiff.symbolic.whole_tensors.functions import trace as trace
from sympy_tensordiff.symbolic.whole_tensors.functions import transpose as transpose
from sympy_tensordiff.symbolic.whole_tensors.functions import zeros as zeros
from sympy_tensordiff.symbolic.whole_tensors.matrix_functions import TensorAdjugate as TensorAdjugate
from sympy_tensordiff.symbolic.whole_tensors.matrix_functions import TensorCofactor as TensorCofactor
from sympy_tensordiff.symbolic.whole_tensors.matrix_functions import TensorDeterminant as TensorDeterminant
from sympy_tensordiff.symbolic.whole_tensors.matrix_functions import TensorInverse as TensorInverse
from sympy_tensordiff.symbolic.whole_tensors.matrix_functions import TensorLogSumExp as TensorLogSumExp
from sympy_tensordiff.symbolic.whole_tensors.operators import matmul as matmul
from sympy_tensordiff.symbolic.whole_tensors.rearrangements import flip as flip
from sympy_tensordiff.symbolic.whole_tensors.rearrangements import moveaxis as moveaxis
from sympy_tensordiff.symbolic.whole_tensors.rearrangements import pad as pad
from sympy_tensordiff.symbolic.whole_tensors.rearrangements import ravel as ravel
from sympy_tensordiff.symbolic.whole_tensors.rearrangements import reshape as reshape
from sympy_tensordiff.symbolic.whole_tensors.rearrangements import roll as roll
from sympy_tensordiff.symbolic.whole_tensors.rearrangements import tril as tril
from sympy_tensordiff.symbolic.whole_tensors.rearrangements import triu as triu
from sympy_tensordiff.symbolic.whole_tensors.reductions import cumprod as cumprod
from sympy_tensordiff.symbolic.whole_tensors.reductions import cumsum as cumsum
from sympy_tensordiff.symbolic.whole_tensors.reductions import logsumexp as logsumexp
from sympy_tensordiff.symbolic.whole_tensors.reductions import max as max
from sympy_tensordiff.symbolic.whole_tensors.reductions import mean as mean
from sympy_tensordiff.symbolic.whole_tensors.reductions import min as min
from sympy_tensordiff.symbolic.whole_tensors.reductions import norm as norm
from sympy_tensordiff.symbolic.whole_tensors.reductions import prod as prod
from sympy_tensordiff.symbolic.whole_tensors.reductions import softmax as softmax
from sympy_tensordiff.symbolic.whole_tensors.reductions import std as std
from sympy_tensordiff.symbolic.whole_tensors.reductions import sum as sum
from sympy_tensordiff.symbolic.whole_tensors.reductions import var as var
from sympy_tensordiff.symbolic.whole_tensors.scalar_functions import erfcx as erfcx
from sympy_tensordiff.symbolic.whole_tensors.scalar_functions import log1mexp as log1mexp
from sympy_tensordiff.symbolic.whole_tensors.scalar_functions import log_ndtr as log_ndtr
from sympy_tensordiff.symbolic.whole_tensors.scalar_functions import sigmoid as sigmoid
from sympy_tensordiff.symbolic.whole_tensors.scalar_functions import softplus as softplus
from sympy_tensordiff.symbolic.whole_tensors.scalar_functions import xlogy as xlogy

if TYPE_CHECKING:  # imported at first use, by `lazy.NAMES`
    from sympy_tensordiff.bridges.jax import jax_function as jax_function
    from sympy_tensordiff.bridges.minimize import minimize_problem as minimize_problem
    from sympy_tensordiff.bridges.torch import torch_function as torch_function
    from sympy_tensordiff.codegen.api import evaluate as evaluate
    from sympy_tensordiff.codegen.api import generate_code as generate_code
    from sympy_tensordiff.codegen.api import lambdify as lambdify
    from sympy_tensordiff.codegen.cost import cost as cost
    from sympy_tensordiff.codegen.run.array_functions import ArrayFunction as ArrayFunction
    from sympy_tensordiff.codegen.run.cache import clear_cache as clear_cache
    from sympy_tensordiff.codegen.run.compile import CompiledFunction as CompiledFunction
    from sympy_tensordiff.codegen.tuning import tune as tune
    from sympy_tensordiff.convex.api import certify_convex as certify_convex
    from sympy_tensordiff.derivative.api import gradient as gradient
    from sympy_tensordiff.derivative.api import hessian as hessian
    from sympy_tensordiff.derivative.api import hvp as hvp
    from sympy_tensordiff.derivative.api import jacobian as jacobian
    from sympy_tensordiff.derivative.api import jvp as jvp
    from sympy_tensordiff.derivative.api import vjp as vjp
    from sympy_tensordiff.derivative.named_parts import cse as cse
    from sympy_tensordiff.derivative.named_parts import name as name
    from sympy_tensordiff.derivative.native import diff as diff
    from sympy_tensordiff.derivative.native import simplify_deltas as simplify_deltas
    from sympy_tensordiff.distributed.function import DaskFunction as DaskFunction
    from sympy_tensordiff.drawing.api import GraphDrawing as GraphDrawing
    from sympy_tensordiff.drawing.api import draw_graph as draw_graph
    from sympy_tensordiff.drawing.equations import latex as latex
    from sympy_tensordiff.drawing.plot import plot_index_map as plot_index_map
    from sympy_tensordiff.parsing.api import parse as parse
    from sympy_tensordiff.parsing.indexed.api import parse_indexed as parse_indexed
    from sympy_tensordiff.parsing.parsed import ParsedExpression as ParsedExpression
    from sympy_tensordiff.parsing.to_text import to_text as to_text
    from sympy_tensordiff.structure.api import structured_hessian as structured_hessian
    from sympy_tensordiff.structure.api import structured_jacobian as structured_jacobian
    from sympy_tensordiff.structure.nlp import nlp as nlp
    from sympy_tensordiff.testing.differences import check_derivative as check_derivative
    from sympy_tensordiff.testing.error_bounds import ErrorBound as ErrorBound
    from sympy_tensordiff.testing.error_bounds import error_bound as error_bound

__version__ = "0.1.0"

__all__ = sorted(
    {name for name, value in globals().items() if not (name.startswith("_") or isinstance(value, _Module))}
    - {"TYPE_CHECKING"}
    | set(_lazy.NAMES)
)


def __dir__() -> list[str]:
    """Return the public names, those included that are imported at their first use."""
    return sorted({*globals(), *__all__})
