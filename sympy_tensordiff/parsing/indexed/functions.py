"""The functions of index notation, under the names by which they are typed and printed."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any, NamedTuple

import sympy

from sympy_tensordiff.symbolic.indexed_reductions import IndexedMax, IndexedMin, IndexedProduct
from sympy_tensordiff.symbolic.scalar_functions import sigmoid, softplus
from sympy_tensordiff.symbolic.sums import IndexedSum


class Called(NamedTuple):
    """A function of numbers, and how many of them it takes at least and at most (0: any number)."""

    function: Callable[..., Any]
    least: int = 1
    most: int = 1


_UNARY: dict[str, Any] = {
    **{name: getattr(sympy, name) for name in ("sin", "cos", "tan", "asin", "acos", "atan", "exp", "sqrt", "sign")},
    **{name: getattr(sympy, name) for name in ("sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "floor", "ceiling")},
    **{name: getattr(sympy, name) for name in ("sec", "csc", "cot", "asec", "acsc", "acot", "sech", "csch", "coth")},
    **{name: getattr(sympy, name) for name in ("asech", "acsch", "acoth", "frac", "sinc")},
    **{"arcsin": sympy.asin, "arccos": sympy.acos, "arctan": sympy.atan, "abs": sympy.Abs, "Abs": sympy.Abs},
    **{
        "log": sympy.log,
        "ln": sympy.log,
        "erf": sympy.erf,
        "erfc": sympy.erfc,
        "sigmoid": sigmoid,
        "softplus": softplus,
    },
    "relu": lambda value: sympy.Max(value, 0),
}
FUNCTIONS: MappingProxyType[str, Called] = MappingProxyType(
    {
        **{name: Called(function) for name, function in _UNARY.items()},
        **{name: Called(sympy.Max, 1, 0) for name in ("max", "Max")},
        **{name: Called(sympy.Min, 1, 0) for name in ("min", "Min")},
        **{name: Called(sympy.Mod, 2, 2) for name in ("mod", "Mod")},
        **{name: Called(sympy.KroneckerDelta, 2, 2) for name in ("delta", "KroneckerDelta")},
        **{"atan2": Called(sympy.atan2, 2, 2), "Eq": Called(sympy.Eq, 2, 2), "Ne": Called(sympy.Ne, 2, 2)},
        "Heaviside": Called(sympy.Heaviside, 1, 2),
    }
)

CONNECTIVES: MappingProxyType[str, Called] = MappingProxyType(
    {
        **{name: Called(getattr(sympy, name), 2, 2) for name in ("Implies", "Equivalent")},
        **{name: Called(getattr(sympy, name), 1, 0) for name in ("And", "Or", "Xor")},
        **{"ITE": Called(sympy.ITE, 3, 3), "Not": Called(sympy.Not)},
    }
)
"""What takes conditions, and is one."""

REDUCTIONS: MappingProxyType[str, Any] = MappingProxyType(
    {
        **{name: IndexedSum for name in ("sum", "Sum", "IndexedSum")},
        **{name: IndexedProduct for name in ("prod", "Product", "IndexedProduct")},
        **{"IndexedMax": IndexedMax, "IndexedMin": IndexedMin},
    }
)
"""Reductions: a body, then one or more limits ``(k, first, last)``, or ``k`` alone."""

STRUCTURES = ("TensorComprehension", "Piecewise", "where")
"""What takes other arguments than numbers."""

CONSTANTS: MappingProxyType[str, Any] = MappingProxyType(
    {"pi": sympy.pi, "E": sympy.E, "True": sympy.true, "False": sympy.false}
)
"""What a name stands for that nothing else has."""
