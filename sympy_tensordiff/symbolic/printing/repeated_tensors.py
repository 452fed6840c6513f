"""Broadcast tensors: detection of einsum products with ones that only repeat a tensor along axes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from sympy_tensordiff.symbolic.whole_tensors.einsum import EinsumProduct, FilledTensor
from sympy_tensordiff.symbolic.whole_tensors.elementwise import Entrywise


def rank(expr: Any) -> int:
    """Return the rank of a tensor; 0 for a scalar."""
    return int(getattr(expr, "rank", 0))


def is_ones_tensor(operand: Any) -> bool:
    """Return whether ``operand`` is a tensor of ones of rank > 0."""
    return isinstance(operand, FilledTensor) and bool(operand.value == 1) and bool(operand.shape)


def _without(labels: str, gone: Collection[str]) -> str:
    """Return the string ``labels`` without the characters in ``gone``."""
    return "".join(label for label in labels if label not in gone)


def labels_of_ones(node: Any) -> list[str]:
    """Return the result labels of an einsum along which the result is repeated, because they occur in tensors of ones
    only.

    Empty if there is no other tensor, or if ones are summed over, which multiplies by an extent.
    """
    pairs = [(labels, operand) for labels, operand in zip(node.inputs, node.operands, strict=True) if labels]
    others = {label for labels, operand in pairs if not is_ones_tensor(operand) for label in labels}
    ones = dict.fromkeys(label for labels, operand in pairs if is_ones_tensor(operand) for label in labels)
    alone = [label for label in ones if label not in others]
    if not others or any(label not in node.output and node.label_extents[label] != 1 for label in alone):
        return []
    return [label for label in node.output if label in alone]


def repeated_tensor(node: Any) -> tuple[Any, tuple[int, ...]] | None:
    """Return ``(tensor, axes)`` if the einsum `node` is ``tensor`` repeated along new axes by factors of ones: ``axes``
    are the axes of the result that belong to ``tensor``. Return None for other nodes.
    """
    new = labels_of_ones(node) if isinstance(node, EinsumProduct) else []
    if not new or len(new) == node.rank:
        return None
    axes = tuple(axis for axis, label in enumerate(node.output) if label not in new)
    rest = [pair for pair in zip(node.inputs, node.operands, strict=True) if not is_ones_tensor(pair[1])]
    output = _without(node.output, new)
    if len(rest) == 1:
        labels, tensor = rest[0]
        unit = [axis for axis, label in enumerate(labels) if label not in output]
        if labels == output:
            return tensor, axes
        if _without(labels, [labels[axis] for axis in unit]) == output and all(
            tensor.shape[axis] == 1 for axis in unit
        ):
            squeezed = _squeezed(tensor, unit)
            if squeezed is not None:
                return squeezed, axes
    subscripts = f"{','.join(labels for labels, _ in rest)}->{output}"
    return node.func(subscripts, *(operand for _, operand in rest)), axes


def _squeezed(tensor: Any, axes: Sequence[int]) -> Any | None:
    """Return ``tensor``, an einsum or an elementwise operation on einsums, without its ``axes`` of extent 1 and without
    the factors of ones that alone have these axes. None if another operand has one of the axes, or for other tensors.
    """
    if isinstance(tensor, EinsumProduct):
        gone = {tensor.output[axis] for axis in axes}
        pairs = [(labels, part) for labels, part in zip(tensor.inputs, tensor.operands, strict=True)]
        pairs = [
            (labels, part)
            for labels, part in pairs
            if not (labels and gone.issuperset(labels) and is_ones_tensor(part))
        ]
        if any(label in gone for labels, _ in pairs for label in labels):
            return None
        output = _without(tensor.output, gone)
        if len(pairs) == 1 and pairs[0][0] == output:
            return pairs[0][1]
        return tensor.func(f"{','.join(labels for labels, _ in pairs)}->{output}", *(part for _, part in pairs))
    if not isinstance(tensor, Entrywise):
        return None
    operands = [_squeezed(operand, axes) if rank(operand) else operand for operand in tensor.operands]
    if None in operands:
        return None
    if not any(map(rank, operands)):
        return tensor.applied(*operands)
    return tensor.func(*tensor.args[: len(tensor.args) - len(operands)], *operands)
