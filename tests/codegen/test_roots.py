"""Powers with exponents that are halves of odd numbers: roots and products in kernels."""

import numpy as np
import pytest
import sympy

import sympy_tensordiff as td

n = sympy.Symbol("n", integer=True, positive=True)
x = td.TensorSymbol("x", n)
p, k = td.indices("p k")
BASES = np.array([0.0, 5e-324, 1e-300, 1e-200, 0.25, 1.0, 2.0, 3.7, 1e100, 1e205, np.inf, -1.0, -np.inf, np.nan])


@pytest.mark.parametrize("backend", ["numba", "numpy"])
@pytest.mark.parametrize("twice", [3, 5, 31, -3, -5, -31])
def test_halves(backend, twice):
    """As exact as a general power, at 0, at infinity, and where the power overflows; none of a negative number."""
    exponent = sympy.Rational(twice, 2)
    function = td.lambdify(x, td.TensorComprehension(x[p] ** exponent, (p, n)), backend)
    assert "sqrt" in function.source and f"**{twice / 2}" not in function.source
    with np.errstate(all="ignore"):
        expected = np.where(BASES < 0, np.nan, BASES ** (twice / 2))
        np.testing.assert_allclose(function(BASES), expected, rtol=1e-14)


def test_other_exponents_stay():
    """A third is no root that a processor has; a large exponent would be many products."""
    for exponent in (sympy.Rational(4, 3), sympy.Rational(41, 2)):
        assert "sqrt" not in td.lambdify(x, td.TensorComprehension(x[p] ** exponent, (p, n)), "numpy").source


def test_the_base_is_computed_once():
    total = td.IndexedSum(x[k] ** 2, (k, 0, n - 1))
    source = td.lambdify(
        x, td.TensorComprehension((1 + sympy.exp(x[p]) + total) ** sympy.Rational(3, 2), (p, n))
    ).source
    assert source.count("exp(x[") == 1


@pytest.mark.parametrize("dtype", [np.float32])
def test_powers_of_an_index_are_products(dtype):
    """A polynomial's terms: no call of a general power, no other element type, and the powers of 0 and of nan."""
    a = td.TensorSymbol("a", 8)
    value = td.TensorComprehension(td.IndexedSum(a[k] * x[p] ** k, (k, 0, 7)), (p, n))
    slope = td.TensorComprehension(x[p] ** (2 - k), (p, n), (k, 5))
    function = td.lambdify([x, a], (value, slope))
    assert "**real(" not in function.source
    points = np.array([0.0, -1.5, 0.5, 2.0, np.inf, np.nan], dtype)
    weights = np.arange(1, 9).astype(dtype)
    with np.errstate(all="ignore"):
        powers = points[:, None] ** np.arange(8)
        found, reciprocals = function(points, weights)
        assert found.dtype == dtype
        expected = np.einsum("pk,k->p", powers, weights)
        np.testing.assert_allclose(found, expected, rtol=4 * np.finfo(dtype).eps * 8)
        np.testing.assert_allclose(reciprocals, points[:, None] ** (2.0 - np.arange(5)), rtol=8 * np.finfo(dtype).eps)
