"""The text of `str` is Python of the same value: ``*``, ``/`` and ``@`` bind alike, a minus sign binds tighter."""

import itertools

import pytest
from every import every
from fuzz.printed import assert_printed, read_printed, symbols_by_name
from sympy import Max, Symbol, exp

import sympy_tensordiff as td
from sympy_tensordiff.errors import DerivativeMismatch
from sympy_tensordiff.reference import evaluate
from sympy_tensordiff.testing import random_values

pytestmark = pytest.mark.quick

n = td.indices("n")
a = Symbol("a", real=True)
A = td.TensorSymbol("A", (n, n))
x, y = (td.TensorSymbol(name, n) for name in "xy")

SCALARS = {
    "contraction": td.dot(x, y),
    "form": x @ A @ x,
    "scaled": td.einsum("i,i,->", x, y, 2 * a),
    "negative": td.einsum("i,i,->", x, y, -2),
    "sum": a + td.dot(x, y),
    "product": a * td.dot(x, x),
}
PLACES = {
    "minus": lambda s, t: -s,
    "quotient": lambda s, t: s / t,
    "minus quotient": lambda s, t: -s / t,
    "minus above a scalar": lambda s, t: -a / t,
    "minus square": lambda s, t: -(s**2) / t**3,
    "difference": lambda s, t: a - s / t,
    "number": lambda s, t: -3 * s / (2 * t),
    "exponent": lambda s, t: (a**2) ** -s,
    "argument": lambda s, t: exp(-s / t) + Max(-s, t),
    "whole": lambda s, t: -s * x / t,
    "whole quotient": lambda s, t: -x / t - s * (A @ y) / t,
    "whole divisor": lambda s, t: (-s) / (t * x),
    "whole exponent": lambda s, t: (x**2) ** -s,
}


def values_of(expr):
    return random_values((expr, A, x, y, a), {n: 3}, 5)


@every("place", [*PLACES], turns=8)
@every("upper", [*SCALARS])
def test_the_text_has_the_value(upper, place):
    for lower in SCALARS:
        expr = PLACES[place](SCALARS[upper], SCALARS[lower])
        values = values_of(expr)
        assert_printed(expr, evaluate(expr, values), values, f"{upper}, {lower}")


def test_orders_of_factors():
    """Element-wise factors, matrices and vectors in any order, with what divides them."""
    factors = [A, A * A, A @ A, td.inv(A + 5 * td.DeltaTensor(n)), A + 1]
    for left, right in itertools.product(factors, repeat=2):
        for expr in (-left @ right / a, left * (right @ A), -(left @ x) / (right @ y), (left @ right).T * left / right):
            values = values_of(expr)
            assert_printed(expr, evaluate(expr, values), values, "factors")


def test_another_value_is_seen():
    expr = -a / td.dot(x, x)
    values = values_of(expr)
    assert evaluate(read_printed("-a/x.T @ x", symbols_by_name(expr)), values) != evaluate(expr, values)
    with pytest.raises(DerivativeMismatch, match=r"quotient as text, -a/\(x.T @ x\): entry"):
        assert_printed(expr, 1, values, "quotient")
