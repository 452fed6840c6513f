"""Logistic forms written out: values and derivatives of both orders at a thousand, against many digits."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import sympy
from every import every
from sympy import exp, log

import sympy_tensordiff as td

i, n = td.indices("i n")
x, y, z, v = (td.TensorSymbol(name, n) for name in ["x", "y", "z", "v"])
POINTS = [1000, -1000, 750, -750, 90, -90, 2.5, -2.5, 0]


def sigma(u):
    return 1 / (1 + exp(-u))


def cross_entropy(s):
    return -td.IndexedSum(y[i] * log(s) + (1 - y[i]) * log(1 - s), (i, 0, n - 1))


FORMS = {
    "sigmoid": sigma,
    "quotient": lambda u: exp(u) / (1 + exp(u)),
    "square": lambda u: sigma(u) ** 2,
    "root": lambda u: 1 / sympy.sqrt(1 + exp(-u)),
    "numbers": lambda u: 3 / (2 + 5 * exp(-u)),
    "logarithm of numbers": lambda u: log(2 + 5 * exp(-u)),
    "tanh": lambda u: (exp(u) - exp(-u)) / (exp(u) + exp(-u)),
    "bell": lambda u: 1 / (exp(u) + exp(-u)),
    "logarithm": lambda u: log(sigma(u)),
    "of the complement": lambda u: log(1 - sigma(u)),
    "swish": lambda u: u * sigma(u),
    "slope": lambda u: exp(-u) / (1 + exp(-u)) ** 2,
    "square of softplus": lambda u: log(1 + exp(-u)) ** 2,
    "entropy": lambda u: -sigma(u) * log(sigma(u)) - (1 - sigma(u)) * log(1 - sigma(u)),
    "focal": lambda u: -((1 - sigma(u)) ** 2) * log(sigma(u)),
}


def check(form, backends, points=POINTS, places=1):
    """The value, its derivative and its second derivative, entry by entry, in both precisions."""
    t = sympy.Symbol("t", real=True)
    exact = [sympy.lambdify(t, sympy.diff(form(t), t, order), "mpmath") for order in range(3)]
    with mpmath.workdps(1000):  # a square of 1 - sigmoid(1000) begins after 868 digits
        expected = [[float(mpmath.re(f(mpmath.mpf(point)))) for point in points] for f in exact]
    total = td.IndexedSum(form(x[i]), (i, 0, n - 1))
    results = td.TensorComprehension(form(x[i]), (i, n)), td.gradient(total, x), td.hvp(total, x, v)
    for backend in backends:
        kernel = td.lambdify((x, v), results, backend)
        for dtype in (np.float64, np.float32):
            inputs = np.array(points, dtype)
            with np.errstate(over="ignore", under="ignore"):
                found = kernel(inputs, np.ones_like(inputs))
            precision = 100 * places * float(np.finfo(dtype).eps)
            np.testing.assert_allclose(found, expected, rtol=precision, atol=precision)


@every("name", [*FORMS], turns=8)
def test_against_many_digits(name):
    check(FORMS[name], ["numpy"])


@pytest.mark.in_turns(8)
def test_compiled():
    check(FORMS["entropy"], ["numba"])


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize(
    ("backend", "dtype"), [("numpy", np.float32), ("numpy", np.float64), ("numba", np.float32)], ids=str
)
def test_cross_entropy(backend, dtype):
    loss = cross_entropy(sigma(z[i]))
    kernel = td.lambdify((z, y, v), (loss, td.gradient(loss, z), td.hvp(loss, z, v)), backend)
    value, gradient, along = kernel(
        np.array([1000, -1000, 1000, 2], dtype), np.array([0, 1, 1, 0.25], dtype), np.ones(4, dtype)
    )
    s = 1 / (1 + np.exp(-2))
    np.testing.assert_allclose(value, 2000 - 0.25 * np.log(s) - 0.75 * np.log(1 - s), rtol=1e-6)
    np.testing.assert_allclose(gradient, [1, -1, 0, s - 0.25], rtol=1e-6)
    np.testing.assert_allclose(along, [0, 0, 0, s * (1 - s)], rtol=1e-6)


def test_texts():
    whole = 1 / (1 + td.exp(-z))
    c = td.TensorSymbol("c", n)
    weighted = td.IndexedSum(c[i] * (y[i] * log(sigma(z[i])) + (1 - y[i]) * log(1 - sigma(z[i]))), (i, 0, n - 1))
    texts = [
        str(td.gradient(cross_entropy(sigma(z[i])), z)),
        str(td.gradient(-td.sum(y * td.log(whole) + (1 - y) * td.log(1 - whole)), z)),
        str(td.gradient(td.IndexedSum(log(1 + exp(x[i])), (i, 0, n - 1)), x)),
        str(td.gradient(td.IndexedSum(sigma(x[i]), (i, 0, n - 1)), x)),
        str(td.gradient(weighted, z)),
    ]
    assert texts == [
        "TensorComprehension(sigmoid(z[p]) - y[p], (p, n))",
        "sigmoid(z) - y",
        "TensorComprehension(sigmoid(x[p]), (p, n))",
        "TensorComprehension((1 - sigmoid(x[p]))*sigmoid(x[p]), (p, n))",
        "TensorComprehension((y[p] - sigmoid(z[p]))*c[p], (p, n))",
    ]
