"""Cofactors over a power of the determinant: the inverse, of matrices of all forms, under all labels."""

import numpy as np
from every import every
from tensor_graphs import cofactor, contraction, evaluate

from sympy_tensordiff.graph.gathering import Contraction
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
