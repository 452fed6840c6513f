"""Sums over axes of extent 1: a column is a vector."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence

from sympy_tensordiff.graph.nodes import Graph, Node, reachable
from sympy_tensordiff.integer.affine import Affine


def without_unit_labels(graph: Graph, roots: Sequence[Node], known: Collection[Node] = ()) -> list[Node]:
    """Return `roots` with no einsum that sums over an axis of extent 1: ``u @ v.T`` of two columns becomes the outer
    product of two vectors. Nodes in `known` are unchanged.
    """
    done = {node: node for node in known}
    for part in reachable(*roots, known=known):
        args = [done[arg] for arg in part.args]
        done[part] = graph.with_args(part, args)
        if part.op == "ein" and len(args) > 1:
            summed = {
                label
                for labels, arg in zip(part.data.inputs, args, strict=True)
                for label, extent in zip(labels, arg.shape, strict=True)
                if extent == Affine.of(1) and label not in part.data.output
            }
            if summed:
                operands = []
                for labels, arg in zip(part.data.inputs, args, strict=True):
                    rest = tuple(label for label in labels if label not in summed)
                    operands.append((arg if rest == labels else graph.ein(1, [(arg, labels)], rest), rest))
                extents: dict[Hashable, Affine] = dict(enumerate(part.data.extents))
                done[part] = graph.ein(part.data.coefficient, operands, part.data.output, extents)
    return [done[root] for root in roots]
