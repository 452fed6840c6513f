"""The checks find what is wrong and accept what is right; random functions against the oracle."""

from __future__ import annotations

from fractions import Fraction

import exact_checks
import pytest
import sympy
from every import every
from exact_checks import assert_derivative_exact, assert_kernel_exact, assert_second_exact
from fuzz import random_function
from fuzz.equality import assert_equal
from sympy import Abs, Max, Symbol, log, sqrt

from sympy_tensordiff.derivative import api
from sympy_tensordiff.errors import ArgumentError, DerivativeMismatch, ShapeError
from sympy_tensordiff.reference import evaluate
from sympy_tensordiff.symbolic.index_notation.indices import indices
from sympy_tensordiff.symbolic.index_notation.sums import IndexedSum
from sympy_tensordiff.symbolic.index_notation.tensors import TensorComprehension, TensorSymbol
from sympy_tensordiff.testing import check_derivative, differences, random_values

i, j, k, n, p = indices("i j k n p")
x, y = TensorSymbol("x", 6), TensorSymbol("y", 6)
alpha = Symbol("alpha", real=True)

# ---------------------------------------------------------------- random values


def test_sizes_and_free_indices_must_be_given():
    u = TensorSymbol("u", n)
    assert random_values(u[p], {n: 3, p: 1})[u].shape == (3,)
    with pytest.raises(ArgumentError, match="n"):
        random_values(u[0])
    with pytest.raises(ArgumentError, match="p"):
        random_values(x[p])


# ---------------------------------------------------------------- central differences


@every(
    "function",
    [
        TensorComprehension(x[i] ** 3 * y[5 - i], (i, 6)),
        TensorComprehension(log(x[i]) + sqrt(y[i]), (i, 6)),
        TensorComprehension(Max(x[i], y[i]) + Abs(x[i]) + sympy.sign(y[i]), (i, 6)),
        IndexedSum(sympy.floor(x[k]) * y[k], (k, 0, 5)),
        alpha * IndexedSum(x[k] ** 2, (k, 0, 5)) * y[p],
    ],
)
def test_right_derivatives_pass(function):
    variables = tuple(v for v in (x, y, alpha) if function.has(v))
    assert check_derivative(function, variables) < 1e-7


def test_large_variables_are_checked_along_random_directions():
    u = TensorSymbol("u", (40, 50))
    function = TensorComprehension(IndexedSum(u[i, k] * u[j, k], (k, 0, 49)) ** 2, (i, 40), (j, 40))
    assert check_derivative(function, u) < 1e-7


def scaled(name, factor):
    """A wrong version of one of the functions of the package."""

    def wrong(expression, *args):
        result = getattr(api, name)(expression, *args)
        if isinstance(result, TensorComprehension):
            return TensorComprehension(factor(result.body, result.indices), *result.limits)
        return factor(result, ())

    return wrong


@pytest.mark.parametrize("factor", [1.00001, -1, 0, 2])
def test_a_wrong_factor_is_found(monkeypatch, factor):
    monkeypatch.setattr(differences, "jacobian", scaled("jacobian", lambda body, axes: factor * body))
    with pytest.raises(DerivativeMismatch):
        check_derivative(IndexedSum(x[k] ** 3 * y[k], (k, 0, 5)), x)


def test_a_wrong_pullback_of_a_large_variable_is_found(monkeypatch):
    monkeypatch.setattr(differences, "vjp", scaled("vjp", lambda body, axes: body * 1.001))
    u = TensorSymbol("u", 200)
    with pytest.raises(DerivativeMismatch, match="random direction"):
        check_derivative(TensorComprehension(u[i] ** 2, (i, 200)), u)


def test_check_derivative_that_is_0_but_for_rounding_errors():
    u = TensorSymbol("u", n)
    one = TensorComprehension(Abs(u[i]) / u[i], (i, n))
    assert check_derivative(one, u) < 1e-6
    with pytest.raises(DerivativeMismatch):
        check_derivative(one, u, {n: 3}, derivative=TensorComprehension(u[i] * u[p] / 10**6, (i, n), (p, n)))


def test_a_derivative_found_by_hand():
    u, v = TensorSymbol("u", n), TensorSymbol("v", n)
    function = IndexedSum(u[i] ** 2 * v[i], (i, 0, n - 1))
    by_u, by_v = TensorComprehension(2 * u[i] * v[i], (i, n)), TensorComprehension(u[i] ** 2, (i, n))
    assert check_derivative(function, u, derivative=by_u) < 1e-7
    assert check_derivative(function, (u, v), {n: 1}, derivative=(by_u, by_v)) < 1e-7
    for wrong in (by_v, TensorComprehension(by_u[i] + sympy.Piecewise((1e-4, sympy.Eq(i, 0)), (0, True)), (i, n))):
        with pytest.raises(DerivativeMismatch, match="with respect to u: entry"):
            check_derivative(function, u, {n: 3}, derivative=wrong)
    assert check_derivative(function, u, {n: 200}, derivative=by_u) < 1e-7
    with pytest.raises(DerivativeMismatch, match="with respect to u: random direction"):
        check_derivative(function, u, {n: 200}, derivative=by_v)
    table = TensorComprehension(2 * u[i] * sympy.KroneckerDelta(i, j), (i, n), (j, n))
    square = TensorComprehension(u[i] ** 2, (i, n))
    assert check_derivative(square, u, {n: 120}, derivative=table) < 1e-7
    with pytest.raises(DerivativeMismatch, match="with respect to u: random direction"):
        check_derivative(square, u, {n: 120}, derivative=2 * table)


def test_a_derivative_that_does_not_fit():
    function = TensorComprehension(x[i] ** 2, (i, 6))
    with pytest.raises(ShapeError, match=r"the derivative with respect to x has the shape \(6, 6\), not \(6,\)"):
        check_derivative(function, x, derivative=x)
    with pytest.raises(ArgumentError, match="derivative has 1 expressions, 2 are needed, one for each of wrt"):
        check_derivative(function, (x, y), derivative=(x,))


def test_a_function_without_finite_values():
    with pytest.raises(ArgumentError, match="finite"):
        check_derivative(log(-IndexedSum(x[k] ** 2, (k, 0, 5))), x)


def test_a_function_that_is_smooth_nowhere():
    with pytest.raises(ArgumentError, match="smooth"):
        check_derivative(TensorComprehension(sympy.sign(sympy.sin(x[i] * 10**9)), (i, 6)), x)


# ---------------------------------------------------------------- exact checks


def test_equality_is_exact_for_fractions():
    close = Fraction(1, 3) + Fraction(1, 10**40)
    with pytest.raises(DerivativeMismatch, match=r"what: entry \(1,\)"):
        assert_equal([Fraction(1), close], [Fraction(1), Fraction(1, 3)], "what")
    assert_equal([1.0, float("nan")], [1.0 + 1e-12, float("nan")], "what", 1e-9)
    with pytest.raises(DerivativeMismatch):
        assert_equal([1.0], [float("nan")], "what", 1e-9)
    with pytest.raises(DerivativeMismatch, match="shape"):
        assert_equal([1.0], 1.0, "what")


@pytest.mark.parametrize("name", ["vjp", "jacobian"])
def test_exact_checks_find_a_small_error(monkeypatch, name):
    tiny = sympy.Rational(1, 10**30)
    monkeypatch.setattr(exact_checks, name, scaled(name, lambda body, axes: body * (1 + tiny)))
    with pytest.raises(DerivativeMismatch, match=name):
        assert_derivative_exact(TensorComprehension(x[i] * y[i] ** 2, (i, 6)), y, backends=())


def test_exact_checks_find_a_wrong_second_derivative(monkeypatch):
    monkeypatch.setattr(exact_checks, "hessian", scaled("hessian", lambda body, axes: 2 * body))
    with pytest.raises(DerivativeMismatch, match="second derivative"):
        assert_second_exact(TensorComprehension(x[i] ** 3, (i, 6)), x, backends=())


# ---------------------------------------------------------------- random functions


@pytest.mark.parametrize("start", range(0, 60, 30))
def test_random_functions_read_inside_their_shapes(start):
    for seed in range(start, start + 30):
        random = random_function(seed, "tables", depth=4)
        values = random_values((random.function, *random.variables), seed=seed)
        evaluate(random.function, values)


@every("seed", range(2, 16), turns=8)
def test_random_rational_functions_equal_the_oracle(seed):
    random = random_function(seed, "tables")
    for wrt in random.variables:
        assert_derivative_exact(random.function, wrt, seed=seed)


@pytest.mark.in_turns(8)
@pytest.mark.parametrize("seed", range(100, 106))
def test_random_deep_functions_equal_the_oracle(seed):
    random = random_function(seed, "tables", depth=4, kinks=False)
    assert_kernel_exact(random.function, random.variables, seed=seed)


@pytest.mark.in_turns(5)
@pytest.mark.parametrize("seed", range(200, 205))
def test_random_smooth_functions_equal_the_oracle(seed):
    random = random_function(seed, "tables", kind="smooth")
    assert_kernel_exact(random.function, random.variables, seed=seed, low=-1, high=1)


@pytest.mark.in_turns(3)
@pytest.mark.parametrize("seed", range(300, 303))
def test_random_second_derivatives_equal_the_oracle(seed):
    random = random_function(seed, "tables", rank=1, kinks=False)
    for wrt in random.variables:
        if isinstance(wrt, TensorSymbol):
            assert_second_exact(random.function, wrt, seed=seed)


# Functions that were once wrong, from longer runs of the generator.
FOUND = {
    "nested quotients": TensorComprehension(
        (alpha + TensorComprehension(x[2 * i] * y[3 - i], (i, 3))[2 - 2 * j]) ** 2, (j, 2)
    ),
    "condition on a comprehension with pieces": TensorComprehension(
        Max(TensorComprehension(sympy.Piecewise((x[i] ** 2, sympy.Ne(i, 2)), (0, True)), (i, 6))[i], y[i]), (i, 5)
    ),
    "guard inside a condition": TensorComprehension(
        Max(0, TensorComprehension(sympy.Piecewise((y[i - 3], i >= 3), (0, True)) + x[i], (i, 6))[i]), (i, 6)
    ),
    "pieces inside a condition": TensorComprehension(
        Max(0, sympy.Piecewise((x[0], y[i] > 0), (2 * y[i], True))), (i, 3)
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_what_longer_runs_found(name):
    function = FOUND[name]
    for wrt in (x, y):
        for seed in range(3):
            assert_derivative_exact(function, wrt, seed=seed)


@every("seed", [11, 2233, 2299, 2564, 3655], turns=10)
def test_seeds_that_were_once_wrong(seed):
    random = random_function(seed, "tables", depth=4, kinks=2000 <= seed < 3000)
    assert_kernel_exact(random.function, random.variables, seed=seed)
    for wrt in random.variables:
        assert_derivative_exact(random.function, wrt, seed=seed, backends=())
