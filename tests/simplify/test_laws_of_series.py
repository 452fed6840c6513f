"""Power series with rational coefficients: functions, powers, sums and products against derivatives by SymPy."""

from __future__ import annotations

import itertools
from fractions import Fraction
from math import factorial
from random import Random

import sympy
from every import every
from sympy.codegen.cfunctions import expm1, log1p

from sympy_tensordiff.graph.functions import sigmoid
from sympy_tensordiff.simplify import power_series
from sympy_tensordiff.simplify.power_series import ErrorIntegral, Series

t = sympy.Symbol("t")
LENGTH = 7
OWN = {
    expm1: sympy.exp(t) - 1,
    sympy.log: sympy.log(1 + t),
    log1p: sympy.log(1 + t),
    sigmoid: 1 / (1 + sympy.exp(-t)),
    ErrorIntegral: sympy.sqrt(sympy.pi) * sympy.erf(t),
}
INVERSE = {
    sympy.asin: (-1, Fraction(-1, 2)),
    sympy.asinh: (1, Fraction(-1, 2)),
    sympy.atan: (1, Fraction(-1)),
    sympy.atanh: (-1, Fraction(-1)),
}


def taylor(expression, length=LENGTH):
    """Return the Taylor coefficients of an expression in t about 0, by SymPy's derivatives."""
    coefficients = []
    for k in range(length):
        value = sympy.Rational(sympy.simplify(expression.subs(t, 0)) / factorial(k))
        coefficients.append(Fraction(value.p, value.q))
        expression = expression.diff(t)
    return coefficients


def times(a, b):
    """Return the product of two lists of coefficients, cut to the shorter one, by its definition."""
    return [sum((a[i] * b[n - i] for i in range(n + 1)), Fraction(0)) for n in range(min(len(a), len(b)))]


def composed(outer, inner):
    """Return the coefficients of ``outer(inner)`` for a series ``inner`` without constant term."""
    result, power = [Fraction(0)] * len(inner), [Fraction(1)] + [Fraction(0)] * (len(inner) - 1)
    for c in outer[: len(inner)]:
        result = [r + c * p for r, p in zip(result, power, strict=True)]
        power = times(power, inner)
    return result


def random_coefficients(random, first, length=LENGTH):
    return [Fraction(first), *(Fraction(random.randint(-3, 3), random.randint(1, 4)) for _ in range(length - 1))]


@every("function", list(power_series._FUNCTIONS), ids=str)
def test_functions_of_series(function):
    outer, random = taylor(OWN.get(function, function(t))), Random(3)
    for length in (LENGTH, LENGTH, 4, 2):
        inner = random_coefficients(random, 0, length)
        assert power_series._FUNCTIONS[function](inner) == composed(outer, inner)
        if function in INVERSE:
            assert power_series._inverse_function(*INVERSE[function])(inner) == composed(outer, inner)


@every("power", [Fraction(p, q) for p in range(-3, 4) for q in (1, 2, 3)])
def test_powers_of_series(power):
    """The power ``p/q``, multiplied q times by itself, is the power p."""
    random = Random(5)
    for length in (LENGTH, 3, 1):
        a = random_coefficients(random, 1, length)
        found = power_series._power(a, power)
        assert len(found) == length
        one = [Fraction(1)] + [Fraction(0)] * (length - 1)
        whole, other = one, one
        for _ in range(power.denominator):
            whole = times(whole, found)
        for _ in range(abs(power.numerator)):
            other = times(other, a)
        assert times(whole, other) == one if power < 0 else whole == other


def terms_of(series):
    """Return the known coefficients of a series by their exponents, and the first unknown exponent."""
    return dict(enumerate(series.coefficients, series.order)), series.order + len(series.coefficients)


def test_sums_and_products_of_series():
    """Each known coefficient is right, the first one is not 0, and as many are known as those of the operands give."""
    random = Random(11)
    for _ in range(60):
        series = []
        for _ in range(random.randint(1, 3)):
            coefficients = random_coefficients(random, random.choice((1, -1, 2)), random.randint(1, 5))
            order = random.randint(-2, 3)
            series.append(Series(order, coefficients, order - random.randint(0, 1)))
        known, ends = zip(*map(terms_of, series), strict=True)
        found = power_series.total(series)
        expected = {k: sum((one.get(k, Fraction(0)) for one in known), Fraction(0)) for k in range(-2, min(ends))}
        expected = {k: c for k, c in expected.items() if c}
        assert (found is None) == (not expected)
        if found is not None:
            assert {k: c for k, c in terms_of(found)[0].items() if c} == expected
            assert terms_of(found)[1] == min(ends) and found.coefficients[0]
            assert found.terms_order == min(one.terms_order for one in series)
        product = power_series.product(series, LENGTH)
        order = sum(one.order for one in series)
        length = min(len(one.coefficients) for one in series)
        values = {order + n: Fraction(0) for n in range(length)}
        for choice in itertools.product(*(one.items() for one in known)):
            exponent = sum(k for k, _ in choice)
            if exponent in values:
                values[exponent] += Fraction(
                    sympy.prod([sympy.Rational(c.numerator, c.denominator) for _, c in choice])
                )
        assert terms_of(product) == (values, order + length)
        assert product.terms_order == sum(one.terms_order for one in series)
    assert terms_of(power_series.product([], 3)) == ({0: 1, 1: 0, 2: 0}, 3)
