"""Determinants, their cofactors, inverses and solutions of one matrix share its triangular factors."""

import numpy as np
import pytest

import sympy_tensordiff as td

n, m = td.indices("n m")
A, S, b = td.TensorSymbol("A", (n, n)), td.TensorSymbol("S", (n, n), symmetric=True), td.TensorSymbol("b", n)
B = td.TensorSymbol("B", (m, n, n))

RESULTS = {
    "determinant and its derivative": (A, (td.det(A), td.gradient(td.det(A), A))),
    "of a symmetric matrix": (S, (td.det(S), td.gradient(td.det(S), S))),
    "derivative and inverse": (A, (td.gradient(td.det(A), A), td.inv(A))),
}


def cofactors(matrix):
    """By minors, without division."""
    size = len(matrix)
    found = np.empty((size, size))
    for row in range(size):
        for column in range(size):
            minor = np.delete(np.delete(matrix, row, 0), column, 1)
            found[row, column] = (-1) ** (row + column) * (np.linalg.det(minor) if size > 1 else 1)
    return found


@pytest.mark.parametrize("backend", ["numpy", "numba", "llvm"])
@pytest.mark.parametrize("results", RESULTS.values(), ids=RESULTS)
def test_one_factorization(results, backend):
    matrix, values = results
    function = td.lambdify(matrix, values, backend)
    assert function.plan.count("factors") >= 1
    calls = function.source.partition("def fill_factors")[2]
    assert calls.count("] = factorized(") == 1 and "np.linalg.det(A)" not in calls and "np.linalg.inv(" not in calls
    random = np.random.default_rng(0)
    for size in (1, 2, 3, 8, 17):
        for dtype, tolerance in ((np.float64, 1e-11), (np.float32, 2e-4)):
            given = random.normal(size=(size, size)) / np.sqrt(size) + np.eye(size)
            if matrix is S:
                given = given + given.T
            around = np.full((2 * size, 2 * size), np.nan, dtype)
            around[::2, ::2] = given
            wanted = {"det": np.linalg.det(given), "cof": cofactors(given), "inv": np.linalg.inv(given)}
            order = ("cof", "inv") if results is RESULTS["derivative and inverse"] else ("det", "cof")
            for own in (given.astype(dtype), np.asfortranarray(given, dtype), around[::2, ::2]):
                for found, name in zip(function(own), order, strict=True):
                    scale = np.abs(wanted[name]).max()
                    np.testing.assert_allclose(found, wanted[name], rtol=tolerance, atol=tolerance * scale)


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
def test_derivatives_of_determinants_exist_at_singular_matrices(backend):
    function = td.lambdify(A, (td.det(A), td.gradient(td.det(A), A)), backend)
    for given in (np.zeros((1, 1)), np.ones((2, 2)), np.diag([0.0, 2.0, 3.0]), np.arange(9.0).reshape(3, 3)):
        value, gradient = function(given)
        np.testing.assert_allclose(value, 0, atol=1e-13)
        np.testing.assert_allclose(gradient, cofactors(given), atol=1e-13)
    value, gradient = function(np.array([[np.nan, 1.0], [1.0, 2.0]]))
    assert np.isnan(value) and np.isnan(gradient).all()


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
def test_factors_of_many_matrices(backend):
    value = td.det(B)
    total = td.sum(value)
    function = td.lambdify(B, (value, td.gradient(total, B)), backend)
    given = np.random.default_rng(1).normal(size=(5, 4, 4))
    given[2, 0] = given[2, 1]
    found, gradient = function(given)
    np.testing.assert_allclose(found, np.linalg.det(given), atol=1e-12)
    np.testing.assert_allclose(gradient, [cofactors(matrix) for matrix in given], atol=1e-12)


def test_blocks_have_room_in_inverses():
    """Without it, LAPACK inverts a triangular matrix one column at a time: six times slower at 300."""
    source = td.lambdify(A, td.inv(A), "numpy").source
    assert "lwork=32*n" in source
