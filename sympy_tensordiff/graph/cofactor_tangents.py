"""Cofactors of order 2 contracted with a matrix: the derivative of the cofactors in its direction.

Products with Hessians of determinants and derivatives of adjugates sum an index pair of a tensor of four axes, which is
never built: the sum takes no more than a few products of matrices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sympy_tensordiff.graph.contraction_order import Extents, Labelled
from sympy_tensordiff.graph.contractions import is_view
from sympy_tensordiff.graph.einsums import entry
from sympy_tensordiff.graph.nodes import Graph, Node
from sympy_tensordiff.integer.affine import Affine


class CofactorContraction(NamedTuple):
    """A contraction of second-order cofactors (the second derivative of a determinant) with a matrix, found among the
    operands of an einsum.
    """

    cofactors: Node
    pair: tuple[int, ...]
    """The labels of the index pair, which otherwise only ``factors`` have."""
    rest: tuple[int, ...]
    """The labels of the other pair."""
    factors: list[Labelled]
    """The operands that depend on the pair."""
    others: list[Labelled]


def cofactor_direction(operands: Sequence[Labelled], output: Sequence[int]) -> CofactorContraction | None:
    """Return the first contraction of second-order cofactors (the second derivative of a determinant) with a matrix
    that an einsum with these `operands` and `output` labels contains; None if there is none.
    """
    for position, (node, labels) in enumerate(operands):
        if node.op == "cof" and node.data == 2 and len(labels) == 4:
            others = [*operands[:position], *operands[position + 1 :]]
            for pair, rest in ((labels[:2], labels[2:]), (labels[2:], labels[:2])):
                factors, others_left, labels_met = _partition_by_connection(others, pair)
                if labels_met.isdisjoint(output) and labels_met.isdisjoint(rest):
                    return CofactorContraction(node, pair, rest, factors, others_left)
    return None


def _partition_by_connection(
    operands: Sequence[Labelled], labels: Sequence[int]
) -> tuple[list[Labelled], list[Labelled], set[int]]:
    """Return ``(connected, others, labels)``: the operands that share labels with ``labels``, directly or through
    others; the remaining operands; and all labels of the connected ones.
    """
    labels_met, connected, rest = set(labels), [], list(operands)
    while neighbours := [part for part in rest if not labels_met.isdisjoint(part[1])]:
        connected += neighbours
        rest = [part for part in rest if labels_met.isdisjoint(part[1])]
        labels_met.update(label for _, own in neighbours for label in own)
    return connected, rest, labels_met


def cofactor_tangent(graph: Graph, found: CofactorContraction, factors: Node, extents: Extents) -> Node:
    """Return the derivative of a cofactor matrix in the direction of the matrix ``factors``: the cofactors of order 2,
    ``found.cofactors``, contracted with ``factors`` over two axes. ``extents`` maps labels to extents.
    """
    own = tuple(dict.fromkeys(found.pair))
    coefficient, matrix = graph.split_view(graph.ein(1, [(factors, own)], found.pair, extents))
    if is_view(matrix) and not _is_transpose(matrix):
        # Ones and diagonals would vanish in the product, which would then not be a contraction with a matrix.
        axes = [graph.fresh(name) for name in "kl"]
        body = entry(graph, matrix, [Affine.variable(axis) for axis in axes])
        matrix = graph.comprehension(axes, matrix.shape, body)
    return graph.ein(coefficient, [(found.cofactors, (0, 1, 2, 3)), (matrix, (2, 3))], (0, 1))


def _is_transpose(view: Node) -> bool:
    """Return whether a `view`, an einsum that only rearranges or scales one operand, is the transpose of a matrix."""
    return bool(view.args) and len(view.args[0].shape) == 2 == len(set(view.data.inputs[0]) & set(view.data.output))
