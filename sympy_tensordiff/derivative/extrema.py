"""Derivatives of the greatest and the least value of a range: tied values share them equally.

With ``M = max_k b(k)``, the derivative by ``b(k)`` is ``[b(k) == M] / Sum_k [b(k) == M]``. Conditions on values have
no derivative, so the weights are constants for the next order, and nothing new has to be differentiated.
"""

from __future__ import annotations

from sympy_tensordiff.graph.nodes import Graph, Node
from sympy_tensordiff.simplify.cases import cases_of

EXTREMA = frozenset({"max", "min"})


def share(graph: Graph, node: Node, body: Node, cotangent: Node) -> Node:
    """What one value of the range, ``body``, gets of the cotangent of a greatest or least value."""
    if cotangent is graph.zero:
        return cotangent
    variables, rows, other = graph.open(node)
    count = graph.sum(variables, rows, _where_equal(graph, other, node, graph.one))
    return _where_equal(graph, body, node, graph.mul((cotangent, graph.pow(count, graph.const(-1)))))


def _where_equal(graph: Graph, value: Node, node: Node, result: Node) -> Node:
    """``result`` where a value is that of a node, 0 elsewhere; values that indices choose are compared one by one.

    Where the indices are known, so is which of them it is: a kernel compares what stands in an array of such values.
    """
    terms = []
    for rows, case in cases_of(graph, value):
        equal = graph.compare("eq", case, node)
        terms.append(graph.guard(rows, graph.select(equal, result, graph.zero)))
    return graph.add(terms)
