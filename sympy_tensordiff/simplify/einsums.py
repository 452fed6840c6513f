"""Results in index notation that are einsums, in derivatives of whole tensors: as products of whole tensors."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sympy_tensordiff.graph.contractions import is_view
from sympy_tensordiff.graph.einsums import scalar_of, tensor_of
from sympy_tensordiff.graph.nodes import Graph, Node, reachable
from sympy_tensordiff.simplify.passes import counted


def as_einsums(graph: Graph, roots: Sequence[Node], written: Collection[Node]) -> list[Node]:
    """``roots`` with the comprehensions and sums that a derivative has made as einsums, where they are some.

    Those that stay have their axes in the order in which they are needed.

    Parameters
    ----------
    graph : Graph
    roots : sequence of Node
    written : collection of Node
        What the user has written, which stays.
    """
    nodes = reachable(*roots)
    if not any(_is_made(node, written) for node in nodes):
        return list(roots)
    uses = counted(nodes, roots)
    changed: dict[Node, Node] = {}
    for node in nodes:
        new = graph.with_args(node, [changed.get(arg, arg) for arg in node.args])
        if _is_made(node, written):
            found = _as_einsum(graph, new)
            new = new if new.op == "comprehension" and _needs_ones(found, written) else found
        elif _is_transposed(new) and uses[node.args[0]] == 1:
            new = _in_order(graph, new)
        if new is not node:
            changed[node] = new
    return [changed.get(root, root) for root in roots]


def _is_made(node: Node, written: Collection[Node]) -> bool:
    """Whether a node is a comprehension or a sum of no user, in which no bound variable is free."""
    return node.op in ("comprehension", "sum") and node not in written and all(variable >= 0 for variable in node.free)


def _as_einsum(graph: Graph, node: Node) -> Node:
    if node.op == "sum":
        return scalar_of(graph, node)
    axes, _, body = graph.open(node)
    return tensor_of(graph, axes, node.shape, body)


def _needs_ones(found: Node, written: Collection[Node]) -> bool:
    """Whether a tensor is repeated along a last axis to be added: ``outer(x, ones(m)) - b`` for ``x[i] - b[j]``."""
    additions = (part for part in reachable(found) if part.op == "add" and part.whole)
    return any(_is_repeated(term) and term not in written for part in additions for term in part.args)


def _is_repeated(term: Node) -> bool:
    if not (is_view(term) and term.args and term.args[0].shape):
        return False
    (labels,), output = term.data.inputs, term.data.output
    return not set(output) <= set(labels) and labels != output[len(output) - len(labels) :]


def _is_transposed(node: Node) -> bool:
    """Whether a node is a multiple of a comprehension with its axes in another order."""
    if not (is_view(node) and node.args and node.args[0].op == "comprehension"):
        return False
    (labels,) = node.data.inputs
    return labels != node.data.output and sorted(labels) == sorted(node.data.output) and len(set(labels)) == len(labels)


def _in_order(graph: Graph, node: Node) -> Node:
    (comprehension,), (labels,), output = node.args, node.data.inputs, node.data.output
    axes, _, body = graph.open(comprehension)
    named = dict(zip(labels, axes, strict=True))
    ordered = graph.comprehension([named[label] for label in output], node.shape, body)
    return graph.ein(node.data.coefficient, [(ordered, output)], output)
