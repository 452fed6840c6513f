"""The paper's figure 2 and the thesis's figures 4.5 to 4.10 as graphs: equal values, no more nodes, no deltas."""

import numpy as np
import pytest
import sympy
from tensor_graphs import evaluate, size

from sympy_tensordiff.derivative.tensor_sweep import TensorSweep
from sympy_tensordiff.graph.nodes import Graph, reachable
from sympy_tensordiff.integer.affine import Affine

NOBODY = frozenset()


def names(count):
    return [f"p{n}" for n in range(count)]


def derivatives(graph, root, *leaves):
    cotangent = graph.delta(root.shape) if root.shape else graph.one
    sweep = TensorSweep(graph, leaves, NOBODY, names).start(root, cotangent, root.shape)
    return [sweep.of(leaf) for leaf in leaves]


def calls(function, *roots):
    return [node for node in reachable(*roots) if node.op == "call" and node.data is function]


def operands(*roots):
    """Return the arguments of all nodes."""
    return {arg for node in reachable(*roots) for arg in node.args}


def deltas(*roots):
    """The operands that hold entries on a diagonal and zeros elsewhere."""
    return [node for node in operands(*roots) if node.view and len(set(node.data.output)) < len(node.data.output)]


def nodes(*roots):
    """The nodes that the figures draw: numbers are inside of others there."""
    return [node for node in reachable(*roots) if node.op != "const"]


def test_the_paper_figure_2():
    """``sin(sin(x1 (x2 + x3) + sinh(x2 + x3)))`` by all variables in one graph."""
    graph = Graph()
    x1, x2, x3 = (graph.tensor(f"x{n}", ()) for n in (1, 2, 3))
    shared = graph.add((x2, x3))
    inner = graph.add((graph.mul((x1, shared)), graph.call(sympy.sinh, (shared,))))
    sine = graph.call(sympy.sin, (inner,))
    root = graph.call(sympy.sin, (sine,))
    assert len(reachable(root)) == 9
    by1, by2, by3 = found = derivatives(graph, root, x1, x2, x3)
    assert by2 is by3
    # Two cosines, cosh, their product, that times x1, times x2 + x3, times cosh, and a sum, next to the function.
    assert len(nodes(root, *found)) <= 9 + 8
    assert {len(calls(f, root, *found)) for f in (sympy.sinh, sympy.cosh)} == {1}
    assert len(calls(sympy.cos, *found)) == len(calls(sympy.sin, root)) == 2
    values = {x1: 0.7, x2: -0.4, x3: 1.1}
    s = values[x2] + values[x3]
    u = values[x1] * s + np.sinh(s)
    outer = np.cos(np.sin(u)) * np.cos(u)
    np.testing.assert_allclose(evaluate(root, values), np.sin(np.sin(u)), rtol=1e-14)
    np.testing.assert_allclose(evaluate(by1, values), outer * s, rtol=1e-14)
    np.testing.assert_allclose(evaluate(by2, values), outer * (values[x1] + np.cosh(s)), rtol=1e-14)


def test_figures_4_5_and_4_6():
    """``X * X`` by X: the delta is a view of X, and nothing is multiplied by one."""
    graph = Graph()
    m, n = Affine.of(2), Affine.of(3)
    X = graph.tensor("X", (m, n))
    root = graph.mul((X, X))
    (jacobian,) = derivatives(graph, root, X)
    # X, delta, their product and a sum; with X * X five.
    assert len(nodes(jacobian)) <= 4
    assert len(nodes(root, jacobian)) <= 5
    assert not deltas(jacobian)
    value = np.arange(6.0).reshape(2, 3) + 0.5
    expected = np.einsum("ai,bj,ij->abij", np.eye(2), np.eye(3), 2 * value)
    np.testing.assert_array_equal(evaluate(jacobian, {X: value}), expected)


def test_figures_4_7_to_4_9():
    """``sin(v) + cos(sin(v))`` by v: one sine for the function and its derivative, and the delta comes last."""
    graph = Graph()
    v = graph.tensor("v", (Affine.of(4),))
    sine = graph.call(sympy.sin, (v,))
    root = graph.add((sine, graph.call(sympy.cos, (sine,))))
    (jacobian,) = derivatives(graph, root, v)
    # v, sin, its sine, the negative of that, delta, cos, two products and a sum; here delta and product are one.
    assert len(nodes(jacobian)) <= 8
    assert size(jacobian) <= 8 + 10
    assert calls(sympy.sin, root, jacobian) == [
        sine,
        *(node for node in calls(sympy.sin, jacobian) if node is not sine),
    ]
    assert [node.args[0] for node in calls(sympy.sin, jacobian)].count(v) == 1
    assert not deltas(jacobian)
    value = np.array([0.3, -1.0, 2.0, 0.0])
    expected = np.diag(np.cos(value) * (1 - np.sin(np.sin(value))))
    np.testing.assert_allclose(evaluate(jacobian, {v: value}), expected, rtol=1e-14)


@pytest.mark.parametrize("subscripts", [("ij", "j", ""), ("ij", "j", "i"), ("ii", "i", "")])
def test_figure_4_10(subscripts):
    """An index that no other operand has, or that one has twice: no tensor of ones, no delta in a product."""
    graph = Graph()
    sizes = {"i": Affine.of(3), "j": Affine.of(4)}
    first, second, out = subscripts
    A = graph.tensor("A", tuple(sizes[label] for label in first))
    v = graph.tensor("v", tuple(sizes[label] for label in second))
    root = graph.ein(1, [(A, first), (v, second)], out)
    (jacobian,) = derivatives(graph, root, A)
    # v, ones and their product; with deltas where the root has axes.
    assert len(nodes(jacobian)) <= 3
    assert not deltas(jacobian)
    assert all(node.args for node in reachable(jacobian) if node.op == "ein")
    lengths = {"i": 3, "j": 4}
    value = np.arange(1.0, 1 + lengths[second])
    unit = np.eye(A.shape[0].constant * A.shape[1].constant).reshape(*(lengths[lb] for lb in first), -1)
    expected = np.einsum(f"{first}z,{second}->{out}z", unit, value)
    found = evaluate(jacobian, {v: value})
    np.testing.assert_array_equal(found.reshape(expected.shape), expected)
