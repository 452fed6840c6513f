"""Errors for names of other packages that do not exist here: they say what to write instead."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any, NoReturn

from sympy import Basic

from sympy_tensordiff.lazy import public_name
from sympy_tensordiff.symbolic.expressions.depth import measures

OPERATORS_OF_NUMPY = MappingProxyType(
    {
        **{name: name for name in ("add", "matmul", "divmod")},
        **{"subtract": "sub", "multiply": "mul", "divide": "truediv", "power": "pow"},
        **{"floor_divide": "floordiv", "remainder": "mod"},
    }
)
"""Functions of NumPy that are operators of Python."""

_OF_NUMPY = MappingProxyType(
    {"absolute": "abs", "fabs": "abs", "ceil": "ceiling", "fmax": "maximum", "fmin": "minimum", "arctanh": "atanh"}
)
"""Functions of NumPy that have another name here."""

_MAX_NODES_REPEATED = 30
"""The nodes of an expression that a hint repeats."""

REPLACED_FUNCTIONS = MappingProxyType(
    {
        **dict.fromkeys(("grad", "derive", "differentiate"), "td.gradient(s, x)"),
        **dict.fromkeys(("value_and_grad", "value_and_gradient"), "td.lambdify((x, y), (s, td.gradient(s, x)))"),
        **dict.fromkeys(("jac", "jacfwd", "jacrev"), "td.jacobian(x, x)"),
        "hess": "td.hessian(s, x)",
        **dict.fromkeys(("Tensor", "tensor", "array", "Variable", "Matrix"), 'td.TensorSymbol("A", (n, m))'),
        **dict.fromkeys(("Vector", "vector", "IndexedBase"), 'td.TensorSymbol("x", n)'),
        **dict.fromkeys(("symbols", "index", "sizes", "Idx"), 'td.indices("i j n")'),
        **dict.fromkeys(("Sum", "sigma"), "td.IndexedSum(x[i], (i, 0, n - 1))"),
        "Product": "td.IndexedProduct(x[i], (i, 0, n - 1))",
        **dict.fromkeys(("amax", "Max"), "td.max(x), or by entries td.maximum(x, y)"),
        **dict.fromkeys(("amin", "Min"), "td.min(x), or by entries td.minimum(x, y)"),
        **{"gt": "td.greater(x, y)", "ge": "td.greater_equal(x, y)", "eq": "td.equal(x, y)"},
        **{"lt": "td.less(x, y)", "le": "td.less_equal(x, y)", "ne": "td.not_equal(x, y)"},
        **{"absolute": "td.abs(x)", "negative": "-x", "true_divide": "x/y"},
        "power": "x**2",
        "add": "x + y",
        "subtract": "x - y",
        "multiply": "x*y",
        "divide": "x/y",
        **dict.fromkeys(("cholesky", "cholesky_solve", "cho_solve", "cho_factor"), "td.solve(S, x), td.logdet(S)"),
        "cov": "(A - td.mean(A, axis=0)).T @ (A - td.mean(A, axis=0))/(n - 1)",
        **dict.fromkeys(("cat", "hstack"), "td.concatenate((x, y))"),
        "vstack": "td.stack((x, y))",
        **dict.fromkeys(("expand_dims", "unsqueeze"), "x[:, None]"),
        "flatten": "td.ravel(A)",
        "slogdet": "td.log(td.abs(td.det(S)))",
        "lstsq": "td.inv(A.T @ A) @ (A.T @ x)",
        **dict.fromkeys(("mm", "bmm"), "A.T @ A"),
        **dict.fromkeys(("tensordot", "inner", "contract"), 'td.einsum("ij,ik->jk", A, A)'),
        "tr": "td.trace(S)",
        **dict.fromkeys(("identity", "Identity"), "td.eye(n)"),
        **dict.fromkeys(("zeros_like", "ones_like", "full"), "td.zeros(A.shape)"),
        **dict.fromkeys(("jit", "compile", "function"), "td.lambdify((x, y), s)"),
        "vmap": "td.TensorComprehension(td.sum(A[i, j]), (i, n), (j, m))",
        "eval": "td.evaluate(s, {x: [1, 2], y: [3, 4]})",
        **{"log_softmax": "td.log(td.softmax(x))", "layer_norm": "(x - td.mean(x))/td.sqrt(td.var(x))"},
        **dict.fromkeys(("logsigmoid", "log_sigmoid"), "td.log(td.sigmoid(x))"),
        **dict.fromkeys(("silu", "swish"), "x*td.sigmoid(x)"),
        **{"gelu": "x*td.erfc(-x/sympy.sqrt(2))/2", "mish": "x*td.tanh(td.softplus(x))", "expit": "td.sigmoid(x)"},
        **{"elu": "td.where(td.greater(x, 0), x, td.expm1(x))", "leaky_relu": "td.maximum(x, x/100)"},
        **{"hardtanh": "td.clip(x, -1, 1)", "clamp": "td.clip(x, 0, 1)", "softsign": "x/(1 + td.abs(x))"},
        **{"heaviside": "td.where(td.greater(x, 0), 1, 0)", "logit": "td.log(x/(1 - x))"},
        **{"cross_entropy": "-td.sum(y*td.log(td.softmax(x)))", "mse_loss": "td.mean((x - y)**2)"},
        "binary_cross_entropy": "td.sum(td.softplus(x) - y*x)",
        "huber_loss": "td.sum(td.where(td.less(td.abs(x - y), 1), (x - y)**2/2, td.abs(x - y) - sympy.Rational(1, 2)))",
        "cosine_similarity": "td.dot(x, y)/(td.norm(x)*td.norm(y))",
        **dict.fromkeys(("cdist", "pdist"), "td.sqrt(td.sum((A[:, None, :] - A[None, :, :])**2, axis=2))"),
        **{"rsqrt": "1/td.sqrt(x)", "reciprocal": "1/x", "vdot": "td.dot(x, y)", "matrix_power": "S @ S"},
        **{"log2": "td.log(x)/sympy.log(2)", "log10": "td.log(x)/sympy.log(10)"},
        "pinv": "td.inv(A.T @ A) @ A.T",
        **dict.fromkeys(("round", "rint", "around"), "td.floor(x + sympy.Rational(1, 2))"),
        "logcumsumexp": "td.log(td.cumsum(td.exp(x)))",
        "one_hot": "td.TensorComprehension(sympy.Piecewise((1, sympy.Eq(p[i], j)), (0, True)), (i, n), (j, m))",
        **dict.fromkeys(("gather", "take_along_axis"), "td.TensorComprehension(A[i, p[i]], (i, n))"),
        **dict.fromkeys(
            ("segment_sum", "bincount", "scatter_add", "index_add"),
            "td.TensorComprehension(td.IndexedSum(sympy.Piecewise((x[i], sympy.Eq(p[i], j)), (0, True)), "
            "(i, 0, n - 1)), (j, m))",
        ),
        **dict.fromkeys(
            ("convolve", "correlate", "conv1d"),
            "td.TensorComprehension(td.IndexedSum(x[i + k]*y[k], (k, 0, 2)), (i, n - 2))",
        ),
        **dict.fromkeys(
            ("conv2d", "conv"),
            "td.TensorComprehension(td.IndexedSum(A[i + k, j + l]*S[k, l], (l, 0, 2), (k, 0, 2)), "
            "(i, n - 2), (j, m - 2))",
        ),
        **{name: f"sympy.{name}, as everything of SymPy's" for name in ("pi", "Piecewise", "Symbol", "Function")},
    }
)
"""The replacement of a missing name: for vectors ``x`` and ``y``, matrices ``A`` and ``S``, a scalar ``s``, indices
``i``, ``j``, ``k`` and ``l``, sizes ``n`` and ``m``, and integers ``p`` from 0 to ``m - 1``.
"""

NOT_SUPPORTED = frozenset(
    (
        *("svd", "eig", "eigh", "eigvals", "eigvalsh", "qr", "lu", "schur"),
        *("expm", "logm", "sqrtm", "matrix_rank", "argmax", "argmin", "argsort", "sort"),
        *("topk", "median", "quantile", "percentile", "unique", "nonzero", "fft", "ifft"),
        *("interp", "histogram", "searchsorted", "scatter"),
    )
)
"""Functions of other packages that have no counterpart here."""

REPLACED_METHODS = MappingProxyType(
    {
        **{name: f"td.{name}({{}})" for name in ("sum", "mean", "max", "min", "prod", "inv", "det", "trace", "norm")},
        **dict.fromkeys(("dot", "matmul", "mm"), "{} @ …, or td.einsum"),
        "t": "{}.T, or td.transpose({}, axes)",
        "softmax": "td.softmax({})",
        "ndim": "{}.rank",
        **dict.fromkeys(("grad", "backward", "gradient"), "td.gradient({}, x) for a variable x"),
        **dict.fromkeys(("numpy", "item"), "td.evaluate({}, {{x: array, …}})"),
        "reshape": "td.reshape({}, shape)",
        **dict.fromkeys(("flatten", "ravel"), "td.ravel({})"),
    }
)
"""The replacement of a method of a tensor."""


def shown(expr: Any) -> str:
    """Return a short text of ``expr`` for a hint: ``A`` for a large expression, ``...`` for an array."""
    if isinstance(expr, Basic):
        return str(expr) if measures(expr).size <= _MAX_NODES_REPEATED else "A"
    return "…" if getattr(expr, "ndim", 0) else str(expr)


def message_for_ufunc(name: str, operands: Sequence[Any]) -> str:
    """Return the error text for the NumPy function ``name`` applied to the tensor expressions ``operands``."""
    ours = _OF_NUMPY.get(name, name)
    known = ours in sys.modules["sympy_tensordiff"].__all__
    texts = ", ".join(map(shown, operands))
    way_out = f"write td.{ours}({texts})" if known else f"td.elementwise(f, {texts}) applies a function f of SymPy"
    return f"numpy.{name} computes with arrays, and tensors are expressions: {way_out}"


def attribute_of_module(name: str) -> Any:
    """Return ``td.name`` if it is a name that is imported on first use; else raise `AttributeError`, naming a
    replacement if one is known.
    """
    if (value := public_name(name)) is not None:
        return value
    module = sys.modules["sympy_tensordiff"]
    text = f"module 'sympy_tensordiff' has no attribute {name!r}"
    if name in REPLACED_FUNCTIONS:
        text += f"; write {REPLACED_FUNCTIONS[name]}"
    elif name in NOT_SUPPORTED:
        text += f": {name} is not supported; compute it with NumPy, and pass what it gives to the kernel as an argument"
    elif not name.startswith("_"):
        near = difflib.get_close_matches(name, module.__all__, 1, 0.75)
        text += f"; did you mean td.{near[0]}?" if near else ""
    raise AttributeError(text, name=name, obj=module)


def raise_for_attribute(tensor: Any, name: str) -> NoReturn:
    """Raise `AttributeError` for a missing ``tensor.name``, with a replacement if one is known."""
    text = f"{type(tensor).__name__!r} object has no attribute {name!r}"
    if name in REPLACED_METHODS:
        text += f"; write {REPLACED_METHODS[name].format(*[shown(tensor)] * 2)}"
    raise AttributeError(text, name=name, obj=tensor)


# By assignment: to a type checker, a module with a function of this name would have all names.
vars(sys.modules["sympy_tensordiff"])["__getattr__"] = attribute_of_module
