"""Kernels keep their digits where terms of a formula nearly cancel, and at the ends of the range of numbers."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import sympy
from every import every
from sympy import Rational, cos, exp, log, sqrt
from uncompiled import numba_as_python

import sympy_tensordiff as td

n, i = td.indices("n i")
x, y = td.TensorSymbol("x", n), td.TensorSymbol("y", n)
s = sympy.Symbol("s", real=True)
SMALL, POSITIVE, NEGATIVE = ([1e-12, -1e-5, 1e-2, 0.5, 3], [1e-3, 0.5, 1, 1e3, 1e10], [-1e-12, -1e-3, -0.69, -0.7, -40])

LAWS = {
    "exponential": (exp(s) - 1, SMALL),
    "scaled exponential": (3 - 3 * exp(-2 * s), SMALL),
    "two of one exponential": (s / (exp(s) - 1), SMALL),
    "cosine": (1 - cos(s), SMALL),
    "cosine of a product": (5 * cos(3 * s) - 5, SMALL),
    "root less one": (sqrt(s**2 + 1) - 1, SMALL),
    "root less two": (2 * sqrt(s + 4) - 4, SMALL),
    "roots": (sqrt(s + 1) - sqrt(s), POSITIVE),
    "reciprocals": (1 / (s + 1) - 1 / s, POSITIVE),
    "reciprocals of roots": (1 / sqrt(s) - 1 / sqrt(s + 2), POSITIVE),
    "powers": ((s + 1) ** Rational(-3, 2) - s ** Rational(-3, 2), POSITIVE),
    "logarithm": (log(1 + s), [*SMALL, 1e300]),
    "logarithm of a square": (log(1 + s**2), SMALL),
    "logarithm of a complement": (log(1 - exp(s)), NEGATIVE),
}


def exact(formula, at, digits=80):
    with mpmath.workdps(digits):
        return float(sympy.lambdify(s, formula, "mpmath")(mpmath.mpf(at)))


def assert_close(found, wanted, ulps=6):
    scale = np.finfo(found.dtype).eps * np.abs(wanted)
    assert np.all(np.abs(found - wanted) <= ulps * scale), (found, wanted)


@every("name", [*LAWS], turns=8)
def test_laws_keep_the_digits_of_values_and_gradients(name):
    formula, points = LAWS[name]
    at = np.array(points, float)
    table = td.TensorComprehension(formula.subs(s, x[i]), (i, n))
    slopes = td.gradient(td.IndexedSum(formula.subs(s, x[i]), (i, 0, n - 1)), x)
    for backend in ("numpy", "llvm"):
        values, gradient = td.lambdify(x, (table, slopes), backend)(at)
        assert_close(values, [exact(formula, t) for t in points])
        # Two terms of this gradient cancel near 0, which no law joins.
        if name != "two of one exponential":
            assert_close(gradient, [exact(formula.diff(s), t) for t in points])


def test_laws_are_identities_at_random_points():
    rng = np.random.default_rng(0)
    for name, (formula, points) in LAWS.items():
        at = rng.uniform(0.1, 3, 200) * np.sign(points[-1])
        found = td.lambdify(x, td.TensorComprehension(formula.subs(s, x[i]), (i, n)), "numpy")(at)
        np.testing.assert_allclose(found, sympy.lambdify(s, formula, "numpy")(at), rtol=1e-11, atol=1e-13, err_msg=name)


def test_formulas_for_readers_stay():
    assert str(td.TensorComprehension(exp(x[i]) - 1, (i, n))) == "TensorComprehension(exp(x[i]) - 1, (i, n))"
    assert str(td.gradient(td.sum(td.log(1 + x)), x)) == "1/(x + 1)"


def test_sums_of_other_terms_stay():
    """``exp(x) - 2`` has no law, roots of unrelated numbers neither: a zero denominator would come in."""
    source = td.generate_code([x, y], td.IndexedSum(exp(x[i]) - 2 + sqrt(x[i]) - sqrt(y[i]), (i, 0, n - 1)), "numpy")
    assert "expm1" not in source and "1/" not in source.split("def compute")[0]


def _log_ndtr(t):
    return mpmath.log(mpmath.ncdf(t)) if t < 0 else mpmath.log1p(-mpmath.ncdf(-t))


FUNCTIONS = {
    "expm1": (mpmath.expm1, mpmath.exp, [-50, -1, -1e-12, 1e-9, 0.1, 30]),
    "log1p": (mpmath.log1p, lambda t: 1 / (1 + t), [-0.9, -1e-12, 1e-9, 0.1, 30, 1e300]),
    "log1mexp": (
        lambda t: mpmath.log(-mpmath.expm1(-abs(t))),
        lambda t: mpmath.sign(t) / mpmath.expm1(abs(t)),
        [-50, -1, -0.7, -0.69, -1e-3, -1e-15, 1e-12, 2, 40],
    ),
    "log_ndtr": (
        _log_ndtr,
        lambda t: mpmath.exp(-t * t / 2 - _log_ndtr(t)) / mpmath.sqrt(2 * mpmath.pi),
        [-300, -38, -20, -10.001, -10, -9.999, -5, -1, -1e-9, 0.3, 1, 5],
    ),
    "erfcx": (
        lambda t: mpmath.exp(t * t) * mpmath.erfc(t),
        None,  # two terms of it cancel where t is large
        [-5, -1e-9, 0.3, 1, 2.7, 5.1, 7.99, 8.01, 27, 400],
    ),
    "entr": (lambda t: -t * mpmath.log(t), lambda t: -mpmath.log(t) - 1, [1e-300, 0.1, 0.5, 2, 3]),
}


@every("name", [*FUNCTIONS], turns=8)
def test_values_and_derivatives_of_functions(name):
    value, slope, points = FUNCTIONS[name]
    function = getattr(td, name)
    for backend in ("numpy", "llvm", "numba"):
        with numba_as_python(backend):
            compute = td.lambdify(x, (function(x), td.gradient(td.sum(function(x)), x)), backend)
            found = compute(np.array(points, float))
        for own, exactly in zip(found, (value, slope), strict=True):
            if exactly is None:
                continue
            with mpmath.workdps(400):
                wanted = [float(exactly(mpmath.mpf(t))) for t in points]
            assert_close(own, wanted, 8)


def test_entropies_and_divergences_are_zero_at_zero():
    p, q, r = np.array([0.0, 0.5, 0.5, 0.0]), np.array([0.25, 0.5, 0.0, 0.0]), np.array([0.25, 0.5, 0.25, 0.0])
    written = td.IndexedSum(x[i] * log(x[i] / y[i]), (i, 0, n - 1)), td.sum(x * (td.log(x) - td.log(y)))
    named = td.sum(td.xlogy(x, x / y)), td.sum(td.xlogy(x, x) - td.xlogy(x, y)), -td.sum(td.entr(x) + td.xlogy(x, y))
    for backend in ("numpy", "llvm"):
        for form in (*written, *named):
            function = td.lambdify((x, y), form, backend)
            np.testing.assert_allclose(function(p, r), 0.5 * np.log(2), rtol=1e-15)
            assert function(p, q) == np.inf
        assert td.lambdify(x, td.sum(x * td.log(x)), backend)(p) == pytest.approx(-np.log(2))


def test_limits_that_are_not_zero_are_not_taken_for_zero():
    """The product of ``x*log(x)`` and an infinite factor has no value at 0 here, or the limit -oo."""
    at = np.array([0.0, 0.5])
    for formula, value in ((x[i] * (log(x[i]) + 1 / x[i]), np.nan), (x[i] * log(x[i]) / (x[i] ** 2 + x[i]), -np.inf)):
        for backend in ("numpy", "llvm"):
            found = td.lambdify(x, td.TensorComprehension(formula, (i, n)), backend)(at)
            np.testing.assert_array_equal(found[0], value)
            assert found[1] == pytest.approx(float(formula.subs(x[i], 0.5)))


def test_no_form_overflows_or_underflows_where_its_terms_do_not():
    """In single precision: intermediate results stay within the range of the terms."""
    far = np.array([1e10, 1e20], np.float32)
    for backend in ("numpy", "llvm"):
        root = td.lambdify(x, td.TensorComprehension(sqrt(x[i] ** 2 + 1) - 1, (i, n)), backend)
        np.testing.assert_array_equal(root(far), [np.float32(1e10), np.inf])
        powers = td.lambdify(x, td.TensorComprehension(x[i] ** -4 - (x[i] + 10**6) ** -4, (i, n)), backend)
        np.testing.assert_allclose(powers(np.array([1e6], np.float32)), [1e-24 * (1 - 1 / 16)], rtol=1e-6)


def test_xlogy_is_a_function_of_sympy():
    a, b = sympy.symbols("a b", real=True)
    assert td.xlogy(0, b) == 0 and td.xlogy(a, 1) == 0 and td.xlogy(2, 3) == 2 * log(3)
    assert td.xlogy(a, b).diff(a, b) == 1 / b
    assert td.xlogy(a, b).rewrite(log).subs({a: 0, b: 0}) == 0
    assert sympy.lambdify((a, b), td.xlogy(a, b))(2.0, 3.0) == pytest.approx(2 * np.log(3))
    with pytest.raises(TypeError):
        td.xlogy(a)


@pytest.mark.parametrize("name", ["log_ndtr", "log1mexp", "xlogy"])
def test_in_other_notations(name):
    value = td.xlogy(x[i], y[i]) if name == "xlogy" else getattr(td, name)(x[i])
    whole = td.xlogy(x, y) if name == "xlogy" else getattr(td, name)(x)
    assert str(whole) == f"{name}({'x, y' if name == 'xlogy' else 'x'})"
    at = {x: np.array([0.5, 2.0]), y: np.array([3.0, 0.25])}
    np.testing.assert_allclose(
        td.evaluate(td.TensorComprehension(value, (i, n)), at), td.evaluate(whole, at), rtol=1e-15
    )
    assert r"\_" not in td.latex(whole) and name.startswith("log_") == (r"\log\Phi" in td.latex(whole))
    td.check_derivative(td.IndexedSum(value, (i, 0, n - 1)), x, {n: 3})
