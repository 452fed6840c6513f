"""Sums over chains of matrices in index notation take products with vectors, whatever the order of their indices."""

from __future__ import annotations

import numpy as np
import pytest
from cost_judge.oracle import executed, figures

import sympy_tensordiff as td

i, j, k, l, p = td.indices("i j k l p")

n = td.indices("n")
A, B, C, D = (td.TensorSymbol(name, (n, n)) for name in "ABCD")
u, v, w, x = (td.TensorSymbol(name, n) for name in "uvwx")
MATRICES = A, B, C, D, u, v, w, x


def over(body, *variables):
    return td.IndexedSum(body, *((variable, 0, n - 1) for variable in variables))


CHAINS = {
    "a form of two matrices": over(x[i] * A[i, j] * B[j, k] * w[k], i, j, k),
    "with functions": td.tanh(over(td.exp(x[i]) * A[i, j] * B[j, k] * w[k], i, j, k)),
    "three matrices": over(x[i] * A[i, j] * B[j, k] * C[k, l] * w[l], i, j, k, l),
    "indices in another order": over(x[i] * A[i, j] * B[j, k] * C[k, l] * w[l], l, i, k, j),
    "a vector times two matrices": td.TensorComprehension(over(x[i] * A[i, j] * B[j, k], j, i), (k, n)),
    "in an addition": td.TensorComprehension(x[k] * w[p] + v[p] * over(x[i] * A[i, j] * B[j, k], j, i), (k, n), (p, n)),
}


@pytest.mark.in_turns(3)
@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("name", [*CHAINS])
def test_sums_over_chains_of_matrices_take_products_with_vectors(name):
    """Whatever the order of the indices, and of the axes in memory, no three loops run inside one another."""
    expression = CHAINS[name]
    operations = [figures(executed(MATRICES, expression), {"n": size}).operations for size in (16, 32)]
    assert operations[0] < 20 * 16**2 and operations[1] < 4.2 * operations[0]
    arrays = [np.random.default_rng(3).standard_normal([4] * len(one.shape)) for one in MATRICES]
    expected = td.evaluate(expression, dict(zip(MATRICES, arrays, strict=True)))
    np.testing.assert_allclose(td.lambdify(MATRICES, expression, "numba")(*arrays), expected, rtol=1e-11)


def test_derivatives_of_sums_over_chains_take_products_with_vectors():
    value = over(td.exp(x[i]) * A[i, j] * B[j, k] * w[k], i, j, k)
    value += over(x[i] * C[i, j] * D[j, k] * A[k, l] * v[l], i, j, k, l)
    for wrt in (x, A, C, w):
        program = executed(MATRICES, td.gradient(value, wrt))
        assert figures(program, {"n": 32}).operations < 20 * 32**2
