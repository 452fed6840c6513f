"""Derivatives of products over index ranges: how they read, zero factors, orders, modes, counts."""

from fractions import Fraction

import numpy as np
import pytest
from every import every
from sympy import Max, Mod, Piecewise, Symbol

import sympy_tensordiff as td
from sympy_tensordiff.reference import derivative, differentiate, evaluate

i, j, k, n, m, p, q = td.indices("i j k n m p q")
t = Symbol("t", real=True)
x, y, d = td.TensorSymbol("x", n), td.TensorSymbol("y", n), td.TensorSymbol("d", n)
A = td.TensorSymbol("A", (n, n))

FUNCTIONS = {
    "differences": td.IndexedProduct(x[j] - x[i], (i, 0, j - 1), (j, 0, n - 1)),
    "powers": td.IndexedProduct(x[i] ** 2 + x[n - 1 - i] * y[0], (i, 0, n - 1)),
    "nested": td.IndexedProduct(x[i] - td.IndexedProduct(y[k] + 1, (k, 0, i)), (i, 0, n - 1)),
    "inside a sum": td.IndexedSum(y[i] * td.IndexedProduct(x[k] - y[i], (k, Max(0, i - 1), i)), (i, 0, n - 1)),
    "around a sum": td.IndexedProduct(td.IndexedSum(x[k] * y[k], (k, 0, i)), (i, 0, n - 1)),
    "partly empty": td.IndexedSum(td.IndexedProduct(x[k] * y[k], (k, 0, i - 2)) * x[i], (i, 0, n - 1)),
}


@every("name", [*FUNCTIONS], turns=8)
def test_third_derivatives(name):
    expr = FUNCTIONS[name]
    values = {x: [Fraction(2), Fraction(0), Fraction(-3, 2)], y: [Fraction(1), Fraction(-2), Fraction(1, 3)]}
    third = td.jacobian(td.jacobian(td.jacobian(expr, x), y), x)
    assert (evaluate(third, values) == derivative(expr, (x, y, x), values)).all()


@every("name", [*FUNCTIONS])
def test_tangents(name):
    expr = FUNCTIONS[name]
    values = {x: [Fraction(2), Fraction(0), Fraction(-3, 2)], y: [Fraction(1), Fraction(-2), Fraction(1, 3)]}
    direction = [Fraction(3), Fraction(1, 2), Fraction(-1)]
    expected = differentiate(expr, x, values) @ np.array(direction)
    assert evaluate(td.jvp(expr, x, d), {**values, d: direction}) == expected


@pytest.mark.usefixtures("uncompiled")
def test_products_among_whole_tensors():
    """Index notation inside of a product of matrices, by both modes and in a kernel."""
    rows = td.TensorComprehension(td.IndexedProduct(A[i, k] + x[k], (k, 0, n - 1)), (i, n))
    expr = td.einsum("i,ij,j->", rows, A, td.exp(rows / 9))
    rng = np.random.default_rng(0)
    a, b, c = rng.uniform(0.3, 1, (3, 3)), rng.uniform(0.3, 1, 3), rng.uniform(-1, 1, 3)
    values = {A: a.tolist(), x: b.tolist()}
    expected = [differentiate(expr, variable, values).astype(float) for variable in (A, x)]
    for backend in ("numpy", "numba"):
        found = td.lambdify([A, x], td.gradient(expr, (A, x)), backend)(a, b)
        for got, wanted in zip(found, expected, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-10)
    along = td.lambdify([A, x, d], td.jvp(expr, x, d), "numpy")(a, b, c)
    np.testing.assert_allclose(along, expected[1] @ c, rtol=1e-10)


@pytest.mark.usefixtures("uncompiled")
def test_a_derivative_is_not_evaluated_where_the_product_is_not():
    """A slope that is not a number stays behind the condition of the product that is chosen."""
    chosen = Piecewise((td.IndexedProduct(x[k] ** -1, (k, 0, n - 1)), t > 0), (t, True))
    slope = td.gradient(chosen, x)
    for backend in ("numpy", "numba"):
        run = td.lambdify([x, t], slope, backend)
        np.testing.assert_array_equal(run([0.0, 0.0], -1.0), [0, 0])
        np.testing.assert_allclose(run([2.0, 4.0], 1.0), [-1 / 16, -1 / 32])


def test_products_that_are_kept_are_passes_too():
    """A lower bound ``k >= p + 1`` counts as it is written, so that the axis is ``p``."""
    A = td.TensorSymbol("A", (n, n))
    function = td.IndexedProduct(td.IndexedSum(A[i, k] * x[k], (k, 0, n - 1)), (i, 0, n - 1))
    source = td.lambdify([A, x], td.gradient(function, x), "numba").source
    assert source.count("_so_far *= ") == 2


@pytest.mark.in_turns(4)
@pytest.mark.usefixtures("uncompiled")
def test_second_derivatives_by_remainders_of_multiples():
    """The ranges between two factors that are left out have bounds by multiples of other indices."""
    around, cotangent = td.IndexedProduct(x[Mod(2 * i, n)], (i, 0, n - 1)), td.TensorSymbol("c", n)
    slope = td.IndexedSum(td.gradient(around, x)[p] * cotangent[p], (p, 0, n - 1))
    for values in ([3, 5, 7], [3, 0, 7], [3, 5, 0, 2], [2, 3, 4, 5]):
        given = {x: values, cotangent: range(1, len(values) + 1)}
        expected = derivative(around, (x, x), given) @ given[cotangent]
        assert (evaluate(td.gradient(slope, x), given) == expected).all()
