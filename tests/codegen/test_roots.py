"""Powers with exponents that are halves of odd numbers: roots and products in kernels."""

import numpy as np
import pytest
import sympy

import sympy_tensordiff as td

n = sympy.Symbol("n", integer=True, positive=True)
x = td.TensorSymbol("x", n)
p, k = td.indices("p k")


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
