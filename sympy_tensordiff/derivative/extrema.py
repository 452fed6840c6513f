"""Derivatives of the greatest and the least value of a range: tied values share them equally.

With ``M = max_k b(k)``, the derivative by ``b(k)`` is ``[b(k) == M] / Sum_k [b(k) == M]``. Conditions on values have
no derivative, so the weights are constants for the next order, and nothing new has to be differentiated.
"""

from __future__ import annotations

from sympy_tensordiff.graph.nodes import Graph, Node

EXTREMA = frozenset({"max", "min"})


def share(graph: Graph, node: Node, body: Node, cotangent: Node) -> Node:
    """What one value of the range, ``body``, gets of the cotangent of a greatest or least value."""
    if cotangent is graph.zero:
        return cotangent
    variables, rows, other = graph.open(node)
    count = graph.sum(variables, rows, graph.select(graph.compare("eq", other, node), graph.one, graph.zero))
    part = graph.mul((cotangent, graph.pow(count, graph.const(-1))))
    return graph.select(graph.compare("eq", body, node), part, graph.zero)
