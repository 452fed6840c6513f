"""One walk over a graph, arguments first, that rewrites every node; and what the result weighs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeAlias

from sympy_tensordiff.graph.contractions import is_view
from sympy_tensordiff.graph.nodes import Graph, Node

Uses: TypeAlias = Counter[Node]


def rewritten(
    graph: Graph, roots: Sequence[Node], nodes: Sequence[Node], rewriting: Callable[[Node], Node], uses: Uses
) -> list[Node]:
    """``roots`` with each node of whole tensors, over its rewritten arguments, replaced by what is made of it.

    What stands between the binders of index notation is left alone: nodes in which a bound variable is free.

    Parameters
    ----------
    graph : Graph
    roots : sequence of Node
    nodes : sequence of Node
        All that are reachable, arguments first.
    rewriting : callable
        What is made of a node.
    uses : mapping
        How often nodes are used; a new node takes over what it replaces.
    """
    changed: dict[Node, Node] = {}
    for node in nodes:
        new = node
        if changed and not changed.keys().isdisjoint(node.args):
            new = graph.with_args(node, [changed.get(arg, arg) for arg in node.args])
        if new.whole and (not new.free or all(variable >= 0 for variable in new.free)):
            new = rewriting(new)
        if new is not node:
            uses[new] = uses.get(new, 0) + uses.get(node, 0)
            changed[node] = new
    return [changed.get(root, root) for root in roots]


def counted(nodes: Sequence[Node], roots: Sequence[Node]) -> Uses:
    """How often each node is used. What uses a view uses what the view shows."""
    uses: Uses = Counter(map(behind, roots))
    for node in nodes:
        if not node.view:
            for arg in node.args:
                shown = arg.args[0] if arg.view and arg.args else arg
                uses[shown] = uses.get(shown, 0) + 1
    return uses


def behind(node: Node) -> Node:
    """The operand of a view; another node itself."""
    return node.args[0] if node.args and is_view(node) else node


def size(nodes: Sequence[Node]) -> int:
    """Nodes and edges, where a product of K operands counts as K - 1 products of two."""
    return sum(map(weight, nodes))


def weight(node: Node) -> int:
    """One node and the edges to its arguments; see `size`. Numbers weigh nothing: ``x**2`` is as heavy as ``x x``."""
    if node.op == "const":
        return 0
    count = sum(arg.op != "const" for arg in node.args) if node.op == "mul" else len(node.args)
    return 3 * (count - 1) if count > 1 and node.op in ("ein", "mul") else 1 + count
