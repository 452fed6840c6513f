"""Bounds of rounding errors hold, and are not much larger than the errors of textbook cases."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import sympy
from every import every
from sympy import Piecewise, Rational, Symbol, cos, exp, log, pi, sin, sqrt

import sympy_tensordiff as td
from sympy_tensordiff.errors import ArgumentTypeError, UnsupportedError

n, m, i, j, k = td.indices("n m i j k")
x, y = td.TensorSymbol("x", n), td.TensorSymbol("y", n)
A, B = td.TensorSymbol("A", (n, m)), td.TensorSymbol("B", (m, 2))
s, t = Symbol("s", real=True), Symbol("t", real=True)

# The formula, the ranges of s and t, and whether the bound is at most FACTOR times the largest error.
FORMULAS = {
    "roots": (sqrt(s + 1) - sqrt(s), (1, 1e6), (0, 1), True),
    "exponential": (exp(s) - 1, (1e-6, 1e-3), (0, 1), True),
    "cosine": ((1 - cos(s)) / s**2, (1e-3, 1e-2), (0, 1), True),
    "quadratic": ((-t + sqrt(t**2 - 4 * s)) / 2, (0.1, 1), (10, 100), True),
    "logarithm": (log(1 + s), (1e-6, 1e-3), (0, 1), True),
    "reciprocals": (1 / (s + 1) - 1 / s, (10, 1000), (0, 1), True),
    "difference of squares": (s**2 - t**2, (0.9, 1), (0.9, 1), True),
    "fractions": (Rational(1, 3) * s - t / 7 + Rational(1, 10), (-1, 1), (-1, 1), True),
    "sine": (sin(pi * s), (1.9, 2.1), (0, 1), True),
    "power": (s**t, (0.1, 10), (-3, 3), False),
    "higher powers": (s**5 - 5 * t**3 + s**-2, (0.1, 2), (-1, 1), False),
    "sigmoid": (td.sigmoid(s) * td.sigmoid(t), (-10, 10), (-10, 10), False),
    "choice": (Piecewise((log(s), s > 0), (-exp(t), True)), (-1, 1), (-1, 1), False),
    "error function": (1 - sympy.erf(s), (1, 4), (0, 1), False),
    "third root": ((s + 1) ** Rational(1, 3) - s ** Rational(1, 3), (1, 1e6), (0, 1), False),
}
FACTOR = 20
"""A bound of formulas with one dominant operation is at most so many times the largest error at random points."""


def plain(formula, dtype):
    """Return the function that computes `formula` operation by operation with NumPy."""
    own = sympy.lambdify((s, t), formula, "scipy")
    return lambda *at: np.asarray(own(*at)).astype(dtype)


@every("name", [*FORMULAS], turns=8)
def test_bounds_hold_at_random_points(name, thorough):
    formula, *ranges, is_tight = FORMULAS[name]
    rng, count = np.random.default_rng(0), 2000 if thorough else 200
    form = td.TensorComprehension(formula.subs({s: x[i], t: y[i]}, simultaneous=True), (i, n))
    exact = sympy.lambdify((s, t), formula, "mpmath")
    for dtype in (np.float64, np.float32):
        at = [rng.uniform(*ends, count).astype(dtype) for ends in ranges]
        values = {a: value for a, value in zip((x, y), at, strict=True) if form.has(a)}
        bound = td.error_bound(form, values, dtype=dtype.__name__).bound
        with np.errstate(all="ignore"):
            found = plain(formula, dtype)(*at)
        with mpmath.workdps(40):
            wanted = [exact(*map(mpmath.mpf, point)) for point in zip(*(a.tolist() for a in at), strict=True)]
            errors = np.array([float(abs(mpmath.mpf(a) - w)) for a, w in zip(found.tolist(), wanted, strict=True)])
        assert np.all(errors <= bound), (name, dtype, np.max(errors / bound))
        if is_tight:
            assert np.max(errors / bound) >= 1 / FACTOR, (name, dtype)


VECTORS = {
    "mean": (td.mean(x), lambda v: v.sum() / v.dtype.type(v.size), lambda v: sum(v) / len(v)),
    "naive variance": (
        td.mean(x**2) - td.mean(x) ** 2,
        lambda v: (v * v).sum() / v.dtype.type(v.size) - (v.sum() / v.dtype.type(v.size)) ** 2,
        lambda v: sum(a**2 for a in v) / len(v) - (sum(v) / len(v)) ** 2,
    ),
    "norm": (td.norm(x), lambda v: np.sqrt((v * v).sum()), lambda v: mpmath.sqrt(sum(a**2 for a in v))),
    "log-sum-exp": (
        log(td.IndexedSum(exp(x[i]), (i, 0, n - 1))),
        lambda v: np.log(np.exp(v).sum()),
        lambda v: mpmath.log(sum(map(mpmath.exp, v))),
    ),
    "cumulated products": (
        td.IndexedSum(td.IndexedProduct(x[j], (j, 0, i)), (i, 0, n - 1)),
        lambda v: np.cumprod(v).sum(),
        lambda v: sum(mpmath.fprod(v[: r + 1]) for r in range(len(v))),
    ),
    "triangle": (
        td.IndexedSum(x[i] * x[i - j], (j, 0, i), (i, 0, n - 1)),
        lambda v: np.array([v[r] * v[r - q] for r in range(v.size) for q in range(r + 1)], v.dtype).sum(),
        lambda v: sum(v[r] * v[r - q] for r in range(len(v)) for q in range(r + 1)),
    ),
    "largest": (td.max(x) - td.mean(x), lambda v: v.max() - v.mean(), lambda v: max(v) - sum(v) / len(v)),
}


@every("name", [*VECTORS], turns=8)
def test_bounds_of_sums_hold(name):
    formula, plainly, exact = VECTORS[name]
    rng = np.random.default_rng(1)
    worst = 0.0
    for number in range(8):
        dtype = (np.float64, np.float32)[number % 2]
        v = (rng.normal(size=rng.integers(2, 12)) + rng.choice([0, 10])).astype(dtype)
        bound = td.error_bound(formula, {x: v}, dtype=dtype.__name__).bound
        with mpmath.workdps(60):
            error = float(abs(mpmath.mpf(float(plainly(v))) - exact([mpmath.mpf(float(a)) for a in v])))
        assert error <= bound, (name, v, error, bound)
        worst = max(worst, error / bound if bound else 0.0)
    assert worst >= 1 / 40


def test_bounds_of_matrices_hold():
    softmax, table = td.softmax(A @ B, axis=1), A @ B
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(3, 4)).astype(np.float32), rng.normal(size=(4, 2)).astype(np.float32)
    scores = a @ b
    exact = a.astype(float) @ b.astype(float)
    for form, found, wanted in (
        (table, scores, exact),
        (softmax, np.exp(scores) / np.exp(scores).sum(1, keepdims=True), None),
    ):
        wanted = np.exp(exact) / np.exp(exact).sum(1, keepdims=True) if wanted is None else wanted
        bound = td.error_bound(form, {A: a, B: b}, dtype="float32")
        assert bound.bound.shape == (3, 2) and np.all(abs(found - wanted) <= bound.bound)
        assert np.all(bound.bound <= 200 * 2.0**-24 * (abs(a) @ abs(b) + 1))
        assert "entry (" in str(bound)


def test_derivatives_have_bounds():
    """Differences from the mean lose digits, their squares' mean none."""
    variance = td.mean(x**2) - td.mean(x) ** 2
    values = {x: np.array([1e6, 1e6 + 1, 1e6 + 3])}
    assert td.error_bound(variance, values).relative > 1e-5
    assert td.error_bound(td.var(x), values).relative < 1e-15
    slopes = td.error_bound(td.gradient(td.var(x), x), values)
    assert np.all((slopes.relative > 1e-10) & (slopes.relative < 1e-8))


def test_the_place_where_digits_are_lost_comes_first():
    bound = td.error_bound((1 - cos(s)) / s**2, {s: 1e-4})
    assert bound.terms[0].part == cos(s)
    assert bound.terms[0].bound / abs(bound.value) > 1e7 * bound.unit
    assert [term.part for term in bound.data] == [s]
    text = str(bound).splitlines()
    assert text[0].startswith("value 0.5, error at most ") and text[0].endswith("of 16 digits lost")
    assert text[2].split()[1] == "cos(s)"
    assert not bound.is_symbolic


def test_without_values_the_bound_is_a_formula():
    bound = td.error_bound(td.sum(x**2))
    u = Symbol("u", positive=True)
    total = td.IndexedSum(x[i] ** 2, (i, 0, n - 1))
    assert bound.is_symbolic and bound.unit == u
    found = td.evaluate(bound.bound.subs(u, 1), {x: [1.0, 2.0, 3.0]})
    assert found == 14 + 2 * 14
    assert bound.relative == bound.bound / sympy.Abs(total)
    assert str(bound).startswith("error at most the sum of:\n  u*")
    table = td.error_bound(x + 1 / y)
    assert table.bound.shape == (n,) and table.relative is None
    assert "for 1/y[i]" in str(table)


def test_exact_formulas_have_the_bound_zero():
    for form in (x * 2, td.abs(x), td.max(x), x[0], -x / 4, td.where(td.greater(x, 0), x, 0)):
        assert np.all(np.asarray(td.error_bound(form, {x: np.array([1.0, -3.0])}).bound) == 0)


def test_what_has_no_known_error_is_refused():
    S = td.TensorSymbol("S", (3, 3))
    with pytest.raises(UnsupportedError, match=r"error_bound: the errors of det\(S\) depend on how it is computed"):
        td.error_bound(log(td.det(S)))
    with pytest.raises(UnsupportedError, match=r"error_bound: the errors of .* depend on how it is computed"):
        td.error_bound(td.inv(S)[0, 1])
    with pytest.raises(UnsupportedError, match="error_bound: g has only a name, and no bound of its error is known"):
        td.error_bound(sympy.Function("g")(s), {s: 1})
    with pytest.raises(UnsupportedError, match=r"error_bound: the range that ends at .* is not affine in i"):
        td.error_bound(td.IndexedSum(exp(x[j]), (j, 0, sympy.floor(i / 2)), (i, 0, n - 1)))


def test_arguments_are_checked():
    with pytest.raises(ArgumentTypeError, match="""error_bound: dtype must be "float64" or "float32", not 'half'"""):
        td.error_bound(s, {s: 1}, dtype="half")
    with pytest.raises(ArgumentTypeError, match=r"error_bound: values must be a mapping such as \{x: array\}, not 3"):
        td.error_bound(s, 3)
