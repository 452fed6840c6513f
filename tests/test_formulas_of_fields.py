"""Formulas of finance, statistics, physics, geodesy, chemistry and optics keep their digits: values and gradients."""

from __future__ import annotations

from functools import cache

import mpmath
import numpy as np
import pytest
import sympy
from every import every
from sympy import (
    Rational,
    acos,
    acosh,
    asin,
    atan,
    cos,
    cosh,
    coth,
    erf,
    exp,
    log,
    pi,
    sin,
    sinh,
    sqrt,
    symbols,
    tan,
    tanh,
)

import sympy_tensordiff as td

n, i = td.indices("n i")
LETTERS = a, b, c = symbols("a b c", real=True)
Z = (a - b) / c

# Each formula: the letters in use are a, b and c in this order; the points.
FORMULAS = {
    "annuity": ((1 - (1 + a) ** (-b)) / a, [(1e-9, 360), (1e-14, 12), (0.004, 360), (1e-3, 5)]),
    "annuity of 30 years": ((1 - (1 + a) ** -30) / a, [(1e-9,), (0.05,)]),
    "expected improvement": (
        (a - b) * (1 + erf(Z / sqrt(2))) / 2 + c * exp(-(Z**2) / 2) / sqrt(2 * pi),
        [(0.0, 10.0, 1.0), (0.0, 30.0, 1.0), (1.0, 0.5, 2.0)],
    ),
    "price of Bachelier": (a * (1 + erf(a / sqrt(2))) / 2 + exp(-(a**2) / 2) / sqrt(2 * pi), [(-10,), (-3,), (2,)]),
    "linked returns": ((1 + a) * (1 + b) - 1, [(1e-10, 2e-10), (0.1, 0.2)]),
    "three linked returns": ((1 + a) * (1 + b) * (1 + c) - 1, [(1e-10, 2e-10, 1e-12)]),
    "level of a slope": ((1 - exp(-a / b)) / (a / b) - exp(-a / b), [(1e-8, 2), (10, 2)]),
    "Gompertz": (b / a * (exp(a * c) - 1), [(1e-10, 0.1, 50), (0.1, 0.1, 50)]),
    "complementary log-log": (log(1 - exp(-exp(a))), [(-40,), (-1,), (2,)]),
    "Box-Cox": ((a ** Rational(1, 1000) - 1) * 1000, [(1 + 1e-9,), (2,), (1e-5,)]),
    "frailty": (log(1 + a * b) / a, [(1e-9, 3), (0.5, 3)]),
    "hyperbolic orbit": (sinh(a) - a, [(1e-5,), (0.01,), (3,)]),
    "Encke": (1 - (1 + 2 * a) ** Rational(-3, 2), [(1e-10,), (-1e-6,), (0.3,)]),
    "kinetic energy": ((1 / sqrt(1 - a**2 / b**2) - 1) * b**2, [(10, 3e8), (1e6, 3e8)]),
    "Planck": (a**3 / (exp(a) - 1), [(1e-9,), (1,), (50,), (800,)]),
    "heat capacity of Einstein": (a**2 * exp(a) / (exp(a) - 1) ** 2, [(1e-9,), (1,), (50,), (800,)]),
    "Goldman": (a * (b - c * exp(-a)) / (1 - exp(-a)), [(1e-9, 2.0, 1.0), (3, 2.0, 1.0)]),
    "Morse": (b * ((1 - exp(-a)) ** 2 - 1), [(40.0, 1), (1e-9, 1), (0.5, 1)]),
    "magnetisation": (Rational(3, 2) / tanh(a * 3 / 2) - 1 / (2 * tanh(a / 2)), [(1e-6,), (0.5,), (30.0,)]),
    "total of angles": (cos(a) + 2 * cos(2 * a) - 3, [(1e-7,), (0.4,)]),
    "energies": (c * cosh(a) + c * cosh(b) - 2 * c, [(1e-7, 1e-6, 2.0), (1.0, 2.0, 3.0)]),
    "fringes": (1 + cos(a), [(3.1415926,), (0.5,), (-3.14,)]),
    "numerical aperture": (pi / 2 - asin(1 - a), [(1e-12,), (0.5,)]),
    "sag": (a - sqrt(a**2 - b**2), [(1e6, 1.0), (2, 1)]),
    "Gouy": (atan(a / b) - a / b, [(1e-6, 1.0), (0.5, 1.0)]),
    "slits": (sin(5 * a) / sin(a), [(1e-9,), (0.3,)]),
    "occupation": (1 - tanh(a), [(20.0,), (300.0,), (-1.0,)]),
    "other occupation": (b + b * tanh(a), [(-20.0, 2.0), (0.5, 2.0)]),
    "divergence from one": (a * log(a) - a + 1, [(1 + 1e-9,), (1.1,), (1e-3,)]),
    "Itakura-Saito": (a - log(a) - 1, [(1 + 1e-9,), (1.1,), (1e-3,)]),
    "divergence of normal distributions": (log(b / a) + (a**2 / b**2 - 1) / 2, [(1 + 1e-7, 1), (0.5, 2)]),
    "divergence of scales": (log(a / b) + b / a - 1, [(1 + 1e-7, 1), (0.5, 2)]),
    "divergence of variances": (a**2 - 1 - 2 * log(a), [(1 + 1e-7,), (0.2,)]),
    "ratio of Cauchy densities": (log(1 + (a + b) ** 2) - log(1 + a**2), [(1e6, 1e-3), (0.5, 1e-9)]),
    "Lennard and Jones": (a**-12 - 2 * a**-6 + 1, [(1 + 1e-8,), (1.3,)]),
    "squares": (c * a**2 - 2 * a * b * c + b**2 * c, [(1e5 + 1e-7, 1e5, 2.0), (2.0, -3.0, 0.5)]),
    "softplus of a share": (log(exp(a) - 1) - a, [(50.0,), (1e-9,), (900.0,)]),
    "forward rate": (exp(-a * b) / exp(-(a + Rational(1, 1000)) * b) - 1, [(0.05, 1e-3), (0.05, 2)]),
    "logarithm of a quaternion": (2 * acos(a) / sqrt(1 - a**2), [(1 - 1e-12,), (0.5,), (-0.5,)]),
    "odds with a background": (log(1 + b * exp(a)), [(-800, 3), (800, 3), (40, 1e-17), (-30, 1e13), (0.3, 2)]),
    "function of Brillouin": (6 * coth(6 * a / 5) / 5 - coth(a / 5) / 5, [(1e-6,), (0.5,), (30.0,)]),
    "inverse Jacobian of a rotation": (1 / a**2 - (1 + cos(a)) / (2 * a * sin(a)), [(1e-4,), (0.5,), (2.0,)]),
    "ellipsoid": (asin(a) / a - sqrt(1 - a**2), [(1e-5,), (0.5,)]),
    "Hull and White": (b - 2 * (1 - exp(-a * b)) / a + (1 - exp(-2 * a * b)) / (2 * a), [(1e-4, 1), (0.5, 2)]),
    "divergence from a number": (a * log(a / 3) - a + 3, [(3.000001,), (3 + 1e-9,), (1.0,)]),
    "extreme values": ((1 + c * a) ** (-1 / c), [(0.3, 0.0, 1e-8), (30.0, 0.0, 1e-3), (2.0, 0.0, 0.2)]),
    "divergence of normal distributions with means": (
        log(b / a) + (a**2 + (c - 1) ** 2) / (2 * b**2) - Rational(1, 2),
        [(1.0, 1.0000001, 1.0), (1.0, 1.0000001, 1.01), (2.0, 30.0, 0.3)],
    ),
    "hazard of a normal distribution": (
        exp(-(a**2) / 2) / sqrt(2 * pi) / (1 - (1 + erf(a / sqrt(2))) / 2),
        [(0.3,), (3.0,), (8.0,), (30.0,)],
    ),
    "isometric latitude": (log(tan(pi / 4 + a / 2)), [(1e-8,), (-0.3,), (1.5,)]),
    "dilation of time": (1 - sqrt(1 - b / a), [(1e8, 1e-8), (30.0, 1.0), (1.0001, 1.0)]),
    "distance of covariances": (a + b - 2 * sqrt(a * b), [(1.0, 1.0000001), (2.0, 30.0), (1e8, 1.0)]),
    "free energy": (-b * log(1 + exp(-a / b)), [(-30.0, 1.0), (-30.0, 0.1), (0.3, 1.0), (700.0, 30.0)]),
    "free energy of two spins": (log(2 * cosh(a)) - a * tanh(a), [(0.3,), (5.0,), (30.0,), (300.0,)]),
    "smooth minimum": (
        -log(exp(-c * a) + exp(-c * b)) / c,
        [(700.0, 0.31, 1.0), (30.0, 29.0, 32.0), (0.3, 0.31, 1.0)],
    ),
    "hyperbolic distance": (
        acosh(1 + 2 * (a - b) ** 2 / ((1 - a**2) * (1 - b**2))),
        [(0.3000001, 0.3), (0.9, -0.99), (0.3, 0.29)],
    ),
    "probability of a zero": (log(b + (1 - b) * exp(-a)), [(1e-8, 0.2), (1e-8, 0.9), (30.0, 1e-8), (700.0, 0.2)]),
    "log-density of Cauchy": (
        -log(pi * b * (1 + ((a - c) / b) ** 2)),
        [(1e100, 0.5, 0.25), (-1e-8, 3.0, 1.0), (700.0, 0.1, 0.0)],
    ),
    "density of Cauchy": (1 / (pi * b * (1 + (a / b) ** 2)), [(1e100, 0.1), (1e100, 3.0), (0.3, 2.0)]),
    "log-density of Student": (-(b + 1) / 2 * log(1 + a**2 / b), [(1e100, 3.0), (1e-8, 3.0), (30.0, 0.5)]),
    "kernel of Student": ((1 + a**2 / b) ** -2, [(1e30, 3.0), (1e-8, 3.0), (30.0, 0.5)]),
    "Yukawa": ((1 - exp(-b * a)) / a, [(1e-8, 2.0), (700.0, 0.3), (0.3, 1e-8)]),
    "effectiveness": (3 / a**2 * (a * coth(a) - 1), [(1e-8,), (0.3,), (30.0,), (700.0,)]),
    "worm-like chain": ((exp(-a) - 1 + a) * 2 / a**2, [(1e-8,), (0.3,), (30.0,), (700.0,)]),
    "bond of Vasicek": ((2 * a - 3 + 4 * exp(-a) - exp(-2 * a)) / (2 * a**3), [(1e-8,), (0.3,), (3.0,), (700.0,)]),
    "radii of curvature": (
        1 / sqrt(1 - b**2 * sin(a) ** 2) - (1 - b**2) / (1 - b**2 * sin(a) ** 2) ** Rational(3, 2),
        [(0.3, 0.08), (0.3, 1e-4)],
    ),
    "heat in a field": (exp(a) * (b / (exp(a) - 1) + c / (exp(a) + 1)), [(800.0, 2.0, 3.0), (-800.0, 2.0, 3.0)]),
    "squares of occupations": (
        exp(2 * a) * (b / (exp(a) - 1) ** 2 + c / (exp(a) + 1) ** 2),
        [(-0.5, 2.0, 3.0), (0.01, 2.0, 3.0)],
    ),
    "logarithm of Coulomb": (
        log(a**2 / b + 1) - a**2 / (a**2 + b),
        [(1e-3, 1.0), (1e-8, 3.0), (0.1, 2.0), (1e-5, 1e3), (30.0, 0.1)],
    ),
    "potential of a disc": (atan(a / b) - a * b / (a**2 + b**2), [(1e-3, 1.0), (1e-8, 3.0), (0.1, 2.0), (3.0, 0.1)]),
    "saturation": (a / (a + b) - exp(-a / b) * a / b, [(1e-3, 1.0), (1e-8, 3.0), (0.1, 2.0), (3.0, 0.1)]),
    "phase function": (
        (1 - b**2) / (1 + b**2 - 2 * b * a) ** Rational(3, 2),
        [(0.3, 0.999), (-0.9999, -0.9), (1 - 2.0**-20, 0.3)],
    ),
}


@cache
def in_multiple_precision(formula, letters):
    return sympy.lambdify(letters, formula, "mpmath")


def exact(formula, letters, at):
    """Return the value at a point in multiple precision."""
    with mpmath.workdps(900):
        return in_multiple_precision(formula, letters)(*map(mpmath.mpf, at))


def condition(formula, letters, at, value):
    """Return the relative change of the value by a relative change of all letters."""
    with mpmath.workdps(450):
        return sum(
            abs(mpmath.mpf(x) * exact(formula.diff(s), letters, at) / value) for s, x in zip(letters, at, strict=True)
        )


def single(number):
    """Return the number of single precision for a point of double precision: distances from 1 are the square roots of
    those in double precision, and numbers above 1e30 become 1e30.
    """
    distance = abs(abs(number) - 1)
    if 0 < distance < 1e-4:
        number = np.sign(number) * (1 + np.sign(abs(number) - 1) * max(distance**0.5, 1e-6))
    return float(np.float32(np.clip(number, -1e30, 1e30)))


def is_number(value):
    """Return whether a number in multiple precision is real and finite."""
    return isinstance(value, mpmath.mpf) and mpmath.isfinite(value)


SQUARES = ("log-density of Cauchy", "log-density of Student")
"""The derivatives of these formulas are 0 where a square overflows, for numbers below 1e-19 in single precision."""

LOSE = {"inverse Jacobian of a rotation": 2}
"""Factors of the limit for formulas whose derivatives lose digits, as the table in `docs/functions.md` says."""


@every("name", [*FORMULAS], turns=10)
@pytest.mark.parametrize("backend", ["numpy", "llvm"])
def test_values_and_gradients_are_as_accurate_as_their_condition_allows(name, backend):
    formula, points = FORMULAS[name]
    letters = LETTERS[: len(points[0])]
    vectors = [td.TensorSymbol(f"v{k}", n) for k in range(len(letters))]
    entry = formula.subs({s: v[i] for s, v in zip(letters, vectors, strict=True)}, simultaneous=True)
    slopes = td.gradient(td.IndexedSum(entry, (i, 0, n - 1)), tuple(vectors))
    kernel = td.lambdify(tuple(vectors), (td.TensorComprehension(entry, (i, n)), *slopes), backend)
    checked = 0
    for dtype in (np.float64, np.float32):
        limits = np.finfo(dtype)
        own_points = points if dtype is np.float64 else [tuple(map(single, at)) for at in points]
        with np.errstate(all="ignore"):
            found = kernel(*np.ascontiguousarray(np.array(own_points, dtype).T))
        for own, values in zip((formula, *(formula.diff(s) for s in letters)), found, strict=True):
            assert values.dtype == dtype
            for at, value in zip(own_points, values.tolist(), strict=True):
                try:
                    wanted = exact(own, letters, at)
                except (ZeroDivisionError, ValueError):
                    assert dtype is np.float32, (own, at)  # two numbers are equal in single precision
                    continue
                if dtype is np.float32 and (not is_number(wanted) or wanted == 0 or abs(wanted) > limits.max):
                    continue
                if abs(wanted) < limits.tiny:
                    assert abs(value) <= limits.tiny * (1 + limits.eps), (own, at, value)
                    continue
                if name in SQUARES and dtype is np.float32 and value == 0 and abs(wanted) < 1e-19:
                    continue
                ulps = (8 + 4 * condition(own, letters, at, wanted)) * LOSE.get(name, 1)
                assert np.isfinite(value), (own, at, dtype)
                assert abs(value - wanted) <= ulps * float(limits.eps) * abs(wanted), (own, at, value, wanted, dtype)
                checked += dtype is np.float32
    assert checked >= len(letters)


def test_products_that_do_not_contain_the_term_stay():
    """``(1 + u)*(2 + v) - 1`` is not a sum of fewer terms: it has no rule."""
    formula = (1 + a) * (2 + b) - 1
    x, y = td.TensorSymbol("x", n), td.TensorSymbol("y", n)
    entry = formula.subs({a: x[i], b: y[i]}, simultaneous=True)
    plan = td.lambdify((x, y), td.TensorComprehension(entry, (i, n)), "numpy").plan
    assert "(1 + u)*(1 + v) - 1" not in plan


def test_series_are_not_used_where_a_quotient_is_as_accurate():
    """``1/sqrt(1 + u) - 1`` needs no polynomial, also as a term of another sum."""
    x, y, s = td.TensorSymbol("x", n), td.TensorSymbol("y", n), sympy.Symbol("s", positive=True)
    entry = y[i] + s - s / sqrt(1 - x[i])
    kernel = td.lambdify((x, y, s), td.TensorComprehension(entry, (i, n)), "numpy")
    assert "series" not in kernel.plan
    assert kernel(np.array([1e-9]), np.array([1e-12]), 2.0)[0] == pytest.approx(1e-12 - 1e-9 - 0.75e-18, rel=1e-15)


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
def test_growth_curves_do_not_overflow(backend):
    """A quotient of two sums that are linear in ``exp(u)`` has its limit where they are infinite, and digits before."""
    formula = c * b * exp(a) / (c + b * (exp(a) - 1))
    points = np.array([(800.0, 0.1, 10.0), (1e4, 2.0, 10.0), (30.0, 0.1, 10.0), (1e-8, 2.0, 10.0), (-800.0, 0.5, 2.0)])
    vectors = [td.TensorSymbol(f"v{k}", n) for k in range(3)]
    entry = formula.subs({s: v[i] for s, v in zip(LETTERS, vectors, strict=True)}, simultaneous=True)
    slopes = td.gradient(td.IndexedSum(entry, (i, 0, n - 1)), tuple(vectors))
    kernel = td.lambdify(tuple(vectors), (td.TensorComprehension(entry, (i, n)), *slopes), backend)
    with np.errstate(all="ignore"):
        values, *gradients = kernel(*np.ascontiguousarray(points.T))
    for at, value in zip(points.tolist(), values.tolist(), strict=True):
        wanted = exact(formula, LETTERS, at)
        assert abs(value - wanted) <= 8 * np.finfo(float).eps * abs(wanted) + np.finfo(float).tiny, at
    for letter, slope in zip(LETTERS, gradients, strict=True):
        wanted = [float(exact(formula.diff(letter), LETTERS, at)) for at in points.tolist()]
        np.testing.assert_allclose(slope, wanted, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
@pytest.mark.parametrize(
    "formula", [-log(pi * b * (1 + (a / b) ** 2)), log(1 + a**2 / b), a**2 / b / (1 + a**2 / b), log(3 + b * a**2)]
)
def test_functions_of_squares_that_overflow(formula, backend):
    """Values and slopes in the scale of squares whose letters have factors, in both types."""
    x, y = td.TensorSymbol("x", n), td.TensorSymbol("y", n)
    entry = formula.subs({a: x[i], b: y[i]}, simultaneous=True)
    slope = td.gradient(td.IndexedSum(entry, (i, 0, n - 1)), y)
    kernel = td.lambdify((x, y), (td.TensorComprehension(entry, (i, n)), slope), backend)
    for dtype, size in ((np.float64, 1e200), (np.float32, 1e30)):
        points = np.array([size, -size, size, 0.5], dtype), np.array([0.25, 3.0, 1.5, 2.0], dtype)
        with np.errstate(all="ignore"):
            found = kernel(*points)
        for own, values in zip((formula, formula.diff(b)), found, strict=True):
            for at, value in zip(zip(*(p.tolist() for p in points), strict=True), values.tolist(), strict=True):
                wanted = exact(own, (a, b), at)
                if abs(wanted) > np.finfo(dtype).tiny:
                    assert abs(value - wanted) <= 8 * np.finfo(dtype).eps * abs(wanted), (own, at, value, wanted)
