"""The graph of a derivative, and the pullbacks of the nodes that the sweep has met."""

import numpy as np
import pytest

import sympy_tensordiff as td
from sympy_tensordiff.derivative.elementwise import Differentiation
from sympy_tensordiff.drawing.api import derivative_graph
from sympy_tensordiff.graph.nodes import reachable
from sympy_tensordiff.graph.write import write

A, v, z = td.TensorSymbol("A", (3, 3)), td.TensorSymbol("v", 3), td.TensorSymbol("z", 3)
i, k = td.indices("i k")

PARTS = [
    (lambda u: td.sum(td.exp(u) * v), td.sin(A @ v)),
    (lambda u: td.sin(u) + td.cos(u), A @ v),
    (lambda u: td.sum(u**2) * td.tanh(A @ u), td.exp(v)),
    (lambda u: td.TensorComprehension(td.IndexedSum(A[i, k] * u[k] ** 2, (k, 0, i)), (i, 3)) @ u, td.sin(A @ v)),
]


@pytest.mark.parametrize("number", range(len(PARTS)))
def test_a_pullback_is_the_derivative_by_its_node(number: int) -> None:
    """By the node as a variable of its own, with its value put in afterwards."""
    function, part = PARTS[number]
    work = Differentiation(function(part))
    node = work.reader.read(part)
    _, pullbacks = work.jacobians_with_pullbacks([work.leaf(v)])
    rng = np.random.default_rng(number)
    values = rng.uniform(0.5, 1.5, (3, 3)), rng.uniform(0.5, 1.5, 3)
    at_part = td.lambdify((A, v), part, backend="numpy")(*values)
    wanted = td.lambdify((A, v, z), td.jacobian(function(z), z), backend="numpy")(*values, at_part)
    got = td.lambdify((A, v), write(work.reader, pullbacks[node]), backend="numpy")(*values)
    np.testing.assert_allclose(got, wanted, rtol=1e-12)


@pytest.mark.parametrize("number", range(len(PARTS)))
def test_pullbacks_have_the_shape_of_their_node_behind_that_of_the_value(number: int) -> None:
    function, part = PARTS[number]
    work, results, pullbacks = derivative_graph(function(part), [v, A])
    assert len(pullbacks) >= 4
    assert pullbacks.keys() <= set(reachable(work.root))
    for node, pullback in pullbacks.items():
        assert pullback.shape == (*work.root.shape, *node.shape)
    leaves = {node.data[0]: pullback for node, pullback in pullbacks.items() if node.op == "tensor"}
    assert [leaves["v"], leaves["A"]] == results


def test_simplified_pullbacks_are_those_of_the_simplified_graph() -> None:
    square = td.TensorComprehension(v[i] ** 2, (i, 3))
    raw, simplified = (derivative_graph(td.sum(td.exp(square)), [v], simplify=flag) for flag in (False, True))
    _, results, pullbacks = simplified
    assert list(map(str, raw[2])) == list(map(str, pullbacks))
    assert pullbacks[next(node for node in pullbacks if node.op == "tensor")] in results
