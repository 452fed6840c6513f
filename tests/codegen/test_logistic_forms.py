"""Logistic forms written out: values and derivatives of both orders at a thousand, against many digits."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import sympy
from every import every
from sympy import exp, log

import sympy_tensordiff as td
from sympy_tensordiff.codegen.ir.walk import operations
from sympy_tensordiff.codegen.program import build_program

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


def conductance(u, w):
    return 2 / (exp(-u) + exp(-w))


PAIRS = {
    "choice of two": lambda u, w: exp(u) / (exp(u) + exp(w)),
    "harmonic mean": conductance,
    "weighted": lambda u, w: exp(u) / (3 * exp(u) + 2 * exp(w)) ** 2,
    "difference": lambda u, w: exp(u) / (exp(u) - 2 * exp(w)),
    "product": lambda u, w: conductance(u, w) * conductance(w, u / 2),
    "flow": lambda u, w: conductance(u, w) * (u - w) - conductance(u, 0 * w),
}
FAR = [(0, 0), (1, -1), (690, 700), (-690, -700), (800, 100), (-800, 3), (-750, -760), (1000, -1000), (30, -700)]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", PAIRS)
def test_quotients_by_sums_of_two_exponentials(name, dtype):
    """Value and gradient, wherever the value and the result are in range."""
    a, b = sympy.symbols("a b", real=True)
    form = PAIRS[name]
    exact = [sympy.lambdify((a, b), f, "mpmath") for f in (form(a, b), *(sympy.diff(form(a, b), s) for s in (a, b)))]
    total = td.IndexedSum(form(x[i], y[i]), (i, 0, n - 1))
    kernel = td.lambdify(
        (x, y), (td.TensorComprehension(form(x[i], y[i]), (i, n)), *td.gradient(total, (x, y))), "llvm"
    )
    first, second = np.array([pair for pair in FAR if max(map(abs, pair)) < (2000 if dtype == np.float64 else 80)]).T
    found = kernel(first.astype(dtype), second.astype(dtype))
    limits = np.finfo(dtype)
    tested = 0
    for place, (one, other) in enumerate(zip(first, second, strict=True)):
        with mpmath.workdps(900):
            expected = [mpmath.re(f(mpmath.mpf(int(one)), mpmath.mpf(int(other)))) for f in exact]
        if abs(expected[0]) < float(limits.max):
            for result, value in zip(found, expected, strict=True):
                if abs(value) < float(limits.max):
                    tested += 1
                    size = max(1, abs(one), abs(other))
                    error = 8 * size * float(limits.eps) * abs(value) + 4 * float(limits.tiny)
                    assert abs(mpmath.mpf(float(result[place])) - value) <= error, (one, other)
    assert tested >= 6


def test_exponentials_of_quotients_are_shared():
    total = td.IndexedSum(conductance(x[i], x[i + 1]) * (y[i + 1] - y[i]) ** 2, (i, 0, n - 2))
    text = td.generate_code((x, y), (total, *td.gradient(total, (x, y))), "numba")
    assert "maximum(" not in text  # no shifts


def test_both_logistic_values_of_two_products_are_one_density():
    """Neither ``s(u)`` nor ``s(-u)`` is needed by itself: each is next to the other in both products."""
    one, other = sigma(x[i] - y[i]), sigma(y[i] - x[i])
    value = td.IndexedSum(one * other * log(2 + z[i] ** 2) * z[i] - v[i] * one * other / z[i], (i, 0, n - 1))
    called = operations(build_program((x, y, z, v), value))
    assert "logistic_density" in called and called.isdisjoint({"sigmoid", "exp"})
    two = td.IndexedSum(td.sigmoid(x[i]) * td.sigmoid(-x[i]) * y[i] + td.sigmoid(x[i]) * z[i], (i, 0, n - 1))
    assert {"logistic_density", "sigmoid"} <= operations(build_program((x, y, z), two))
    both = td.IndexedSum(
        td.sigmoid(x[i]) * td.sigmoid(-x[i]) * y[i] + td.sigmoid(x[i]) * z[i] + v[i] / (2 + td.sigmoid(-x[i])),
        (i, 0, n - 1),
    )
    assert "logistic_density" not in operations(build_program((x, y, z, v), both))  # both factors are needed
