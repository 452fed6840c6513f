"""Powers with exponents that are multiples of 1/2 or 1/4: roots and products in kernels."""

import numpy as np
import pytest
import sympy

import sympy_tensordiff as td

n = sympy.Symbol("n", integer=True, positive=True)
x = td.TensorSymbol("x", n)
p, k = td.indices("p k")


@pytest.mark.usefixtures("uncompiled")
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


@pytest.mark.usefixtures("uncompiled")
def test_negative_powers_of_an_index_at_zero():
    """Numba raises an error where an integer power of 0 is negative; NumPy's is infinite."""
    m = sympy.Symbol("m", integer=True)
    table = td.TensorComprehension(x[p] ** (k - 2), (p, n), (k, 5))
    tables = table, td.TensorComprehension(x[p] ** -k, (p, n), (k, 5)), td.TensorComprehension(x[p] ** m, (p, n))
    points = np.array([0.0, -0.0, -1.5, 2.0, np.inf, np.nan])
    with np.errstate(all="ignore"):
        found = td.lambdify([x, m], tables)(points, -3)
        for one, exponents in zip(found, (np.arange(-2.0, 3), -np.arange(5.0), np.array([-3.0])), strict=True):
            np.testing.assert_allclose(one.reshape(6, -1), points[:, None] ** exponents, rtol=1e-15)


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_multiples_of_a_quarter_are_roots(backend, dtype):
    exponents = [sympy.Rational(count, 4) for count in (1, -1, 3, -3, 5, -7, 9, 27)]
    powers = [td.TensorComprehension(x[p] ** exponent, (p, n)) for exponent in exponents]
    source = td.generate_code([x], powers, "numba")
    body = source[source.index("def fill_result0") : source.index("def run")]
    assert body.count("sqrt(") >= len(powers)
    assert "real(0.25)" not in body
    points = np.array([0, 1e-30, 0.3, 1, 2.5, 1e8, np.inf, np.nan, -1], dtype)
    with np.errstate(all="ignore"):
        for found, exponent in zip(td.lambdify([x], powers, backend)(points), exponents, strict=True):
            np.testing.assert_allclose(found, points ** dtype(float(exponent)), rtol=16 * np.finfo(dtype).eps)
