"""Second derivatives of matrices that a simplification has found not to be symmetric: none is taken for symmetric."""

from __future__ import annotations

import numpy as np
import pytest

import sympy_tensordiff as td

n = td.indices("n")
A, T = td.TensorSymbol("A", (n, n)), td.TensorSymbol("T", (n, n))


@pytest.mark.parametrize(
    "function",
    [td.trace(td.abs(A) @ td.abs(A).T), td.trace(td.sqrt(A**2) @ td.sqrt(A**2).T), td.sum(td.abs(A.T) * td.abs(A.T))],
)
def test_a_matrix_is_not_taken_for_symmetric(function):
    """The gradient is ``2*A`` by a rule that leaves the matrix alone."""
    rng = np.random.default_rng(3)
    at, along = rng.normal(size=(2, 4, 4))
    found = td.lambdify([A, T], td.hvp(function, A, T), "numpy")(at, along)
    np.testing.assert_allclose(found, 2 * along, rtol=1e-13)
