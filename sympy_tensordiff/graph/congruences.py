"""Congruences: einsums ``P.T @ M @ P`` with a product ``P`` that occurs twice, under other labels, and their traces.

Second derivatives are sums of them, one for each layer of a network. An order that multiplies the operands of ``P``
first computes it once; no search over orders sees that, since it counts each product.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sympy_tensordiff.graph.contraction_order import Labelled


class CongruentFactors(NamedTuple):
    """Two disjoint sets of operands of an einsum whose products are equal but for the names of labels: the two ``P`` in
    ``P.T @ M @ P``.

    Both products have axes of the result, and no other operand has any; or they have a summed label in common, as in a
    trace.
    """

    first: list[Labelled]
    second: list[Labelled]
    others: list[Labelled]
    axes: tuple[tuple[int, ...], tuple[int, ...]]
    """The labels of both products that are used outside of them, in the same order."""


def congruence(operands: Sequence[Labelled], output: Sequence[int]) -> CongruentFactors | None:
    """Return the largest product ``P`` that occurs twice in the einsum of `operands`, as in ``P.T @ M @ P``, so that
    computing it once saves work; None if there is none. ``output`` has the labels of the result.
    """
    best: tuple[list[tuple[int, int]], dict[int, int]] | None = None
    for i, (node, labels) in enumerate(operands):
        for j in range(i + 1, len(operands)):
            other, own = operands[j]
            is_end = not set(output).isdisjoint(labels) and not set(output).isdisjoint(own)
            is_trace = any(one == two for one, two in zip(labels, own, strict=False))
            if other is node and (is_end or is_trace) and len(labels) > 1 and labels != own:
                pairs, renaming = _grow_equal_products(operands, i, j)
                if pairs and (best is None or len(pairs) > len(best[0])):
                    best = pairs, renaming
    if best is None:
        return None
    pairs, renaming = best
    sides = [{pair[side] for pair in pairs} for side in (0, 1)]
    used = [_labels_outside(operands, side, output) for side in sides]
    axes = tuple(label for label in sorted(renaming) if label in used[0] or renaming[label] in used[1])
    renamed = tuple(renaming[label] for label in axes)
    if any(label == other and label in output for label, other in zip(axes, renamed, strict=True)):
        return None  # entries of one product, squared: the order of least work finds them
    others = [operand for n, operand in enumerate(operands) if n not in sides[0] | sides[1]]
    inner = {*axes, *renamed} - set(output)
    if any(not inner.issuperset(labels) for _, labels in others):
        return None
    first, second = ([operands[n] for n in sorted(side)] for side in sides)
    return CongruentFactors(first, second, others, (axes, renamed))


def _grow_equal_products(operands: Sequence[Labelled], i: int, j: int) -> tuple[list[tuple[int, int]], dict[int, int]]:
    """Find two sets of `operands` with equal products: start from the operands `i` and `j`, and add equal operands
    along shared labels. Return ``(pairs, labels)``: pairs of positions of equal operands, and a dictionary from labels
    of the first set to those of the second.

    Both are empty if the labels of `i` and `j` do not correspond.
    """
    renaming: dict[int, int] = {}
    pairs = [(i, j)] if _extend_renaming(renaming, operands[i][1], operands[j][1]) else []
    used = {i, j}
    is_new = bool(pairs)
    while is_new:
        is_new = False
        for n, (node, labels) in enumerate(operands):
            if n in used or renaming.keys().isdisjoint(labels):
                continue
            for m, (other, own) in enumerate(operands):
                if m != n and m not in used and other is node and _extend_renaming(renaming, labels, own):
                    pairs.append((n, m))
                    used |= {n, m}
                    is_new = True
                    break
    return pairs, renaming


def _extend_renaming(renaming: dict[int, int], labels: Sequence[int], others: Sequence[int]) -> bool:
    """Extend ``renaming`` in place to map ``labels`` to ``others``, and return True. If it would not be one-to-one,
    return False and change nothing.
    """
    extended = dict(renaming)
    for label, other in zip(labels, others, strict=True):
        if extended.setdefault(label, other) != other:
            return False
    if len(set(extended.values())) < len(extended):
        return False
    renaming.update(extended)
    return True


def _labels_outside(operands: Sequence[Labelled], inside: set[int], output: Sequence[int]) -> set[int]:
    """Return the labels that occur in ``output`` or in an operand whose position is not in ``inside``."""
    return set(output).union(*(labels for n, (_, labels) in enumerate(operands) if n not in inside))
