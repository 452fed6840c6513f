"""Derivatives of greatest and least values over ranges: how they read, and random ones with many ties."""

from __future__ import annotations

import random

import numpy as np
import pytest
import sympy
from exact_checks import assert_derivative_exact, assert_kernel_exact
from fuzz.equality import assert_equal
from sympy import Abs, Max, Min, Piecewise

import sympy_tensordiff as td
from sympy_tensordiff.reference import differentiate, evaluate

i, j, k, l, n, m, p, q = td.indices("i j k l n m p q")
x, y, v = td.TensorSymbol("x", n), td.TensorSymbol("y", m), td.TensorSymbol("v", n)
A = td.TensorSymbol("A", (n, m))


@pytest.mark.parametrize("cls", [td.IndexedMax, td.IndexedMin])
def test_the_tie_rule(cls):
    values = {x: [3, 3, 3, 3], v: [1, 0, 4, 3]}
    value = cls(x[k], (k, 0, n - 1))
    assert evaluate(td.gradient(value, x), values).tolist() == [sympy.Rational(1, 4)] * 4
    assert evaluate(td.jvp(value, x, v), values) == 2
    assert td.lambdify([x], td.gradient(value, x), "numpy")(np.full(4, 3.0)).tolist() == [0.25] * 4


@pytest.mark.usefixtures("uncompiled")
def test_an_empty_range_has_no_derivative():
    below = td.TensorComprehension(td.IndexedMax(x[j], (j, 0, i - 1)), (i, n))
    weighted = td.IndexedSum(sympy.exp(below[i]) * x[i], (i, 0, n - 1))
    at = np.array([1.0, 3, 2, 3])
    expected = [0 + np.exp(1) * 3, np.exp(1) + np.exp(3) * 2 + np.exp(3) * 3, np.exp(3), np.exp(3)]
    for result in (td.gradient(weighted, x), td.TensorComprehension(td.jvp(weighted, x, unit()), (p, n))):
        np.testing.assert_allclose(td.lambdify([x], result, "numpy")(at), expected, rtol=1e-12)
    np.testing.assert_allclose(td.lambdify([x], td.gradient(weighted, x), "numba")(at), expected, rtol=1e-12)
    pulled = td.vjp(below, x, v)
    assert td.lambdify([x, v], pulled, "numpy")(at, np.array([9.0, 1, 2, 4])).tolist() == [1, 6, 0, 0]


def unit():
    """The direction of entry p."""
    return td.TensorComprehension(sympy.KroneckerDelta(i, p), (i, n))


def test_values_behind_an_index():
    value = td.TensorComprehension(td.IndexedMax(Piecewise((y[j - 1], j > 0), (0, True)), (j, 0, i)), (i, m))
    values = {y: [-1, 0, 2, 0, 2]}
    assert_derivative_exact(value, y, {m: 5}, values=values)
    assert_kernel_exact(value, (y,), {m: 5}, order=2, values=values, kernels=(("numpy", True), ("numpy", False)))


def random_value(rng):
    """A greatest or least value over ranges of any kind, of reads of any kind."""
    cls = rng.choice([td.IndexedMax, td.IndexedMin])

    def read():
        row = rng.choice([i, k, l, n - 1 - k, Min(k + 1, n - 1), sympy.floor(l / 2)])
        column = rng.choice([k, l, m - 1 - l, 0, Max(l - 1, 0)])
        return rng.choice([x[row], y[column], A[row, column], A[row, column], rng.randint(-1, 2)])

    body = read() * read() + rng.choice([0, 1, -1]) * read()
    body = rng.choice([body, body, Abs(body), Piecewise((body, x[i] > 0), (read(), True)), Max(body, read())])
    if rng.random() < 0.3:
        body = rng.choice([td.IndexedSum, td.IndexedMin])(body * y[j], (j, rng.choice([0, l]), m - 1))
    low, high = rng.choice([(0, n - 1), (i, n - 1), (0, i), (Max(0, i - 1), Min(n - 1, i + 1))])
    value = cls(body, (k, low, high), (l, 0, rng.choice([m - 1, 1]))) if rng.random() < 0.5 else None
    if value is None:
        value = cls(cls(body, (l, 0, m - 1)), (k, low, high))
    value = rng.choice([value, value**2, value * x[i]])
    return td.TensorComprehension(value, (i, n))


# Those of the first dozen that take little time.
@pytest.mark.in_turns(8)
@pytest.mark.parametrize("seed", [0, 3])
def test_random_values_with_many_ties(seed):
    rng = random.Random(seed)
    value = random_value(rng)

    def entries(*shape):
        return np.array([rng.choice([0, 1, 2]) for _ in range(int(np.prod(shape)))], object).reshape(shape)

    values = {x: entries(3), y: entries(3), A: entries(3, 3)}
    variables = tuple(t for t in (x, y, A) if value.has(t))
    for wrt in variables:
        assert_derivative_exact(value, wrt, {n: 3, m: 3}, seed, values=values, backends=())
    kernels = (("numpy", seed % 2 == 0),)
    assert_kernel_exact(value, variables, {n: 3, m: 3}, seed, order=2, values=values, kernels=kernels)
    if x in variables:
        jacobian = differentiate(value, x, {**values, n: 3, m: 3})
        along = entries(3)
        tangent = evaluate(td.jvp(value, x, v), {**values, v: along, n: 3, m: 3})
        assert_equal(tangent, jacobian @ along, "jvp by x")


@pytest.mark.parametrize("kind", [td.IndexedMax, td.IndexedMin])
def test_values_that_occur_several_times_share_as_often(kind):
    # Each x[i] occurs i + 1 times: the index k, on which none depends, may not go.
    values = {x: np.array([1, 2, 2]) if kind is td.IndexedMax else np.array([2, 1, 1]), v: np.array([1, 2, 4])}
    value = kind(x[i], (k, 0, i), (i, 0, 2)) ** 2
    first = td.gradient(value, x)
    second = td.gradient(sum(first[i] * v[i] for i in range(3)), x)
    greatest = values[x][1]
    shares = np.array([0, sympy.Rational(2, 5), sympy.Rational(3, 5)])
    assert_equal(evaluate(first, values), 2 * greatest * shares, "first")
    assert_equal(evaluate(second, values), 2 * shares * (shares @ values[v]), "second")
    # As often each, it does.
    assert td.simplify_deltas(kind(x[i], (k, 0, 4), (i, 0, 2))) == kind(x[i], (i, 0, 2))
