"""Entries of whole-tensor nodes in index notation, and index notation as whole tensors: each undoes the other."""

import numpy as np
import pytest
from every import every
from tensor_graphs import evaluate, random_graph

from sympy_tensordiff.graph.einsums import Recognition, entry, written_out
from sympy_tensordiff.graph.nodes import ranges, reachable
from sympy_tensordiff.integer.affine import Affine, Constraint


def as_tensor(graph, axes, shape, value):
    """The whole tensor of an entry, None where it is not an einsum."""
    return Recognition(graph, dict(zip(axes, shape, strict=True))).tensor(value, axes)


@pytest.mark.parametrize("write", [entry, written_out])
@every("seed", range(8))
def test_entries_are_read_back(seed, write):
    graph, values, _, nodes, _ = random_graph(np.random.default_rng(seed), 20)
    tensors = [node for node in reachable(*nodes) if node.shape]
    for node in tensors:
        axes = [graph.fresh("p") for _ in node.shape]
        found = as_tensor(graph, axes, node.shape, write(graph, node, [Affine.variable(v) for v in axes]))
        assert found is not None
        np.testing.assert_allclose(evaluate(found, values), evaluate(node, values), rtol=1e-9)
    assert len(tensors) > 10


def test_what_is_no_einsum_has_no_whole_form():
    graph = random_graph(np.random.default_rng(0), 0)[0]
    three = Affine.of(3)
    x, p, k = graph.tensor("x", (three,)), graph.fresh("p"), graph.fresh("k")
    at_p, at_k = Affine.variable(p), Affine.variable(k)
    below = graph.sum([k], [Constraint("ge", at_k), Constraint("ge", at_p - at_k)], graph.read(x, (at_k,)))
    entries = {
        "shifted": graph.read(x, (at_p + 1,)),
        "an index as a number": graph.mul((graph.index(at_p), graph.read(x, (at_p,)))),
        "another range": below,
        "a part of a range": graph.guard([Constraint("ge", at_p - 1)], graph.read(x, (at_p,))),
    }
    assert not {what for what, value in entries.items() if as_tensor(graph, [p], (three,), value) is not None}
    whole = graph.sum([k], ranges((k,), (three,)), graph.read(x, (at_k,)))
    assert as_tensor(graph, [p], (three,), whole) is not None
