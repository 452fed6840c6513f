"""The sign of a value, and that its slope is 0 where it is 0, against values and SymPy's slopes at many points."""

from __future__ import annotations

import itertools
import random

import mpmath
import sympy
from every import every
from sympy import Abs, Max, Min, Rational, besseli, cos, cosh, exp, sin, sinh, sqrt, tanh
from sympy.codegen.cfunctions import Cbrt, hypot

import sympy_tensordiff as td
from sympy_tensordiff.derivative.elementwise import Differentiation
from sympy_tensordiff.reference import evaluate
from sympy_tensordiff.simplify.node_properties import is_finite_for_finite_arguments
from sympy_tensordiff.simplify.sign_analysis import sign_facts
from sympy_tensordiff.testing import random_values

a, b = sympy.symbols("a b", real=True)
s = sympy.Symbol("s", positive=True)
t = sympy.Symbol("t", nonnegative=True)
VALUES = {a: (-2, -1, 0, 1, Rational(3, 2)), b: (-1, 0, 2), s: (Rational(1, 2), 1, 3), t: (0, 1, 2)}
FORMS = [a, s, t, -s, -t, a**2, a**3, a**4, s**3, t**3, t**2, 1 / s, sqrt(s), sqrt(t), exp(a), sinh(a), tanh(s)]
FORMS += [a**-2, s**-3, a**2 * b**2, s * t, s * a, t * a**2, a**2 + b**2, a**2 + s, t + s, t + a**2, a + s, a**2 - s]
FORMS += [cosh(a) - 1, 1 - cos(a), 1 - cos(a) ** 2, 1 - sin(a) ** 2, 2 - 2 * cos(a), 2 * cosh(a) - 2, cosh(a) - 2]
FORMS += [1 - exp(-(a**2)), 1 - exp(a**2), exp(-(a**2)) - 1, 2 - cos(a), 1 + cos(a), 3 + a**2, a**2 - 1, cos(a) - 1]
FORMS += [1 - exp(-t), 1 - exp(-s), 1 - exp(a), Abs(a), Abs(s), Abs(a) + s, Max(a, s), Max(a, t), Max(a, b), Min(s, t)]
FORMS += [
    Min(a, s),
    Min(s, s**2),
    hypot(a, s),
    hypot(a, b),
    Cbrt(t),
    Cbrt(a),
    Cbrt(s),
    besseli(0, a),
    t ** Rational(1, 3),
]
FORMS += [exp(-t), exp(a) + t, exp(a) * a**2, (a**2 + b**2) ** 2, a**2 * b, (a - b) ** 2, (a - b) ** 3, 2 - exp(-t)]


def points_of(form):
    names = sorted(form.free_symbols, key=str)
    return [dict(zip(names, values, strict=True)) for values in itertools.product(*(VALUES[v] for v in names))]


def plain(form):
    """Without functions that SymPy does not evaluate at numbers."""
    form = form.replace(Cbrt, lambda u: sympy.sign(u) * Abs(u) ** Rational(1, 3))
    return form.replace(hypot, lambda u, v: sqrt(u**2 + v**2))


def numbers(form):
    return [
        mpmath.mpf(sympy.N(form.subs(point), 30)) for point in points_of(form) if not form.subs(point).has(sympy.zoo)
    ]


def is_flat_at_zeros(form):
    """Return whether all slopes are 0 at the points where the value is 0: central ones, since that of ``|a|`` counts as
    0.
    """
    h = Rational(1, 10**9)
    for point in points_of(form):
        for v in form.free_symbols if form.subs(point) == 0 else ():
            low = point[v] if v is t and not point[v] else point[v] - h
            difference = form.subs({**point, v: point[v] + h}) - form.subs({**point, v: low})
            if abs(sympy.N(difference / h, 30)) > 1e-5:
                return False
    return True


def facts_of(form):
    work = Differentiation(form)
    return sign_facts(work.graph, work.root)


@every("form", FORMS, ids=str)
def test_signs_are_those_of_the_values(form):
    found = facts_of(form)
    form = plain(form)
    values = numbers(form)
    assert found.sign < 1 or min(values) > 0
    assert found.sign < 0 or min(values) >= 0
    assert not found.flat or found.sign < 0 or is_flat_at_zeros(form)


SIMPLE = [*FORMS[:3], *FORMS[5:16], *FORMS[17:29]]


@every("form", SIMPLE, ids=str)
def test_signs_of_powers_products_and_sums_are_found(form):
    values = numbers(form)
    assert facts_of(form).sign == (1 if min(values) > 0 else 0 if min(values) >= 0 else -1)


@every(
    "form, sign, flat",
    [
        *((form, 0, True) for form in (a**2, Abs(a), 1 - cos(a), 1 - sin(a) ** 2, 1 - cos(a) ** 2, cosh(a) - 1)),
        *((form, 0, True) for form in (2 - 2 * cos(a), 1 - exp(-(a**2)), (a**2 + b**2) ** 2, hypot(a, b), 1 + cos(a))),
        *((form, -1, False) for form in (a, cosh(a) - 2, 1 - exp(a), a**2 - 1, sinh(a), Min(a, s), Max(a, b))),
        *((form, 0, False) for form in (t, t * s, Max(a, t), sqrt(t), Min(s, t), Cbrt(t))),
        *((form, 1, True) for form in (exp(a), exp(-t), besseli(0, a), s, 1 / s, s**3, a**2 + s)),
    ],
    ids=lambda row: str(row[0]),
)
def test_signs_of_single_forms(form, sign, flat):
    assert facts_of(form) == (sign, flat)


n, m, i, j = td.indices("n m i j")
x, w = td.TensorSymbol("x", n), td.TensorSymbol("w", (n, m))
SUMS = {
    "squares": (td.sum(x * x), 0, True),
    "a product with itself": (td.IndexedSum(x[i] * x[i], (i, 0, n - 1)), 0, True),
    "exponentials of an axis": (td.IndexedSum(exp(x[i]), (i, 0, n - 1)), 1, True),
    "exponentials of a part": (td.IndexedSum(exp(x[i]), (i, 1, n - 1)), 0, True),
    "entries": (td.sum(x), -1, False),
    "a quadratic form": (td.sum(w * w), 0, True),
    "cubes": (td.IndexedSum(x[i] ** 3, (i, 0, n - 1)), -1, False),
    "magnitudes": (td.IndexedSum(Abs(x[i]), (i, 0, n - 1)), 0, True),
}


@every("function, sign, flat", SUMS)
def test_signs_of_sums(function, sign, flat):
    assert facts_of(function) == (sign, flat)
    for seed in range(6):
        value = float(evaluate(function, random_values((function,), {n: 3, m: 2}, seed)))
        assert value >= 0 if sign == 0 else value > 0 if sign == 1 else True


FINITE = [exp(a), a**3, sqrt(t), a**2 * b, a + b, cos(a), 1 / (a**2 + 1), Abs(a), tanh(a)]
INFINITE = [1 / a, a**-2, sympy.log(a), sympy.log(t), 1 / t]


def test_functions_that_may_be_infinite_are_not_called_finite():
    for form in INFINITE:
        work = Differentiation(form)
        assert not is_finite_for_finite_arguments(work.graph, work.root), form
    generator = random.Random(0)
    for form in FINITE:
        work = Differentiation(form)
        if is_finite_for_finite_arguments(work.graph, work.root):
            for _ in range(20):
                point = {v: generator.choice(VALUES[v]) for v in form.free_symbols}
                assert form.subs(point).is_finite, (form, point)
