"""The sweeps over whole tensors against complex steps."""

import numpy as np
from every import every
from tensor_graphs import evaluate, random_graph

from sympy_tensordiff.derivative.pushforward import TensorPushforward
from sympy_tensordiff.derivative.tensor_sweep import TensorSweep
from sympy_tensordiff.graph.nodes import reachable

NOBODY = frozenset()


def names(count):
    return [f"p{n}" for n in range(count)]


def moved(values, directions, step):
    return {node: value + step * directions[node] if node in directions else value for node, value in values.items()}


def slope(node, values, directions, step=1e-40):
    """The derivative in one direction by a complex step: all functions here are analytic."""
    return np.imag(evaluate(node, moved(values, directions, 1j * step))) / step


@every("seed", range(20))
def test_one_sweep_gives_the_gradients_by_all_variables(seed):
    rng = np.random.default_rng(seed)
    graph, values, variables, _, root = random_graph(rng, 14)
    sweep = TensorSweep(graph, variables, NOBODY, names).start(root, graph.one)
    directions = {v: rng.uniform(-1, 1, np.shape(values[v])) for v in variables}
    total = sum(np.sum(evaluate(sweep.of(v), values) * directions[v]) for v in variables)
    np.testing.assert_allclose(total, slope(root, values, directions), rtol=1e-9, atol=1e-9)


@every("seed", range(20))
def test_the_jacobian_of_a_tensor_and_its_pushforward(seed):
    rng = np.random.default_rng(1000 + seed)
    graph, values, variables, nodes, _ = random_graph(rng, 10)
    node = next((n for n in reversed(nodes[9:]) if len(n.shape) in (1, 2)), nodes[-1])
    leaves = [v for v in variables if v in reachable(node)][:2]
    for leaf in leaves:
        direction = rng.uniform(-1, 1, np.shape(values[leaf]))
        jacobian = TensorSweep(graph, [leaf], NOBODY, names).start(node, graph.delta(node.shape), node.shape).of(leaf)
        assert jacobian.shape == (*node.shape, *leaf.shape)
        forward = np.tensordot(evaluate(jacobian, values), direction, np.ndim(direction))
        expected = slope(node, values, {leaf: direction})
        np.testing.assert_allclose(forward, expected, rtol=1e-9, atol=1e-9)
        given = graph.tensor("direction", leaf.shape)
        tangent = TensorPushforward(graph, {leaf: [given]}, NOBODY, names).tangent(node)
        found = evaluate(tangent, {**values, given: direction})
        np.testing.assert_allclose(np.broadcast_to(found, np.shape(expected)), expected, rtol=1e-9, atol=1e-9)


@every("seed", range(13))
def test_second_derivatives(seed):
    rng = np.random.default_rng(2000 + seed)
    graph, values, variables, _, root = random_graph(rng, 7)
    leaf = variables[rng.integers(1, len(variables))]
    gradient = TensorSweep(graph, [leaf], NOBODY, names).start(root, graph.one).of(leaf)
    hessian = TensorSweep(graph, [leaf], NOBODY, names).start(gradient, graph.delta(leaf.shape), leaf.shape).of(leaf)
    direction = rng.uniform(-1, 1, np.shape(values[leaf]))
    product = np.tensordot(evaluate(hessian, values), direction, np.ndim(direction))
    np.testing.assert_allclose(product, slope(gradient, values, {leaf: direction}), rtol=1e-9, atol=1e-9)
