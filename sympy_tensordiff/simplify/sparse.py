"""Products with tensors that are mostly zeros, entry by entry: their deltas take the sums away.

``Sum_k A[i, k] E[k]`` with ``E[k] = [k == p]`` is ``A[i, p]``. Such tensors are the cotangents of entries
and the directions of derivatives by entries; banded matrices that a user writes are others.
"""

from __future__ import annotations

from collections.abc import Sequence

from sympy_tensordiff.graph.contractions import is_core
from sympy_tensordiff.graph.einsums import tensor_of
from sympy_tensordiff.graph.nodes import Graph, Node, ranges, reachable
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.simplify.deltas import summation


def without_sparse_operands(graph: Graph, roots: Sequence[Node]) -> list[Node]:
    """``roots`` with each einsum that takes a sparse tensor as what is left of it entry by entry."""
    if not any(root.whole for root in roots):
        return list(roots)
    done: dict[Node, Node] = {}
    for node in reachable(*roots):
        args = [done[arg] for arg in node.args]
        again = graph.with_args(node, args) if any(a is not b for a, b in zip(args, node.args, strict=True)) else node
        sparse = is_core(again) and any(_is_sparse(graph, arg) for arg in again.args)
        done[node] = _by_entries(graph, again) if sparse else again
    return [done[root] for root in roots]


def _is_sparse(graph: Graph, node: Node) -> bool:
    """Whether an equation decides on one of the indices of a tensor given entry by entry."""
    if node.op != "comprehension" or node.args[0].op != "guard":
        return False
    variables, _, body = graph.inside(node, ())
    return any(row.kind == "eq" and not row.form.atoms().isdisjoint(variables) for row in body.data)


def _by_entries(graph: Graph, node: Node) -> Node:
    """An einsum as a comprehension of sums without deltas."""
    _, inputs, output, extents = node.data
    variables = [graph.fresh("ijklmn"[label % 6]) for label in range(len(extents))]
    forms = [Affine.variable(v) for v in variables]
    factors = []
    for arg, labels in zip(node.args, inputs, strict=True):
        index = [forms[label] for label in labels]
        if arg.op == "comprehension" and _is_sparse(graph, arg):
            own, _, body = graph.open(arg)
            factors.append(graph.substitute(body, dict(zip(own, index, strict=True))))
        else:
            factors.append(graph.read(arg, index))
    summed = [label for label in range(len(extents)) if label not in output]
    over = [variables[label] for label in summed]
    entry = summation(graph, over, ranges(over, [extents[label] for label in summed]), graph.mul(factors))
    return tensor_of(graph, [variables[label] for label in output], node.shape, entry)
