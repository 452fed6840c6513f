"""Terms that multiply the same sum: ``x A S + x B S`` is ``(x A + x B) S``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from sympy_tensordiff.graph.contraction_order import Extents, Labelled
from sympy_tensordiff.graph.interning import Node, Number


class MultipliedSum(NamedTuple):
    """An einsum written as a product of two factors: a sum of tensors, ``operand``, and the einsum of all other
    operands, ``others``, with the result labels ``axes``. For ``(A + B) @ C`` they are ``A + B`` and ``C``.

    The labels below the rank of the result are its axes, and those of the sum are equal in all terms that multiply the
    same axes of it.
    """

    coefficient: Number
    operand: Labelled
    others: list[Labelled]
    axes: tuple[int, ...]
    extents: Extents


def multiplied_sums(
    coefficient: Number,
    operands: Sequence[Labelled],
    order: Sequence[int],
    extents: Extents,
    is_shared: Callable[[Node], bool],
) -> Iterator[MultipliedSum]:
    """Yield each way to write ``coefficient`` times the einsum of ``operands`` as a product ``S @ C``: ``S`` is an
    operand with ``is_shared(S)``, a sum that several expressions use, and ``C`` the einsum of the other operands.

    Axis ``n`` of the einsum is axis ``order[n]`` of the result.

    The other operands have all axes that the sum does not have, and none of them is another such sum of matrices.
    """
    rank = len(order)

    def is_matrix_sum(node: Node) -> bool:
        """Return whether ``node`` has at least two axes and is a sum with several uses, as ``is_shared`` decides."""
        return len(node.shape) > 1 and is_shared(node)

    for position, (node, labels) in enumerate(operands):
        if len(set(labels)) < len(labels) or not is_shared(node):
            continue
        others = [*operands[:position], *operands[position + 1 :]]
        used = {label for _, own in others for label in own}
        summed = [label for label in labels if label >= rank]
        free = {*range(rank)} - {*labels}
        has_axes = used.issuperset({*summed, *free}) and used.isdisjoint({*range(rank)} - free)
        if not summed or not has_axes or any(other.op == "inv" or is_matrix_sum(other) for other, _ in others):
            continue
        names = dict(enumerate(order))
        names.update((label, rank + place) for place, label in enumerate(labels) if label >= rank)
        for label in extents:
            names.setdefault(label, rank + len(labels) + label)
        yield MultipliedSum(
            coefficient,
            (node, tuple([names[label] for label in labels])),
            [(other, tuple([names[label] for label in own])) for other, own in others],
            tuple(sorted(names[label] for label in (*free, *summed))),
            {names[label]: extent for label, extent in extents.items()},
        )
