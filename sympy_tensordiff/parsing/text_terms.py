"""Terms and functions taken apart for the text language, and what it composes of its own functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import MappingProxyType
from typing import Any

import sympy
from sympy import Function, KroneckerDelta, Max, Mul, Piecewise, Pow, Rational, S

from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.parsing.numbers import FUNCTIONS
from sympy_tensordiff.parsing.precedence import LETTERS, axis_letters, decimal_places
from sympy_tensordiff.symbolic.depth import applied, measures
from sympy_tensordiff.symbolic.einsum import EinsumProduct
from sympy_tensordiff.symbolic.elementwise import TensorMul, TensorPow
from sympy_tensordiff.symbolic.entries import TensorEntry
from sympy_tensordiff.symbolic.matrix_functions import TensorInverse
from sympy_tensordiff.symbolic.scalar_functions import sigmoid, softplus
from sympy_tensordiff.symbolic.subscripts import Subscripts, parse_subscripts
from sympy_tensordiff.symbolic.tensors import TensorComprehension
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


def refused(node: Any, reason: str, way_out: str) -> UnsupportedError:
    """The error about a node that the language cannot say."""
    return UnsupportedError(f"to_text: {shown(node)} has no text in the text language of td.parse: {reason}; {way_out}")


def split(term: Any) -> tuple[Any, tuple[Any, ...]]:
    """A number and the other factors of a product, entry by entry or not, or of anything else."""
    if term.is_Number:
        return term, ()
    if isinstance(term, (Mul, TensorMul)):
        first, *rest = term.args
        return (first, tuple(rest)) if first.is_Number else (S.One, tuple(term.args))
    return S.One, (term,)


def fraction(number: Any) -> tuple[Any, Any]:
    """What to multiply by and what to divide by: ``x / 4``, but ``0.75`` as a decimal number."""
    if number.is_Float or (abs(number.p) != 1 and decimal_places(number) is not None):
        return number, S.One
    return S(number.p), S(number.q)


def is_subtracted(term: Any) -> bool:
    """Whether a term of a sum is read back as it is, where its opposite is subtracted."""
    coefficient, factors = split(term)
    return bool(coefficient < 0) and (not isinstance(term, TensorMul) or len(factors) == 1)


def scalar_of(node: Any) -> Any:
    """The scalar that an entry or a comprehension without axes is; None for all others."""
    tensor = node.tensor if isinstance(node, TensorEntry) else node
    return tensor.body if isinstance(tensor, TensorComprehension) and not tensor.rank else None


def in_lower_case(product: EinsumProduct) -> Subscripts:
    """The subscripts of a product in the letters of the language, with others in place of A-Z."""
    found = parse_subscripts(product.subscripts)
    used = dict.fromkeys(found.output + "".join(found.inputs))
    others = [letter for letter in used if letter not in LETTERS]
    free = axis_letters(len(others), "".join(letter for letter in used if letter in LETTERS))
    letters = str.maketrans(dict(zip(others, free, strict=True)))
    return parse_subscripts(product.subscripts.translate(letters))


def shown(node: Any) -> str:
    """A node in a message."""
    return f"a {type(node).__name__}" if measures(node).is_unprintable else str(node)


# -------------------------------------------------------------- functions


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
