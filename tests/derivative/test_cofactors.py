"""Cofactors over a power of the determinant: the inverse, of matrices of all forms, under all labels."""

import numpy as np
from every import every
from tensor_graphs import cofactor, contraction, evaluate

import sympy_tensordiff as td
from sympy_tensordiff.graph.einsum_normal_form import Contraction
from sympy_tensordiff.graph.nodes import Graph
from sympy_tensordiff.integer.affine import Affine

N = Affine.of(3)
MATRICES = {
    "variable": lambda graph, a, x: a,
    "transpose": lambda graph, a, x: graph.transposed(a),
    "multiple": lambda graph, a, x: graph.scale(-2, a),
    "inverse": lambda graph, a, x: graph.inverse(a),
    "identity": lambda graph, a, x: graph.delta((N,)),
    "multiple of the identity": lambda graph, a, x: graph.scale(2, graph.delta((N,))),
    "diagonal": lambda graph, a, x: graph.ein(1, [(x, (0,))], (0, 0)),
    "square": lambda graph, a, x: graph.ein(1, [(a, (0, 1)), (a, (1, 2))], (0, 2)),
}


@every("power", [-1, -2, 1])
@every("output", [(0, 1), (1, 0), (0, 0), (0,), (0, 1, 0), ()])
@every("form", [*MATRICES])
def test_values(form, output, power):
    graph, rng = Graph(), np.random.default_rng(3)
    a, x = graph.tensor("a", (N, N)), graph.tensor("x", (N,))
    values = {a: rng.uniform(0.5, 2, (3, 3)) + np.eye(3), x: rng.uniform(0.5, 2, 3)}
    matrix = MATRICES[form](graph, a, x)
    divisor = graph.pow(graph.cofactor(0, matrix), graph.const(power))
    node = graph.ein(1, [(graph.cofactor(1, matrix), (0, 1)), (divisor, ()), (x, (1,))], output)
    value = evaluate(matrix, values)
    factors = [cofactor(1, value), np.linalg.det(value) ** power, values[x]]
    expected = contraction(Contraction(1, ((0, 1), (), (1,)), output, (N, N)), factors)
    assert np.shape(evaluate(node, values)) == np.shape(expected)
    np.testing.assert_allclose(evaluate(node, values), expected, rtol=1e-9, atol=1e-12)


@every("dtype", [np.float64, np.float32])
@every("form", ["regular", "singular", "nearly singular", "of tiny entries", "of rank n - 2"])
def test_cofactors_and_their_derivatives_at_all_matrices(form, dtype):
    """One factorization far from singular matrices, singular values elsewhere: both have the minors as their value."""
    A, V = (td.TensorSymbol(name, (5, 5)) for name in "AV")
    results = td.gradient(td.det(A), A), td.hvp(td.det(A), A, V)
    rng = np.random.default_rng(4)
    x, v = rng.normal(size=(2, 5, 5))
    if form != "regular":
        x[0] = x[1] + {"singular": 0, "of rank n - 2": 0, "nearly singular": 1e-3, "of tiny entries": 0.5}[form] * x[0]
    x[2] = x[3] if form == "of rank n - 2" else x[2]
    x *= 1e-5 if form == "of tiny entries" else 1
    x, v = x.astype(dtype), v.astype(dtype)

    def minors(matrix):
        rest = [[np.delete(np.delete(matrix, i, 0), j, 1) for j in range(5)] for i in range(5)]
        return np.array([[(-1) ** (i + j) * np.linalg.det(rest[i][j]) for j in range(5)] for i in range(5)])

    exact, scale = x.astype(float), np.abs(x).max()
    step = 1e-4 * scale
    slope = (minors(exact + step * v) - minors(exact - step * v)) / (2 * step)
    found = td.lambdify((A, V), results, "numpy")(x, v)
    tolerance = 1e-6 if dtype is np.float64 else 1e-3
    for value, expected, degree in zip(found, (minors(exact), slope), (4, 3), strict=True):
        assert value.dtype == dtype
        np.testing.assert_allclose(value / scale**degree, expected / scale**degree, rtol=0, atol=tolerance)
