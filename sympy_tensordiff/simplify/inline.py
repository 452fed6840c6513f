"""Tensors that are read in one place only, written into that place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from sympy_tensordiff.graph.nodes import Graph, Node, reachable


def inline_single_reads(graph: Graph, root: Node, keep: Iterable[Node]) -> Node:
    """``root`` with each comprehension that one entry of it reads, once, replaced by its body.

    Comprehensions in ``keep`` (those the user wrote) stay, and so do those read inside of a sum:
    there each entry would be computed once per iteration.

    Parameters
    ----------
    graph : Graph
    root : Node
    keep : iterable of Node
    """
    kept = set(keep)
    while True:
        nodes = reachable(root)
        uses = Counter(arg for node in nodes for arg in node.args)
        summed = {part for node in nodes if node.op == "sum" for part in reachable(node)}
        for node in nodes:
            if node.op == "read" and uses[node] == 1 and node not in summed:
                tensor = node.args[0]
                if tensor.op == "comprehension" and tensor not in kept and uses[tensor] == 1:
                    root = _replace(graph, root, node)
                    break
        else:
            return root


def _replace(graph: Graph, root: Node, read: Node) -> Node:
    """``root`` with one read written out; the nodes around it are opened and closed again."""
    variables, _, body = graph.open(read.args[0])
    done = {read: graph.substitute(body, dict(zip(variables, read.data, strict=True)))}
    for node in reachable(root):
        if node is read or not any(arg in done for arg in node.args):
            continue
        if node.op not in ("sum", "comprehension"):
            done[node] = graph.rebuild(node, [done.get(arg, arg) for arg in node.args])
            continue
        # The heights below have changed: the bound variables get new names.
        done[node] = graph.rebind(node, done[node.args[0]])
    return done[root]
