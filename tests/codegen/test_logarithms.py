"""Logarithms of products and quotients of large and tiny values, against numbers with many digits and any exponent."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import sympy
from as_python import as_python
from every import every
from fuzz.special_checks import check_large_values
from sympy import Abs, Piecewise, cosh, exp, log, pi, sech, sinh, sqrt, tanh

import sympy_tensordiff as td
from sympy_tensordiff.reference.derivatives import hvp
from sympy_tensordiff.reference.duals import CONTEXT

i, j, n = td.indices("i j n")
x, v, y = td.TensorSymbol("x", n), td.TensorSymbol("v", n), td.TensorSymbol("y", n)
a = sympy.Symbol("a", positive=True)
b = sympy.Symbol("b", real=True)


def total(term):
    return td.IndexedSum(term, (i, 0, n - 1))


def product(factor):
    return td.IndexedProduct(factor, (i, 0, n - 1))


S = td.IndexedSum(exp(x[j]), (j, 0, n - 1))
SIGMOID = 1 / (1 + exp(-x[i]))
NORMAL = exp(-((x[i] - a) ** 2) / (2 * a**2)) / (a * sqrt(2 * pi))

VARIANTS = {
    # Factors that are positive
    "product of bells": log(product(exp(-(x[i] ** 2)) / 2)),
    "sum of bells": total(log(exp(-(x[i] ** 2)) / 2)),
    "softmax": total(log(exp(x[i]) / S)),
    "weighted softmax": total(y[i] * log(exp(x[i]) / S)),
    "product of softmax": log(product(exp(x[i]) / S)),
    "quotient of sums": log(total(exp(-x[i])) / S),
    "mean of exponentials": log(S / n),
    "multiple of a sum": log(2 * S),
    "normal": log(product(NORMAL)),
    "sum of normal": total(log(NORMAL)),
    "exponential": log(product(a * exp(-a * x[i]))),
    "power": total(log(exp(x[i]) ** 3)),
    "root": total(log(sqrt(exp(x[i]) * a))),
    "symbolic power": total(log((a * exp(x[i])) ** b)),
    "power of a product": log(product(exp(x[i])) ** (1 / n)),
    "bernoulli": log(product(SIGMOID ** y[i] * (1 - SIGMOID) ** (1 - y[i]))),
    "odds": total(log(SIGMOID / (1 - SIGMOID))),
    "twice the complement": total(log(2 * (1 - SIGMOID))),
    "square of a sigmoid": total(log(SIGMOID**2)),
    "hyperbolic cosine": total(log(cosh(x[i]))),
    "inverse of it": total(log(1 / cosh(x[i]))),
    "its square": total(log(a * cosh(x[i]) ** 2)),
    "its secant": total(log(sech(x[i]) * 3)),
    "half a tangent": total(y[i] * log((1 + tanh(x[i])) / 2) + (1 - y[i]) * log(1 - tanh(x[i]))),
    "product of it": log(product(2 * cosh(x[i]))),
    "laplace": log(product(exp(-Abs(x[i] - a)) / 2)),
    "choice": total(log(Piecewise((exp(-x[i]), x[i] > 0), (exp(2 * x[i]), True)) / 3)),
    "two products": log(product(exp(x[i])) / product(1 + exp(2 * x[i]))),
    "nested products": log(td.IndexedProduct(exp(x[i] * x[j] / 100), (j, 0, i), (i, 0, n - 1))),
    "in a product": log(product(td.IndexedProduct(exp(x[j]) / 2, (j, 0, i)))),
    "square of a logarithm": log(product(exp(x[i] / 3))) ** 2 / 1000,
    "prefix": total(log(exp(x[i]) / td.IndexedSum(exp(x[j]), (j, 0, i)))),
    "of the logarithm": total(log(exp(log(exp(x[i]) / S)) * 3)),
    "zero or more": total(log(x[i] ** 2 * exp(x[i]))),
    # Factors of any sign
    "with a factor": total(log((x[i] + 2000) * exp(x[i]))),
    "with a divisor": total(log(exp(x[i]) / (x[i] + 2000))),
    "two negative factors": total(log((-2000 - x[i]) * (-3000 - x[i]) * exp(-x[i]))),
    "product of numbers": log(product((x[i] + 2000) ** 2 * (x[i] + 3000) ** 101)),
    "product of quotients": log(product((x[i] + 2000) ** -3 * (x[i] - 3000) ** 100 * (x[i] + 1500))),
    "product of negative numbers": log(product(-((x[i] + 2000) ** 33))),
    "both": log(product((x[i] - 5000) * exp(x[i]))),
    "odd power": total(log((x[i] + 2000) ** 101)),
    "even power": total(log((x[i] - 2000) ** 100)),
    "even power below": total(log(1 / (x[i] - 2000) ** 100)),
    "high powers": total(log((x[i] - 2000) ** 101 * (x[i] - 3000) ** -201 * 7)),
    "high even powers": total(log((x[i] - 2000) ** 62 * (x[i] + 3000) ** 62 / cosh(x[i] / 3) ** 2)),
    # Quotients that are not logarithms
    "tanh": total(sinh(x[i]) / cosh(x[i])),
    "of exponentials": total((1 - exp(-2 * x[i])) / (1 + exp(-2 * x[i]))),
    "whole": td.log(td.sum(td.exp(x)) / 2) - td.sum(td.log(td.exp(x) / 2)),
    "whole product": td.sum(td.log(a * td.exp(-(x**2)) / td.sum(td.exp(x)))),
}
"""Not one of them is a number where products and exponentials are computed as they are written."""

POINTS = {
    x: np.array([-1000.0, 1000.0, 3.0, -0.5]),
    v: np.array([1.0, -2.0, 0.5, 1.0]),
    y: np.array([1.0, 0.0, 0.25, 2.0]),
    a: 2.0,
    b: -1.5,
}


NAMES = x, v, y, a, b


@functools.cache
def results_of(name):
    """The function, its gradient, and the derivatives of both along ``v``."""
    f = VARIANTS[name]
    return f, td.gradient(f, x), td.hvp(f, x, v), td.jvp(f, x, v)


@functools.cache
def expected(name):
    """The value, the gradient, and the derivatives of both along ``v``."""
    function = VARIANTS[name]
    with CONTEXT.workdps(1000):
        ((gradient, along),) = hvp(function, {x: POINTS[v]}, POINTS)
        value = np.array(td.reference.evaluate(function, POINTS), float)
    gradient = gradient.astype(float)
    results = value, gradient, along.astype(float), gradient @ POINTS[v]
    assert all(np.isfinite(right).all() for right in results)
    return results


def check(name, results, dtype):
    precision = 1000 * float(np.finfo(dtype).eps)
    for value, right in zip(results, expected(name), strict=True):
        np.testing.assert_allclose(value, right, rtol=precision, atol=precision)


@every("name", [*VARIANTS], turns=10)
def test_numpy(name):
    function = td.lambdify(NAMES, results_of(name), "numpy")
    for dtype in (np.float64, np.float32):
        check(name, function(*[dtype(POINTS[symbol]) for symbol in NAMES]), dtype)


@every("name", [*VARIANTS], turns=8)
def test_numba_texts(name, thorough):
    """Of every other variant: what becomes of a logarithm is decided before its text is printed."""
    if thorough or [*VARIANTS].index(name) % 2 == 0:
        run = as_python(td.generate_code(NAMES, results_of(name), "numba"))
        results = [np.empty(right.shape) for right in expected(name)]
        with np.errstate(all="ignore"):
            run(*[POINTS[symbol] for symbol in NAMES], *results)
        check(name, results, np.float64)


@pytest.mark.usefixtures("uncompiled")
def test_numba():
    name = "product of bells"
    check(name, td.lambdify(NAMES, results_of(name))(*[POINTS[symbol] for symbol in NAMES]), np.float64)


def test_random_logarithms(in_turns):
    for seed in in_turns((*range(8), 297), 3):
        check_large_values(seed)
