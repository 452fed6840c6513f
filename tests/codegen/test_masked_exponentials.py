"""Sums of exponentials over selected terms: one exponential for each term, not for each pair, and no overflow."""

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
import sympy
from as_python import as_python
from fuzz.count import count
from scipy.special import logsumexp
from sympy import Piecewise, exp, log
from test_hand_counts import calls_as_loops

import sympy_tensordiff as td
from sympy_tensordiff.codegen.program import build_program

i, j, k, p, q = td.indices("i j k p q")
n, m, d = td.indices("n m d")
Sum, Entries = td.IndexedSum, td.TensorComprehension
eta, t, w = (td.TensorSymbol(name, n) for name in ("eta", "t", "w"))
X, b = td.TensorSymbol("X", (n, d)), td.TensorSymbol("b", d)
Y = td.TensorSymbol("Y", (m, n))


def over(index, extent):
    return index, 0, extent - 1


def at_risk(value):
    return Piecewise((value, sympy.Ge(t[j], t[i])), (0, True))


def likelihood():
    """Cox's partial likelihood, by the scores."""
    value = Sum(w[i] * (eta[i] - log(Sum(at_risk(exp(eta[j])), over(j, n)))), over(i, n))
    return (eta, t, w), value, eta


def regression():
    """Cox's partial likelihood, by the coefficients of covariates."""
    score = Entries(Sum(X[i, q] * b[q], over(q, d)), (i, n))
    value = Sum(w[i] * (score[i] - log(Sum(at_risk(exp(score[j])), over(j, n)))), over(i, n))
    return (X, b, t, w), value, b


def strata():
    """Weighted sums of several groups of scores: the greatest score of each group is its scale."""
    inner = Sum(Piecewise((0, sympy.Lt(t[j], t[i])), (w[j] * exp(Y[k, j]), True)), over(j, n))
    return (Y, t, w), Sum(w[i] * log(inner), over(k, m), over(i, n)), Y


def rates():
    """Means over the terms at risk, and the second power of their sum."""
    total = Sum(at_risk(exp(eta[j])), over(j, n))
    mean = Sum(at_risk(exp(eta[j]) * w[j]), over(j, n)) / total
    return (eta, t, w), Sum(mean**2, over(i, n)), eta


PROGRAMS = [likelihood, regression, strata, rates]


def expected(make, given):
    """The value and the gradient, from logarithms of sums in NumPy, in double precision."""
    given = [np.asarray(array, float) for array in given]
    if make is regression:
        X, b, t, w = given
        value, gradient = expected(likelihood, (X @ b, t, w))
        return value, X.T @ gradient
    scores, t, w = given
    risk = t[None, :] >= t[:, None]
    with np.errstate(all="ignore"):
        rows = scores if make is strata else scores[None]
        logs = [logsumexp(np.where(risk, row, -np.inf), axis=1, b=w if make is strata else 1) for row in rows]
        shares = [np.where(risk, np.exp(row - own[:, None]), 0) for row, own in zip(rows, logs, strict=True)]
    if make is strata:
        return sum(w @ own for own in logs), np.array([(w @ share) * w for share in shares])
    (own,), (share,) = logs, shares
    if make is likelihood:
        return w @ (scores - own), w - w @ share
    mean = share @ w
    return (mean**2).sum(), (2 * mean * (share * w).T).sum(1) - (2 * mean**2) @ share


def arguments(make, size, random, spread=1.0):
    t, w = random.integers(0, 3 * size + 1, size) / 7, random.uniform(0.5, 2, size)
    if make is regression:
        return random.normal(size=(size, 3)) * spread, random.normal(size=3), t, w
    return random.normal(size=(4, size) if make is strata else size) * spread, t, w


def compiled(make, backend):
    args, value, variable = make()
    return td.lambdify(args, (value, td.gradient(value, variable)), backend, parallel=False)


@pytest.mark.parametrize(
    "make, backend",
    [
        *((make, which) for make in PROGRAMS for which in ("llvm", "numpy")),
        pytest.param(likelihood, "numba", marks=pytest.mark.in_turns(10)),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_values_are_those_of_stable_logarithms(make, backend):
    """With close exponents, wide ones (beyond the range of exponentials), and both orders of memory."""
    function, random = compiled(make, backend), np.random.default_rng(1)
    for size in (1, 2, 7, 130):
        for spread in (0.0, 1.0, 20.0, 900.0):
            for dtype, tolerance in ((np.float64, 1e-12), (np.float32, 1e-4)):
                given = [np.asarray(array, dtype) for array in arguments(make, size, random, spread)]
                strided = [np.full((*array.shape, 2), np.nan, dtype) for array in given]
                for array, around in zip(given, strided, strict=True):
                    around[..., 0] = array
                wanted = expected(make, given)
                layouts = given, [around[..., 0] for around in strided], list(map(np.asfortranarray, given))
                for own in layouts[: 1 if backend == "numba" else 3]:
                    for found, right in zip(function(*own), wanted, strict=True):
                        scale = np.abs(right).max() + spread
                        np.testing.assert_allclose(found, right, rtol=tolerance, atol=tolerance * scale)


@pytest.mark.parametrize("backend", ["llvm", "uncompiled", "numpy"], indirect=True)
def test_infinite_scores_are_as_without_a_common_scale(backend):
    """Infinite scores that no mask selects change nothing; a selected one is the result."""
    function = compiled(likelihood, backend)
    t, w = np.array([1.0, 2.0, 3.0]), np.array([0.0, 1.0, 1.0])
    value, gradient = function(np.array([-np.inf, 0.5, 0.25]), t, np.array([0.0, 1.0, 1.0]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        right = expected(likelihood, (np.array([-1e4, 0.5, 0.25]), t, w))
    assert math.isnan(value) or abs(value - right[0]) < 1e-14  # 0 times an infinite score
    np.testing.assert_allclose(gradient[1:], right[1][1:], rtol=1e-14)
    value, gradient = function(np.array([800.0, 0.5, 0.25]), t, w)
    right = expected(likelihood, (np.array([800.0, 0.5, 0.25]), t, w))
    np.testing.assert_allclose(value, right[0], rtol=1e-14)
    np.testing.assert_allclose(gradient, right[1], atol=1e-14)
    value, _ = function(np.array([0.5, np.nan, 0.25]), t, w)
    assert math.isnan(value)


@pytest.mark.parametrize("make", [likelihood, regression], ids=lambda make: make.__name__)
def test_each_term_has_one_exponential(make):
    """Close exponents need a few exponentials for each term, none for each pair; others need one for each pair
    in the value, and one in the gradient.
    """
    _, _, variable = make()
    run = as_python(compiled(make, "llvm").source)
    calls = 0

    def counted(x):
        nonlocal calls
        calls += 1
        return np.exp(x)

    run.__globals__["exp"], run.__globals__["log"] = counted, np.log
    random, size = np.random.default_rng(2), 40
    results = np.empty(()), np.empty(3 if variable is b else size)
    for spread, least, most in ((1.0, size, 3 * size), (100.0, size**2, 4 * size**2)):
        calls = 0
        given = arguments(make, size, random, spread)
        with np.errstate(all="ignore"):
            run(*given, *results)
        assert least <= calls <= most
        for found, right in zip(results, expected(make, given), strict=True):
            np.testing.assert_allclose(found, right, rtol=1e-9, atol=1e-9)


def test_exponentials_above_a_difference_are_shared():
    """Value and gradient of Bateman's function call the exponentials of a dose and a time once, whatever the rates."""
    n, m = td.indices("n m")
    i, k = td.indices("i k")
    rates, dose, times = td.TensorSymbol("rates", (n, 2)), td.TensorSymbol("dose", (n, m)), td.TensorSymbol("times", m)
    fast, slow = exp(rates[i, 0]), exp(rates[i, 1])
    decay = exp(-slow * times[k]) - exp(-fast * times[k])
    value = td.IndexedSum(dose[i, k] * fast / (fast - slow) * decay, (i, 0, n - 1), (k, 0, m - 1))
    arguments, results = (rates, dose, times), (value, td.gradient(value, rates))
    program = build_program(arguments, results)
    calls = [replace(kernel, body=calls_as_loops(kernel.body)) for kernel in program.nests]
    found = count(replace(program, kernels=tuple(calls)), {"n": 30, "m": 20}).iterations
    assert found <= 3 * 30 * 20 + 20 * 30  # one may be computed for the value and again for the gradient
    random = np.random.default_rng(0)
    arrays = random.normal(size=(30, 2)), random.normal(size=(30, 20)), random.uniform(0, 3, 20)
    found = td.lambdify(arguments, results, "numpy")(*arrays)
    a, b = np.exp(arrays[0]).T[:, :, None]
    t, d = arrays[2], arrays[1]
    decays = np.exp(-b * t) - np.exp(-a * t)
    np.testing.assert_allclose(found[0], (d * a / (a - b) * decays).sum(), rtol=1e-11)
    by_a = d * ((1 / (a - b) - a / (a - b) ** 2) * decays + a / (a - b) * t * np.exp(-a * t))
    by_b = d * a * (decays / (a - b) ** 2 - t * np.exp(-b * t) / (a - b))
    expected = np.stack([(a * by_a).sum(1), (b * by_b).sum(1)], 1)
    np.testing.assert_allclose(found[1], expected, rtol=1e-9)


def test_terms_of_a_difference_are_scaled_above_it():
    """Quotients by a difference that contains the exponents above it are right where each exponential overflows."""
    n, p, q, k = td.indices("n p q k")
    x = td.TensorSymbol("x", n)
    below = td.IndexedSum(exp(x[k]), (k, 0, n - 1)) - exp(x[0])
    value = td.TensorComprehension((exp(x[p]) - exp(x[q])) / below, (p, n), (q, n))
    f = td.lambdify((x,), value, "numpy")
    at = np.array([1.0, 0.5, 3.0, -2.0])
    expected = (np.exp(at)[:, None] - np.exp(at)) / np.exp(at[1:]).sum()
    np.testing.assert_allclose(f(at + 1000), expected, rtol=1e-12)
    np.testing.assert_allclose(f(at - 1000), expected, rtol=1e-12)


def test_logarithms_above_a_difference_are_scaled():
    """Only exponentials with a rate of the difference stay as they are: not those below a logarithm, nor others."""
    n, k = td.indices("n k")
    x, (a, b) = td.TensorSymbol("x", n), sympy.symbols("a b")
    total = td.IndexedSum(exp(x[k]), (k, 0, n - 1))
    decays = exp(-2 * exp(a)) - exp(-2 * exp(b))
    results = (
        log(total) * decays / (exp(a) - exp(b)),
        (decays + log(total)) * exp(a) / (exp(a) - exp(b)),
        exp(a + x[0]) * decays / (exp(b + x[1]) - exp(a + x[1])),
    )
    f = td.lambdify((x, a, b), results, "numpy")
    at, u, v = np.array([1000.0, 1001, 999]), 0.5, 0.25
    large, factor = logsumexp(at), np.exp(-2 * np.exp(u)) - np.exp(-2 * np.exp(v))
    below = np.exp(u) - np.exp(v)
    expected = large * factor / below, (factor + large) * np.exp(u) / below, -np.exp(u - 1) * factor / below
    np.testing.assert_allclose(f(at, u, v), expected, rtol=1e-12)
    np.testing.assert_allclose(f(at - 2000, u, v)[2], expected[2], rtol=1e-12)


def test_the_greatest_of_a_value_and_of_its_positive_part_is_that_part():
    """Densities of mixtures with widths ``exp(s)``: squares by ``exp(-2*s)`` next to weights that have them inside."""
    i, k, h, n, m, d = td.indices("i k h n m d")
    X, A, B = td.TensorSymbol("X", (n, d)), td.TensorSymbol("A", (d, m)), td.TensorSymbol("B", (d, m))
    a, y = td.TensorSymbol("a", (n, m)), td.TensorSymbol("y", n)
    centre, width = (td.IndexedSum(X[i, h] * one[h, k], (h, 0, d - 1)) for one in (A, B))
    score = a[i, k] - width - ((y[i] - centre) * sympy.exp(-width)) ** 2 / 2
    density, total = (td.IndexedSum(sympy.exp(one), (k, 0, m - 1)) for one in (score, a[i, k]))
    value = td.IndexedSum(sympy.log(density) - sympy.log(total), (i, 0, n - 1))
    source = td.lambdify((X, A, B, a, y), td.gradient(value, X), "llvm").source
    assert "maximum(" in source
    assert "maximum(maximum(" not in source
