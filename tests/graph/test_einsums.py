"""Conversion of sums in index notation to einsums."""

from __future__ import annotations

import pytest
import sympy

import sympy_tensordiff as td
from sympy_tensordiff.graph.nodes import Graph, reachable
from sympy_tensordiff.graph.read import Reader
from sympy_tensordiff.simplify.einsums import as_einsums

n, m, i, k = td.indices("n m i k")
W, a, b, t = td.TensorSymbol("W", (n, m)), td.TensorSymbol("a", n), td.TensorSymbol("b", n), td.TensorSymbol("t", m)


def selects(*entries):
    """The shapes of the choices between tensors in the einsums of ``Sum_k entry`` over all i, for each of `entries`."""
    graph = Graph()
    reader = Reader(graph)
    sums = [td.TensorComprehension(td.IndexedSum(entry, (k, 0, m - 1)), (i, n)) for entry in entries]
    found = as_einsums(graph, [reader.read(one) for one in sums], written=())
    assert all(not any(part.op in ("sum", "comprehension") for part in reachable(node)) for node in found)
    return [node for node in reachable(*found) if node.op == "select"]


def choice(value, condition):
    return sympy.Piecewise((value, condition), (0, True))


@pytest.mark.parametrize("sides", [1, -1])
def test_factors_without_an_axis_of_the_condition_leave_sums_of_choices(sides):
    condition = t[k] > 0 if sides > 0 else t[k] <= 0
    first, second = (choice(factor * W[i, k] * sympy.exp(t[k]), condition) for factor in (a[i], sympy.sin(b[i]) * a[i]))
    assert len(selects(first, second)) == 1


def test_factors_that_a_condition_may_protect_stay_inside():
    protected = choice(a[i] / td.IndexedSum(t[k] ** 2, (k, 0, m - 1)) * W[i, k] * sympy.log(t[k]), t[k] > 0)
    (node,) = selects(protected)
    calls = {part.data for part in reachable(node.args[1]) if part.op == "call"}
    powers = [part for part in reachable(node.args[1]) if part.op == "pow"]
    assert sympy.log in calls and powers and len(node.shape) == 2
