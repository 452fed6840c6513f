"""Results as kernels fill them: one sign for equal differences, and terms of a diagonal for themselves.

Derivatives are written for readers, with common factors outside of an addition and with signs that read well. In a
kernel ``c*(delta*S + A)`` would ask the condition for each entry; ``c*delta*S + c*A`` adds to a diagonal. Residuals
that differ in their signs are one array.
"""

from __future__ import annotations

from collections.abc import Sequence

from sympy_tensordiff.graph.nodes import Graph, Node, reachable
from sympy_tensordiff.simplify.products_of_sums import MOST_TERMS
from sympy_tensordiff.simplify.signs import with_signs


def in_terms(graph: Graph, nodes: Sequence[Node]) -> list[Node]:
    """The ``nodes`` with one sign for differences, and sums with terms of a diagonal multiplied out.

    Parameters
    ----------
    graph : Graph
    nodes : sequence of Node
    """
    nodes = with_signs(graph, nodes, numbers=False)
    return [node if node.whole else _entries_in_terms(graph, node) for node in nodes]


def _entries_in_terms(graph: Graph, node: Node) -> Node:
    if node.op != "comprehension":
        return _in_terms(graph, node)
    variables, _, body = graph.inside(node, ())
    new = _in_terms(graph, body)
    return node if new is body else graph.comprehension(variables, node.data, new)


def _in_terms(graph: Graph, root: Node) -> Node:
    """An entry with the additions in it that have terms of a diagonal multiplied out."""
    outer = {root}
    nodes = reachable(root)
    for node in reversed(nodes):
        if node in outer and node.op in ("add", "mul", "guard"):
            outer.update(node.args)
    done: dict[Node, Node] = {}
    for node in nodes:
        if node in outer:
            new = graph.with_args(node, [done.get(arg, arg) for arg in node.args])
            done[node] = _multiplied_out(graph, new) if new.op == "mul" else new
    return done[root]


def _multiplied_out(graph: Graph, product: Node) -> Node:
    factors = graph.factors(product)
    additions = [factor for factor in factors if factor.op == "add" and any(map(_is_diagonal, factor.args))]
    if len(additions) != 1 or len(additions[0].args) > MOST_TERMS:
        return product
    others = [factor for factor in factors if factor is not additions[0]]
    return graph.add([graph.mul([*others, term]) for term in additions[0].args])


def _is_diagonal(term: Node) -> bool:
    """Whether an equation chooses a term, which is 0 in most entries. Other conditions leave most entries."""
    factors = term.args if term.op == "mul" else (term,)
    return any(factor.op == "guard" and any(row.kind == "eq" for row in factor.data) for factor in factors)
