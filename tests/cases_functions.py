"""H9: every scalar function that the backends evaluate, with its derivatives in closed form.

The functions of a group are in the rows of one tensor, ``sum_n f_n(x[n, i], y[n, i])``, so that
row ``n`` of a derivative is the derivative of ``f_n`` alone. The closed forms are mpmath's, in the
precision of the oracle: neither SymPy nor the package takes part in them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import sympy
from cases import Case, case
from sympy import Add, Piecewise, Rational

from sympy_tensordiff.reference.duals import CONTEXT
from sympy_tensordiff.symbolic.index_notation.indices import indices
from sympy_tensordiff.symbolic.index_notation.tensors import TensorComprehension, TensorSymbol

Number = Any
mp = CONTEXT  # of mpmath, 30 digits
i = indices("i")


@dataclass(frozen=True)
class Scalar:
    """A function of one or two numbers, its partial derivatives, and where to take them."""

    name: str
    function: Callable[..., Any]
    partials: tuple[Callable[..., Number], ...]
    points: tuple[Sequence[Any], ...]


def one(name: str, slope: Callable[[Number], Number], *points: float, of: Any = None) -> Scalar:
    """A function of one number; by default SymPy's of that name."""
    return Scalar(name, of or getattr(sympy, name), (slope,), (points,))


def two(name: str, function: Any, by_x: Any, by_y: Any, xs: Sequence[float], ys: Sequence[float]) -> Scalar:
    """A function of two numbers."""
    return Scalar(name, function, (by_x, by_y), (xs, ys))


def _step(x: Number) -> Number:
    return Fraction(0)


INSIDE, OUTSIDE, ABOVE, BETWEEN = (-0.5, 0.1875, 0.625), (-2.5, 1.1875, 3.0), (1.125, 1.75, 4.0), (0.125, 0.5, 0.875)
ANY, POSITIVE = (-1.3125, -0.25, 0.9375), (0.1875, 1.125, 2.5)
# Both signs, kinks and ties.
TIES, OTHERS = (-1.5, 0.0, 1.0, 1.0, -0.5, 0.75), (1.0, 0.0, 1.0, -2.0, -0.5, 0.5)

GROUPS: dict[str, list[Scalar]] = {
    "trigonometric": [
        one("sin", mp.cos, *ANY),
        one("cos", lambda x: -mp.sin(x), *ANY),
        one("tan", lambda x: 1 + mp.tan(x) ** 2, *ANY),
        one("sec", lambda x: mp.sin(x) / mp.cos(x) ** 2, *ANY),
        one("csc", lambda x: -mp.cos(x) / mp.sin(x) ** 2, *ANY),
        one("cot", lambda x: -1 / mp.sin(x) ** 2, *ANY),
        one("sinc", lambda x: mp.cos(x) / x - mp.sin(x) / x**2, *ANY),
    ],
    "inverse_trigonometric": [
        one("asin", lambda x: 1 / mp.sqrt(1 - x * x), *INSIDE),
        one("acos", lambda x: -1 / mp.sqrt(1 - x * x), *INSIDE),
        one("atan", lambda x: 1 / (1 + x * x), *ANY),
        one("acot", lambda x: -1 / (1 + x * x), *ANY),
        one("asec", lambda x: 1 / (abs(x) * mp.sqrt(x * x - 1)), *OUTSIDE),
        one("acsc", lambda x: -1 / (abs(x) * mp.sqrt(x * x - 1)), *OUTSIDE),
        two("atan2", sympy.atan2, lambda y, x: x / (x * x + y * y), lambda y, x: -y / (x * x + y * y), ANY, INSIDE),
    ],
    "hyperbolic": [
        one("sinh", mp.cosh, *ANY),
        one("cosh", mp.sinh, *ANY),
        one("tanh", lambda x: 1 - mp.tanh(x) ** 2, *ANY),
        one("sech", lambda x: -mp.sinh(x) / mp.cosh(x) ** 2, *ANY),
        one("csch", lambda x: -mp.cosh(x) / mp.sinh(x) ** 2, *ANY),
        one("coth", lambda x: -1 / mp.sinh(x) ** 2, *ANY),
        one("sigmoid", lambda x: mp.exp(-x) / (1 + mp.exp(-x)) ** 2, *ANY, of=lambda x: 1 / (1 + sympy.exp(-x))),
        one("softplus", lambda x: 1 / (1 + mp.exp(-x)), *ANY, of=lambda x: sympy.log(1 + sympy.exp(x))),
    ],
    "inverse_hyperbolic": [
        one("asinh", lambda x: 1 / mp.sqrt(1 + x * x), *ANY),
        one("acosh", lambda x: 1 / mp.sqrt(x * x - 1), *ABOVE),
        one("atanh", lambda x: 1 / (1 - x * x), *INSIDE),
        one("asech", lambda x: -1 / (x * mp.sqrt(1 - x * x)), *BETWEEN),
        one("acsch", lambda x: -1 / (abs(x) * mp.sqrt(1 + x * x)), *ANY),
        one("acoth", lambda x: 1 / (1 - x * x), *OUTSIDE),
    ],
    "powers": [
        one("exp", mp.exp, *ANY),
        one("log", lambda x: 1 / x, *POSITIVE),
        one("sqrt", lambda x: 1 / (2 * mp.sqrt(x)), *POSITIVE),
        one("cbrt", lambda x: 1 / (3 * mp.cbrt(x) ** 2), *POSITIVE),
        one("cube", lambda x: 3 * x * x, *ANY, of=lambda x: x**3),
        one("inverse_square", lambda x: -2 / x**3, *ANY, of=lambda x: x**-2),
        one("root_of_cube", lambda x: 3 * mp.sqrt(x) / 2, *POSITIVE, of=lambda x: x ** Rational(3, 2)),
        one("power_of_two", lambda x: mp.log(2) * mp.mpf(2) ** x, *ANY, of=lambda x: 2**x),
        one("erf", lambda x: 2 * mp.exp(-x * x) / mp.sqrt(mp.pi), *ANY),
        one("erfc", lambda x: -2 * mp.exp(-x * x) / mp.sqrt(mp.pi), *ANY),
    ],
    "two_numbers": [
        two("pow", lambda x, y: x**y, lambda x, y: y * x ** (y - 1), lambda x, y: x**y * mp.log(x), POSITIVE, ANY),
        two("quotient", lambda x, y: x / y, lambda x, y: 1 / y, lambda x, y: -x / (y * y), ANY, OUTSIDE),
        two(
            *("hypot", lambda x, y: sympy.sqrt(x**2 + y**2)),
            *(lambda x, y: x / mp.hypot(x, y), lambda x, y: y / mp.hypot(x, y), ANY, INSIDE),
        ),
        two(
            *("logarithm", lambda x, y: sympy.log(x, y)),
            *(lambda x, y: 1 / (x * mp.log(y)), lambda x, y: -mp.log(x) / (y * mp.log(y) ** 2), POSITIVE, ABOVE),
        ),
        two("lerp", lambda x, w: x + (5 - x) * w, lambda x, w: 1 - w, lambda x, w: 5 - x, ANY, BETWEEN),
    ],
    "kinks": [
        one("Abs", lambda x: Fraction((x > 0) - (x < 0)), *TIES),
        one("sign", _step, *TIES),
        one("floor", _step, *TIES),
        one("ceiling", _step, *TIES),
        one("relu", lambda x: Fraction(x > 0), *TIES, of=lambda x: sympy.Max(x, 0)),
        one("clamp", lambda x: Fraction(-1 < x < 1), *TIES, of=lambda x: sympy.Min(sympy.Max(x, -1), 1)),
        two("max", sympy.Max, lambda x, y: _first(y, x), lambda x, y: _first(x, y), TIES, OTHERS),
        two("min", sympy.Min, lambda x, y: _first(x, y), lambda x, y: _first(y, x), TIES, OTHERS),
        two(
            *("select", lambda x, y: Piecewise((x**2 * y, x < y), (x * y**3, True))),
            lambda x, y: 2 * x * y if x < y else y**3,
            *(lambda x, y: x * x if x < y else 3 * x * y * y, TIES, OTHERS),
        ),
    ],
}


def _first(small: Number, large: Number) -> Fraction:
    """1 where the first is less, 1/2 where both are equal."""
    return Fraction(1, 2) if small == large else Fraction(small < large)


def _group(functions: Sequence[Scalar]) -> Case:
    count, width = len(functions), len(functions[0].points[0])
    x, y = TensorSymbol("x", (count, width)), TensorSymbol("y", (count, width))
    terms = [f.function(*(t[n, i] for t, _ in zip((x, y), f.points, strict=False))) for n, f in enumerate(functions)]
    both = any(len(f.points) == 2 for f in functions)
    values = {x: [f.points[0] for f in functions], y: [f.points[-1] for f in functions]}
    variables = (x, y) if both else (x,)
    function = TensorComprehension(Add(*terms), (i, width))
    return Case(function, variables, values={v: values[v] for v in variables})


for _name, _functions in GROUPS.items():
    case(f"H9_{_name}")(partial(_group, _functions))
