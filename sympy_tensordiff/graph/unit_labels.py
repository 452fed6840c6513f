"""Products with fewer labels: a column of extent 1 is a vector, and a diagonal is a product of its own."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence

from sympy_tensordiff.graph.contractions import is_core
from sympy_tensordiff.graph.nodes import Graph, Node, reachable
from sympy_tensordiff.integer.affine import Affine

MAX_NESTED_DIAGONALS = 4
"""So many products inside one another are reduced to their diagonals."""


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


def with_diagonals_inside(graph: Graph, roots: Sequence[Node], known: Collection[Node] = ()) -> list[Node]:
    """Return ``roots`` with each product of which only the diagonal is used replaced by the formula of the diagonal:
    ``Sum_j A[i, j]*B[j, i]`` for the diagonal of ``A @ B``. Nodes in ``known`` are unchanged.
    """
    for _ in range(MAX_NESTED_DIAGONALS):
        before, roots = roots, _with_diagonals_inside(graph, roots, known)
        if roots == before:
            break
    return list(roots)


def _with_diagonals_inside(graph: Graph, roots: Sequence[Node], known: Collection[Node]) -> Sequence[Node]:
    """Replace each product below ``roots`` of which only the diagonal is used by the formula of its diagonal, in one
    pass. Return the new roots; nodes in ``known`` are unchanged.

    This is one pass: a product whose other entries become unused only by it is left for the next one.
    """
    parts = reachable(*roots, known=known)
    found: dict[Node, set[tuple[int, ...]]] = {root: {()} for root in roots}
    for part in parts:
        inputs = part.data.inputs if part.op == "ein" else [()] * len(part.args)
        for arg, labels in zip(part.args, inputs, strict=True):
            found.setdefault(arg, set()).add(tuple(map(labels.index, labels)))
    diagonals = {
        node: order
        for node, (order, *others) in ((node, tuple(orders)) for node, orders in found.items())
        if not others and len(set(order)) < len(order) and is_core(node) and node not in known
    }
    if not diagonals:
        return roots
    done = {node: node for node in known}
    for part in parts:
        if part.op != "ein" or diagonals.keys().isdisjoint(part.args):
            new = graph.with_args(part, [done[arg] for arg in part.args])
        else:
            operands = [
                (done[arg], tuple(dict.fromkeys(labels)) if arg in diagonals else labels)
                for arg, labels in zip(part.args, part.data.inputs, strict=True)
            ]
            extents: dict[Hashable, Affine] = dict(enumerate(part.data.extents))
            new = graph.ein(part.data.coefficient, operands, part.data.output, extents)
        done[part] = _diagonal(graph, new, diagonals[part]) if part in diagonals else new
    return [done[root] for root in roots]


def _diagonal(graph: Graph, product: Node, order: tuple[int, ...]) -> Node:
    """Return the diagonal of ``product`` that ``order`` describes: axes with equal numbers there have equal indices,
    ``P[i, j, i]`` for ``(0, 1, 0)``. The result has one axis for each different number, in order of first occurrence.
    """
    number, core = graph.split_view(product)
    if not is_core(core) or core.shape != product.shape or len(set(core.data.output)) < len(order):
        places = tuple(dict.fromkeys(order))
        return graph.ein(1, [(product, order)], places)
    axis = dict(zip(core.data.output, order, strict=True))
    label = {own: axis.get(own, len(order) + own) for own in range(len(core.data.extents))}
    operands = [(arg, tuple([label[own] for own in its])) for arg, its in zip(core.args, core.data.inputs, strict=True)]
    extents: dict[Hashable, Affine] = {label[own]: extent for own, extent in enumerate(core.data.extents)}
    return graph.ein(number, operands, tuple(dict.fromkeys(order)), extents)
