"""Maxima of values that data select: the derivative goes to the greatest ones of each segment."""

from __future__ import annotations

import numpy as np
import pytest
from sympy import Eq, Piecewise, exp

import sympy_tensordiff as td

i, j, p, n, m = td.indices("i j p n m")
v, lab = td.TensorSymbol("v", (n,)), td.TensorSymbol("lab", (n,), dtype=int)
x, idx = td.TensorSymbol("x", (m,)), td.TensorSymbol("idx", (n, 3), dtype=int)

ROUNDED = exp(v[i]) * v[i] ** 2
NAMED = td.TensorComprehension(ROUNDED, (i, n))

VALUES = np.array([1.0, 3.0, 3.0, -2.0, 1.0, 4.0])
LABELS = np.array([0, 1, 1, 2, 0, 5])


def segment_maxima(body):
    """The greatest body of each segment, those of empty ones being far below."""
    greatest = td.IndexedMax(Piecewise((body, Eq(lab[i], p)), (-100, True)), (i, 0, n - 1))
    return td.TensorComprehension(greatest, (p, m))


@pytest.mark.parametrize("temporaries", [True, False])
@pytest.mark.parametrize("body", [v[i], NAMED[i]], ids=["read", "named"])
@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_segment_maxima(backend, body, temporaries):
    total = td.IndexedSum(segment_maxima(body)[p] * (p + 1), (p, 0, m - 1))
    gradient = td.gradient(total, v)
    got = td.lambdify([v, lab, m], gradient, backend, temporaries=temporaries)(VALUES, LABELS, 4)
    slopes = np.ones(6) if body == v[i] else np.exp(VALUES) * (VALUES**2 + 2 * VALUES)
    # The first segment holds a tie, and so does the second; the last label is outside.
    shares = np.array([0.5, 1.0, 1.0, 3.0, 0.5, 0.0])
    np.testing.assert_allclose(got, shares * slopes, rtol=1e-12)


@pytest.mark.parametrize("temporaries", [True, False])
def test_maxima_of_products_of_gathers(temporaries):
    greatest = td.IndexedMax(td.IndexedProduct(x[idx[i, j]], (j, 0, 2)), (i, 0, n - 1))
    gradient = td.lambdify([x, idx], td.gradient(greatest, x), "numpy", temporaries=temporaries)
    at, rows = np.array([1.0, 2.0, 3.0]), np.array([[0, 1, 1], [2, 2, 1], [0, 0, 2], [1, 2, 2]])
    # Two rows tie at 18: each has half of the derivative.
    np.testing.assert_allclose(gradient(at, rows), [0.0, 9.0, 12.0], rtol=1e-12)
