"""Cofactors of order 2 contracted with a matrix: the derivative of the cofactors in its direction.

Products with Hessians of determinants and derivatives of adjugates sum an index pair of a tensor of
four axes, which is never built: the sum takes no more than a few products of matrices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sympy_tensordiff.codegen.absorb import Extents, Labelled
from sympy_tensordiff.graph.contractions import is_view
from sympy_tensordiff.graph.entries import entry
from sympy_tensordiff.graph.nodes import Graph, Node
from sympy_tensordiff.integer.affine import Affine


class Direction(NamedTuple):
    """An operand of an einsum, and what it is contracted with along one of its index pairs."""

    cofactors: Node
    pair: tuple[int, ...]
    """The labels of the pair, that nothing else has but ``factors``."""
    rest: tuple[int, ...]
    """Those of the other pair."""
    factors: list[Labelled]
    """The operands that depend on the pair."""
    others: list[Labelled]


def cofactor_direction(operands: Sequence[Labelled], output: Sequence[int]) -> Direction | None:
    """The first cofactors of order 2 that are contracted with a matrix, whatever the einsum does besides."""
    for place, (node, labels) in enumerate(operands):
        if node.op == "cof" and node.data == 2:
            others = [*operands[:place], *operands[place + 1 :]]
            for pair, rest in ((labels[:2], labels[2:]), (labels[2:], labels[:2])):
                factors, apart, known = _connected(others, pair)
                if known.isdisjoint(output) and known.isdisjoint(rest):
                    return Direction(node, pair, rest, factors, apart)
    return None


def _connected(operands: Sequence[Labelled], labels: Sequence[int]) -> tuple[list[Labelled], list[Labelled], set[int]]:
    """The operands that labels lead to, the others, and all labels on the way."""
    known, found, rest = set(labels), [], list(operands)
    while near := [part for part in rest if not known.isdisjoint(part[1])]:
        found += near
        rest = [part for part in rest if known.isdisjoint(part[1])]
        known.update(label for _, own in near for label in own)
    return found, rest, known


def cofactor_tangent(graph: Graph, found: Direction, factors: Node, extents: Extents) -> Node:
    """The contraction over the pair, of ``factors`` over the labels of it; under the labels of the rest."""
    own = tuple(dict.fromkeys(found.pair))
    coefficient, matrix = graph.split_view(graph.ein(1, [(factors, own)], found.pair, extents))
    if is_view(matrix) and not _is_transpose(matrix):
        # Ones and diagonals would vanish in the product, which would then be no contraction with a matrix.
        axes = [graph.fresh(name) for name in "kl"]
        body = entry(graph, matrix, [Affine.variable(axis) for axis in axes])
        matrix = graph.comprehension(axes, matrix.shape, body)
    return graph.ein(coefficient, [(found.cofactors, (0, 1, 2, 3)), (matrix, (2, 3))], (0, 1))


def _is_transpose(view: Node) -> bool:
    return bool(view.args) and len(view.args[0].shape) == 2 == len(set(view.data.inputs[0]) & set(view.data.output))
