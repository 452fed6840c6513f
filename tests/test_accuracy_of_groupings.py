"""The digits of a value, a gradient and second derivatives do not depend on how terms are grouped.

Each formula is written with a common factor in front, multiplied in, next to other terms, and multiplied with functions
of its own variable; in index notation and for whole tensors.
"""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import sympy
from every import every
from sympy import Add, Rational, Symbol, acos, cos, cosh, exp, log, sin, sinh, sqrt, tanh

import sympy_tensordiff as td

n, i = td.indices("n i")
x, a, b = (td.TensorSymbol(name, n) for name in "xab")
s = Symbol("s", real=True)
A, B = Symbol("A", positive=True), Symbol("B", positive=True)
SCALES = {A: 1.25, B: 0.375}
NEAR, LARGE = [1e-12, -1e-7, 2e-3, -0.3, 1.2], [0.3, 20, 1e4, 1e9]

FORMULAS = {
    "exp(s) - 1": (exp(s) - 1, NEAR),
    "phi_1": ((exp(s) - 1) / s, NEAR),
    "phi_2": ((exp(s) - 1 - s) / s**2, NEAR),
    "sinh(s)/s": (sinh(s) / s, NEAR),
    "sin(s)/s": (sin(s) / s, NEAR),
    "curvature": ((1 - cos(s)) / s**2, NEAR),
    "Bernoulli": (s / (exp(s) - 1), NEAR),
    "cosh(s) - 1": (cosh(s) - 1, NEAR),
    "Langevin": (1 / tanh(s) - 1 / s, [1e-3, -0.02, 0.7]),
    "roots": (sqrt(s + 1) - sqrt(s), LARGE),
    "reciprocals": (1 / (s + 1) - 1 / s, LARGE),
    "sum of reciprocals": (1 / (s + 1) - 2 / s + 1 / (s - 1), [0.3, 20, 1e4, 1e6]),
    "hyperbola": (sqrt(s**2 + 1) - 1, [*NEAR, *LARGE]),
    "third roots": (sympy.cbrt(s + 1) - sympy.cbrt(s), LARGE),
    "logarithms": (log(s + 1) - log(s), LARGE),
    "squared angle": (acos(s) ** 2, [1, 1 - 1e-12, 0.9, -0.3]),
    "exponentials": (exp(s + Rational(1, 1024)) - exp(s), [0.01, 2.5]),
}


def multiplied_in(formula, factor):
    """Return the terms of a formula, each with the factor."""
    return Add(*(term * factor for term in Add.make_args(formula)))


GROUPINGS = {
    "as it is": lambda f: f,
    "one factor": lambda f: multiplied_in(f, A),
    "two factors": lambda f: multiplied_in(f, A) + multiplied_in(f, B),
    "sum of factors": lambda f: (A + B) * f,
    "next to a penalty": lambda f: multiplied_in(f, A) + A * B * s,
    "with the variable": lambda f: multiplied_in(f, s),
    "with the variable, next to a penalty": lambda f: multiplied_in(f, A * s) + B * s**2,
    "squared": lambda f: f**2,
    "with a cosine": lambda f: multiplied_in(f, cos(s)),
}


def whole(formula):
    """Return a formula of numbers as one of whole tensors."""
    if formula in (s, A, B):
        return {s: x, A: a, B: b}[formula]
    if formula.is_number:
        return formula
    args = [whole(arg) for arg in formula.args]
    if formula.is_Add or formula.is_Mul:
        total = args[0]
        for arg in args[1:]:
            total = total + arg if formula.is_Add else total * arg
        return total
    return args[0] ** args[1] if formula.is_Pow else td.elementwise(formula.func, *args)


def derivatives(formula, notation, orders):
    """Return the value and the derivatives of a formula as tensors."""
    if notation == "index":
        entry = formula.subs({s: x[i], A: a[i], B: b[i]}, simultaneous=True)
        found, total = [td.TensorComprehension(entry, (i, n))], td.IndexedSum(entry, (i, 0, n - 1))
    else:
        found = [whole(formula)]
        total = td.sum(found[0])
    for _ in range(orders):
        found.append(td.gradient(total, x))
        total = td.sum(found[-1])
    return found


def exact(formula, points, order):
    """Return values in multiple precision, and the changes of the values by a relative change of the points."""
    functions = [sympy.lambdify((s, A, B), formula.diff(s, k), "mpmath") for k in (order, order + 1)]
    for at in points:
        with mpmath.workdps(200):
            value, slope = (_limit(function, mpmath.mpf(float(at))) for function in functions)
            yield value, abs(at * slope)


def _limit(function, at):
    """Return a value, or its limit at a removable singularity."""
    scales = [mpmath.mpf(scale) for scale in SCALES.values()]
    try:
        return mpmath.re(function(at, *scales))
    except ZeroDivisionError:
        return mpmath.re(function(at * (1 - mpmath.mpf(10) ** -60), *scales))


@pytest.mark.in_turns(10)
@pytest.mark.parametrize("name", [*FORMULAS])
@every("grouping", [*GROUPINGS])
def test_digits(name, grouping, thorough):
    """Values and derivatives are within 60 rounding errors of the value, or of its change by one of the argument."""
    formula, points = FORMULAS[name]
    number = [*FORMULAS].index(name) + [*GROUPINGS].index(grouping)
    if not thorough and number % 3:
        return
    formula, points = GROUPINGS[grouping](formula), np.array(points, float)
    scales = [np.full(points.shape, scale) for scale in SCALES.values()]
    for notation in ("index", "whole") if thorough else ("index", "whole")[number % 2 :][:1]:
        results = tuple(derivatives(formula, notation, 2))
        with np.errstate(all="ignore"):
            found = td.lambdify((x, a, b), results, "numpy")(points, *scales)
        for order, values in enumerate(found):
            for at, value, (wanted, change) in zip(points, values, exact(formula, points, order), strict=True):
                size = max(abs(wanted), change) * np.finfo(float).eps
                error = abs(mpmath.mpf(float(value)) - wanted) / size if np.isfinite(value) else mpmath.inf
                assert error <= 60, (notation, order, at, value, mpmath.nstr(wanted, 12), float(error))
