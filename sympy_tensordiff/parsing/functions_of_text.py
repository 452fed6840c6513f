"""Functions and constants of the text language, and what others are in terms of these."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import sympy
from sympy import Max, Piecewise, Rational, S

from sympy_tensordiff.symbolic.scalar_functions import sigmoid, softplus

NAMES: MappingProxyType[Any, str] = MappingProxyType(
    {
        **{sympy.sin: "sin", sympy.cos: "cos", sympy.tan: "tan", sympy.tanh: "tanh", sympy.exp: "exp"},
        **{sympy.asin: "arcsin", sympy.acos: "arccos", sympy.atan: "arctan", sympy.log: "log"},
        **{sympy.sign: "sign", sympy.Abs: "abs"},
    }
)
CONSTANTS = MappingProxyType({S.Exp1: "exp(1)", S.Pi: "arccos(-1)"})
HALF = Rational(1, 2)

COMPOSED: MappingProxyType[Any, Callable[[Any], Any]] = MappingProxyType(
    {
        sigmoid: lambda x: 1 / (1 + sympy.exp(-x)),
        # Without overflow, where the exponential of the argument has one.
        softplus: lambda x: Max(x, 0) + sympy.log(1 + sympy.exp(-sympy.Abs(x))),
        sympy.sinh: lambda x: (sympy.exp(x) - sympy.exp(-x)) / 2,
        sympy.cosh: lambda x: (sympy.exp(x) + sympy.exp(-x)) / 2,
        sympy.coth: lambda x: 1 / sympy.tanh(x),
        sympy.asinh: lambda x: sympy.sign(x) * sympy.log(sympy.Abs(x) + (x**2 + 1) ** HALF),
        sympy.acosh: lambda x: sympy.log(x + (x**2 - 1) ** HALF),
        sympy.atanh: lambda x: (sympy.log(1 + x) - sympy.log(1 - x)) / 2,
        sympy.sec: lambda x: 1 / sympy.cos(x),
        sympy.csc: lambda x: 1 / sympy.sin(x),
        sympy.cot: lambda x: 1 / sympy.tan(x),
    }
)
"""Functions that the language does not have, each as an expression of its argument."""


def by_relu(expr: Any) -> Any:
    """The larger or smaller one of a number and something else in terms of ``Max(x, 0)``; None for all else."""
    numbers = [arg for arg in expr.args if arg.is_Number]
    others = [arg for arg in expr.args if not arg.is_Number]
    if len(numbers) != 1 or len(others) != 1:
        return None
    (bound,), (other,) = numbers, others
    return bound + Max(other - bound, 0) if isinstance(expr, Max) else bound - Max(bound - other, 0)


def step(expr: Piecewise) -> Any:
    """A function that is a number on each side of a threshold, in terms of ``Max`` and ``sign``; None for all else."""
    if len(expr.args) != 2 or expr.args[1].cond != S.true:
        return None
    (first, condition), (second, _) = expr.args
    if not (first.is_Rational and second.is_Rational):
        return None
    match condition:
        case sympy.StrictGreaterThan():
            return second + (first - second) * Max(sympy.sign(condition.lhs - condition.rhs), 0)
        case sympy.StrictLessThan():
            return second + (first - second) * Max(sympy.sign(condition.rhs - condition.lhs), 0)
        case sympy.GreaterThan():
            return first + (second - first) * Max(sympy.sign(condition.rhs - condition.lhs), 0)
        case sympy.LessThan():
            return first + (second - first) * Max(sympy.sign(condition.lhs - condition.rhs), 0)
    return None
