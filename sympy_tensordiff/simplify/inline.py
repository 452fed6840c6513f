"""Tensors that are better written into the places where they are read than tabulated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sympy_tensordiff.graph.nodes import RANGED, Graph, Node, reachable
from sympy_tensordiff.integer.affine import Affine


def inline_single_reads(graph: Graph, roots: Sequence[Node]) -> list[Node]:
    """``roots`` with each comprehension that one entry of them reads, once, replaced by its body.

    Those read inside of a sum or another reduction stay, unless each of its iterations reads another entry: there an
    entry would be computed once per iteration.

    Parameters
    ----------
    graph : Graph
    roots : sequence of Node
    """
    while single := _single_reads(graph, reachable(*roots)):
        roots = _written_out(graph, roots, single)
    return list(roots)


def _single_reads(graph: Graph, nodes: list[Node]) -> set[Node]:
    """The reads to be written out, among the nodes of an expression (arguments first)."""
    uses = Counter(arg for node in nodes for arg in node.args)
    summed: dict[Node, frozenset[int]] = {}
    for node in reversed(nodes):
        around = summed.get(node, frozenset())
        if node.op in RANGED:
            around = around.union(graph.bound(node))
        for arg in node.args if around else ():
            summed[arg] = summed.get(arg, frozenset()) | around
    return {
        node
        for node in nodes
        if node.op == "read"
        and uses[node] == uses[node.args[0]] == 1
        and node.args[0].op == "comprehension"
        and summed.get(node, frozenset())
        <= {v for form in node.data for v, _ in form.terms if form == Affine.variable(v)}
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
