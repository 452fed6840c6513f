"""Tensors that are better written into the places where they are read than tabulated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sympy_tensordiff.graph.nodes import RANGED, Graph, Node, reachable


def inline_single_reads(graph: Graph, roots: Sequence[Node]) -> list[Node]:
    """``roots`` with each comprehension that one entry of them reads, once, replaced by its body.

    Those read inside of a sum or another reduction stay: there each entry would be computed once per iteration.

    Parameters
    ----------
    graph : Graph
    roots : sequence of Node
    """
    while single := _single_reads(reachable(*roots)):
        roots = _written_out(graph, roots, single)
    return list(roots)


def _single_reads(nodes: list[Node]) -> set[Node]:
    """The reads to be written out, among the nodes of an expression (arguments first)."""
    uses = Counter(arg for node in nodes for arg in node.args)
    repeated: set[Node] = set()
    for node in reversed(nodes):
        if node.op in RANGED or node in repeated:
            repeated.update(node.args)
    return {
        node
        for node in nodes
        if node.op == "read"
        and uses[node] == uses[node.args[0]] == 1
        and node.args[0].op == "comprehension"
        and node not in repeated
    }


def _written_out(graph: Graph, roots: Sequence[Node], reads: set[Node]) -> list[Node]:
    """``roots`` with reads written out; the nodes around them are opened and closed again."""
    done: dict[Node, Node] = {}
    for node in reachable(*roots):
        args = [done.get(arg, arg) for arg in node.args]
        if node in reads:
            variables, _, body = graph.open(args[0])
            done[node] = graph.substitute(body, dict(zip(variables, node.data, strict=True)))
        elif tuple(args) != node.args:
            done[node] = graph.with_args(node, args)
    return [done.get(root, root) for root in roots]
