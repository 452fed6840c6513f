"""Functions and constants of the text language, and what others are in terms of these."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import MappingProxyType
from typing import Any

import sympy
from sympy import Function, KroneckerDelta, Max, Piecewise, Pow, Rational, S

from sympy_tensordiff.parsing.numbers import FUNCTIONS
from sympy_tensordiff.symbolic.elementwise import TensorPow
from sympy_tensordiff.symbolic.matrix_functions import TensorInverse
from sympy_tensordiff.symbolic.measures import measures
from sympy_tensordiff.symbolic.scalar_functions import sigmoid, softplus
from sympy_tensordiff.symbolic.shallow import applied
from sympy_tensordiff.symbolic.traversal import nodes_in

NAMES = MappingProxyType({function: name for name, function in FUNCTIONS.items()})
CONSTANTS = MappingProxyType({S.Exp1: "exp(1)", S.Pi: "arccos(-1)"})
HALF = Rational(1, 2)
WRITTEN_OUT = 12
"""Differences of more levels get no simpler by SymPy's rules for signs, which would take seconds."""

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


def by_sign(expr: Piecewise) -> Any:
    """One of two values by a comparison, in terms of ``Max`` and ``sign``; None for all other cases."""
    if len(expr.args) != 2 or expr.args[1].cond != S.true:
        return None
    (first, condition), (second, _) = expr.args
    match condition:
        case sympy.StrictGreaterThan():
            return second + (first - second) * _is_larger(condition.lhs, condition.rhs)
        case sympy.StrictLessThan():
            return second + (first - second) * _is_larger(condition.rhs, condition.lhs)
        case sympy.GreaterThan():
            return first + (second - first) * _is_larger(condition.rhs, condition.lhs)
        case sympy.LessThan():
            return first + (second - first) * _is_larger(condition.lhs, condition.rhs)
    return None


def by_base(expr: Piecewise) -> Any:
    """What is chosen where a base ``s`` of powers is not 0, as the derivative of a root, and 0 elsewhere: with 1 for 0.

    ``1/sqrt(s)`` becomes ``abs(sign(s))/sqrt(s + 1 - abs(sign(s)))``. None for all other cases.
    """
    (first, condition), (second, _) = expr.args[0], expr.args[-1]
    if len(expr.args) != 2 or second != 0 or not isinstance(condition, sympy.Ne) or condition.rhs != 0:
        return None
    base = condition.lhs
    powers = [node for node in nodes_in([first]) if isinstance(node, Pow) and node.base in (base, sympy.Abs(base))]
    if not is_total([first.xreplace(dict.fromkeys(powers, S.One)), base]):
        return None
    chosen = sympy.Abs(sympy.sign(base))
    return chosen * first.xreplace({base: base + 1 - chosen})


def _is_larger(first: Any, second: Any) -> Any:
    """1 where the one is larger than the other, 0 elsewhere."""
    difference = applied(sympy.Add, (first, -second))
    is_deep = measures(difference).depth > WRITTEN_OUT
    return applied(Max, (applied(sympy.sign, (difference,), is_deep), S.Zero), is_deep)


TOTAL = (
    *(sympy.sin, sympy.cos, sympy.atan, sympy.tanh, sympy.exp, sympy.sign, sympy.Abs, sigmoid, softplus),
    *(sympy.sinh, sympy.cosh, sympy.asinh, Piecewise, KroneckerDelta),
)


def is_total(exprs: Iterable[Any]) -> bool:
    """Whether all of the expressions have a value wherever their tensors have one.

    A value that is not chosen is multiplied by 0 in the text, and what has no value has no such product either.
    """
    for node in nodes_in(exprs):
        if isinstance(node, (Pow, TensorPow)):
            if not (node.args[1].is_Integer and node.args[1] > 0):
                return False
        elif isinstance(node, TensorInverse) or (isinstance(node, Function) and not isinstance(node, TOTAL)):
            return False
    return True
