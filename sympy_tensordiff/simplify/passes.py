"""One walk over a graph, arguments first, that rewrites every node; and what the result weighs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeAlias

from sympy_tensordiff.graph.contractions import is_view
from sympy_tensordiff.graph.nodes import Graph, Node, reachable

Uses: TypeAlias = Counter[Node]
Rewriting = Callable[[Graph, Node, Uses], Node]


def rewritten(graph: Graph, roots: Sequence[Node], rewriting: Rewriting, uses: Uses | None = None) -> list[Node]:
    """``roots`` with each node of whole tensors, over its rewritten arguments, replaced by what is made of it.

    What stands between the binders of index notation is left alone: nodes in which a bound variable is free.
    ``uses`` says how often nodes are used, if not `counted`.
    """
    nodes = reachable(*roots)
    uses = counted(nodes, roots) if uses is None else uses
    done: dict[Node, Node] = {}
    for node in nodes:
        new = graph.with_args(node, [done[arg] for arg in node.args]) if node.args else node
        if new.whole and all(variable >= 0 for variable in new.free):
            new = rewriting(graph, new, uses)
        if new is not node:
            uses[new] += uses[node]
        done[node] = new
    return [done[root] for root in roots]


def counted(nodes: Sequence[Node], roots: Sequence[Node]) -> Uses:
    """How often each node is used. What uses a view uses what the view shows."""
    uses: Uses = Counter(map(behind, roots))
    for node in nodes:
        if not is_view(node):
            uses.update(map(behind, node.args))
    return uses


def behind(node: Node) -> Node:
    """The operand of a view; another node itself."""
    return node.args[0] if node.args and is_view(node) else node


def size(roots: Sequence[Node]) -> int:
    """Nodes and edges, where a product of K operands counts as K - 1 products of two."""
    return sum(map(weight, reachable(*roots)))


def weight(node: Node) -> int:
    """One node and the edges to its arguments; see `size`."""
    count = len(node.args)
    return 3 * (count - 1) if count > 1 and node.op in ("ein", "mul") else 1 + count
