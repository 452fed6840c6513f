"""Deviances keep their digits where data and model are close; large squares do not spoil logarithms and quotients."""

from __future__ import annotations

from functools import cache

import mpmath
import numpy as np
import pytest
import sympy
from every import every
from sympy import Rational, Symbol, log
from uncompiled import numba_as_python

import sympy_tensordiff as td

n, i = td.indices("n i")
x, y = td.TensorSymbol("x", n), td.TensorSymbol("y", n)
s, t = Symbol("s", real=True), Symbol("t", real=True)
NEAR = [(1, 1 + 1e-6), (5, 5.001), (3, 1), (0.4, 0.4 - 1e-9), (1e-3, 2), (1e6, 1e6 + 1)]
SHARES = [(0.3, 0.3 + 1e-7), (0.5, 0.500001), (0.2, 0.9), (0.9, 0.05)]
LARGE = [(1e200, 1), (-3e180, 1), (1e-9, 1), (0.5, 1), (-2e9, 1)]

FORMULAS = {
    "Poisson": (s * log(s / t) - (s - t), NEAR, (s, t)),
    "Poisson, twice": (2 * (s * log(s / t) - s + t), NEAR, (s, t)),
    "gamma": (-log(s / t) + (s - t) / t, NEAR, (t,)),
    "gamma, multiplied out": (3 * s / t - 3 * log(s / t) - 3, NEAR, (t,)),
    "Bernoulli": (s * log(s / t) + (1 - s) * log((1 - s) / (1 - t)), SHARES, (t,)),
    "Jensen and Shannon": (s * log(2 * s / (s + t)) + t * log(2 * t / (s + t)), NEAR, (s, t)),
    "log of a quotient": (log(s / t), NEAR, (s, t)),
    "relative change": (s / t - 1, NEAR, (s, t)),
    "Cauchy": (log(1 + s**2), LARGE, (s,)),
    "Cauchy with a scale": (log(4 + 3 * s**2) / 2, LARGE, (s,)),
    "Geman and McClure": (s**2 / (1 + s**2), LARGE[2:], (s,)),
    "odd": (s / (1 + s**2), LARGE[2:], (s,)),
}


@cache
def in_multiple_precision(formula):
    return sympy.lambdify((s, t), formula, "mpmath")


def exact(formula, at):
    with mpmath.workdps(600):
        return in_multiple_precision(formula)(*(mpmath.mpf(float(value)) for value in at))


@every("name", [*FORMULAS], turns=8)
def test_values_and_slopes_keep_their_digits(name):
    formula, points, variables = FORMULAS[name]
    entry = formula.subs({s: x[i], t: y[i]}, simultaneous=True)
    total = td.IndexedSum(entry, (i, 0, n - 1))
    tensors = tuple({s: x, t: y}[v] for v in variables)
    results = (td.TensorComprehension(entry, (i, n)), *td.gradient(total, tensors))
    wanted = [formula, *(formula.diff(v) for v in variables)]
    for backend in ("numpy", "llvm"):
        arrays = np.array(points, float).T.copy()
        for found, right in zip(td.lambdify((x, y), results, backend)(*arrays), wanted, strict=True):
            for value, at in zip(found, arrays.T, strict=True):
                true = exact(right, at)
                if abs(true) > 1e-150:  # below, quotients by a square that overflows are 0
                    error = abs((mpmath.mpf(float(value)) - true) / true) / np.finfo(float).eps
                    assert error <= 8, (backend, right, at, float(value), error)


@pytest.mark.in_turns(8)
def test_they_are_the_same_formulas_far_away():
    """Conventions at 0, signs of both values and ranges of single precision stay."""
    poisson = td.IndexedSum(x[i] * log(x[i] / y[i]) - x[i] + y[i], (i, 0, n - 1))
    for backend in ("numpy", "llvm", "numba"):
        with numba_as_python(backend):
            check_far_away(poisson, backend)


def check_far_away(poisson, backend):
    value = td.lambdify((x, y), poisson, backend)
    assert value(np.array([0.0]), np.array([2.0])) == 2
    np.testing.assert_allclose(value(np.array([-3.0]), np.array([-2.0])), -3 * np.log(1.5) + 1, rtol=1e-15)
    assert np.isnan(value(np.array([3.0]), np.array([-2.0])))
    logs = td.lambdify((x, y), td.TensorComprehension(log(x[i] / y[i]), (i, n)), backend)
    with np.errstate(all="ignore"):
        found = logs(np.array([1e-300, 1e300, 0.0, 1.0, 2.0]), np.array([1.0, 1.0, 1.0, 0.0, -2.0]))
    np.testing.assert_allclose(found, [np.log(1e-300), np.log(1e300), -np.inf, np.inf, np.nan], rtol=4e-16)
    close = np.array([1.0, 5.0], np.float32), np.array([1.0009765625, 5.00390625], np.float32)
    right = sum(float(exact(s * log(s / t) - s + t, pair)) for pair in zip(*close, strict=True))
    np.testing.assert_allclose(value(*close), right, rtol=1e-6)
    squares = td.lambdify(x, td.TensorComprehension(x[i] / (1 + x[i] ** 2), (i, n)), backend)
    np.testing.assert_allclose(squares(np.array([3e25, 2.0, -0.0], np.float32)), [0, 0.4, 0], rtol=3e-7)


def test_what_has_no_small_difference_stays():
    """A difference of products, and a divergence whose linear terms are missing, are computed as written."""
    for formula in (x[i] * y[i] - 2 * y[i], log(x[i] / y[i]) * x[i] - x[i], (x[i] - y[i]) / (Rational(1, 2) + y[i])):
        table = td.TensorComprehension(formula, (i, n))
        assert "a*log(a/b) - a + b" not in td.lambdify((x, y), table, "numpy").plan
        at = np.array([0.3, 2.0]), np.array([0.7, 1.9])
        right = [float(td.evaluate(formula.subs(i, k), {x: at[0], y: at[1]})) for k in range(2)]
        np.testing.assert_allclose(td.lambdify((x, y), table, "numpy")(*at), right, rtol=1e-15)
