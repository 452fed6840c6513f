"""Functions with an infinite slope where the derivative of the inner function is 0, and their derivatives there."""

from __future__ import annotations

import numpy as np
from sympy import Abs, Max, Rational, acos, acosh, asin, cos, cosh, exp, sin, sqrt
from sympy.codegen.cfunctions import Cbrt, hypot

import sympy_tensordiff as td

i, j, k, n, d = td.indices("i j k n d")
X, v, w = td.TensorSymbol("X", (n, d)), td.TensorSymbol("v", (n, d)), td.TensorSymbol("w", n)
POINTS = np.array([[1.0, 2.0], [3.0, 4.0], [0.0, 0.0], [1.0, 2.0], [0.0, 1.5]])
WEIGHTS = np.array([0.5, 2.0, 1.0, 3.0, 0.25])


def square(u, v=None):
    """The square of a row's length, or of the distance of two rows."""
    return td.IndexedSum((X[u, k] - (0 if v is None else X[v, k])) ** 2, (k, 0, d - 1))


def over(body, *indices):
    return td.IndexedSum(body, *[(index, 0, n - 1) for index in indices])


def entries(f):
    return td.IndexedSum(f(X[i, k]), (k, 0, d - 1), (i, 0, n - 1))


def pairs(f):
    return over(f(square(i, j)), j, i)


TABLE = td.TensorComprehension(square(i, j), (i, n), (j, n))

FUNCTIONS = {
    "distances": pairs(sqrt),
    "powers of distances": pairs(lambda s: s ** Rational(1, 3) + s ** Rational(3, 2)),
    "distances in functions": pairs(lambda s: exp(-sqrt(s) / 2) + (sqrt(s) - 1) ** 2),
    "distances out of a table": over(sqrt(TABLE[i, j] / n), j, i),
    "scaled distances": over(sqrt(square(i, j) * exp(w[i]) / w[j] ** 2), j, i),
    "whole distances": td.sum(td.sqrt(td.TensorComprehension(square(i, j), (i, n), (j, n)))),
    "lengths": over(sqrt(square(i)), i),
    "the norm": td.norm(X - td.TensorComprehension(X[i, k], (i, n), (k, d)) + X * 0) + td.norm(X[2, 0] * X),
    "a root of an absolute value": entries(lambda u: sqrt(Abs(u))),
    "a symbolic power": entries(lambda u: (u**2) ** (w[0] / 4)),
    "roots of other powers": entries(lambda u: sqrt(u**2 + u**4) + (u**4) ** Rational(1, 6)),
    "a root of a root": entries(lambda u: sqrt(sqrt(u**2 + u**4) + 2 * Abs(u))),
    "a root of the greatest": over(sqrt(Max(X[i, 0] ** 2, X[i, 1] ** 2)), i),
    "a cube root": entries(lambda u: Cbrt(u**2 + u**4)),
    "hypot": over(hypot(X[i, 0], X[i, 1]), i),
    "acos": entries(lambda u: acos(exp(-(u**2)))),
    "asin": entries(lambda u: asin(cos(u)) + asin(sin(u + 1))),
    "acosh": entries(lambda u: acosh(cosh(u)) + acosh(1 + u**2)),
}


def derivatives(name):
    """The gradient, and its derivative along ``v``."""
    return td.gradient(FUNCTIONS[name], X), td.hvp(FUNCTIONS[name], X, v)


def computed(name, backend):
    """The gradient, and its derivative along ones, by a kernel; of NumPy without a warning."""
    kernel = td.lambdify((X, v, w), derivatives(name), backend)
    with np.errstate(all="raise" if backend == "numpy" else "ignore"):
        return [np.array(part) for part in kernel(POINTS, np.ones_like(POINTS), WEIGHTS)]
