"""Tensors that are better written into the places where they are read than tabulated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from sympy_tensordiff.graph.nodes import Graph, Node, reachable

SPARSE_SIZE = 200
"""Entries that are written in place at every read are at most this large, so that chains stay linear."""


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


def is_sparse(entry: Node, axes: Sequence[int]) -> bool:
    """Whether the entry is zero but at a few places, and small: then a table of it would be mostly zeros.

    Written in place, its deltas become rows of the sums that read it.
    """
    terms = entry.args if entry.op == "add" else (entry,)
    for term in terms:
        if term.op != "guard":
            return False
        solved = frozenset().union(*(row.form.atoms() for row in term.data if row.kind == "eq"))
        if not solved.issuperset(axes):
            return False
    sizes: dict[Node, int] = {}
    for node in reachable(entry):
        # Another table is there anyway; a sum is worth one.
        size = SPARSE_SIZE if node.op == "sum" else sum(sizes[arg] for arg in node.args)
        sizes[node] = 1 if node.op == "comprehension" else 1 + size
    return sizes[entry] <= SPARSE_SIZE
