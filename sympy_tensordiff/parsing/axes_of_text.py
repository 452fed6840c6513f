"""Which extents a text fixes: that of a repeated number is fixed by its surroundings, or by nothing.

``parse`` finds extents by unification: an axis has the extent of the tensors that it meets. An axis that
is summed over and meets no tensor has an extent of its own when the text is read back: such a sum is refused
where the extent is that of something else.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.parsing.pieces import LETTERS, Level, Piece, at_least, piece

FIXED = 0
Operand = tuple[Piece, str]


def axis_letters(rank: int, taken: str = "") -> str:
    """Letters for some axes, which are not taken yet."""
    free = "".join(letter for letter in LETTERS if letter not in taken)
    if rank > len(free):
        raise UnsupportedError(
            f"to_text: {len(taken) + rank} axes need more than the {len(LETTERS)} letters a-z of the text language; "
            "split the expression into tensors and products of fewer axes"
        )
    return free[:rank]


def product_text(left: Operand, right: Operand, output: str) -> tuple[Any, ...]:
    """The parts of a product of two pieces that is no product entry by entry."""
    letters = f" *({left[1]},{right[1]}->{output}) "
    return at_least(left[0], Level.CHAIN), letters, at_least(right[0], Level.POWER)


def classes_of(operands: Iterable[Operand]) -> dict[str, Hashable]:
    """A representative for each letter; letters that stand for one extent have the same, `FIXED` where it is known."""
    parent: dict[Hashable, Hashable] = {}

    def find(key: Hashable) -> Hashable:
        while parent.get(key, key) != key:
            parent[key] = key = parent.get(parent[key], parent[key])
        return key

    labels: dict[str, None] = {}
    for position, (part, letters) in enumerate(operands):
        labels.update(dict.fromkeys(letters))
        for letter, known in zip(letters, part.classes, strict=True):
            one, other = find(letter), find((position, known) if known else FIXED)
            parent[one if other == FIXED else other] = other if other == FIXED else one
    return {letter: find(letter) for letter in labels}


def with_axes(parts: Piece, operands: Sequence[Operand], output: str) -> Piece:
    """A piece made of operands, with the axes that their letters give it."""
    found = classes_of(operands)
    extents = {letter: extent for part, letters in operands for letter, extent in zip(letters, part.shape, strict=True)}
    numbers: dict[Hashable, int] = {FIXED: FIXED}
    following = count(1)
    classes = tuple(
        numbers[found[letter]] if found[letter] in numbers else numbers.setdefault(found[letter], next(following))
        for letter in output
    )
    hidden = parts.hidden.union(all_hidden([part for part, _ in operands]))
    return replace(parts, shape=tuple(extents[letter] for letter in output), classes=classes, hidden=hidden)


def all_hidden(parts: Iterable[Piece]) -> frozenset[Any]:
    """The hidden extents of several pieces."""
    found: frozenset[Any] = frozenset()
    for part in parts:
        if not found.isdisjoint(part.hidden):
            refuse_summed(min(found & part.hidden, key=str))
        found |= part.hidden
    return found


def refuse_summed(extent: Any) -> None:
    """Raise for an extent that the text would read back as another one."""
    raise UnsupportedError(
        f"to_text: the extent {extent} of a repeated number or delta is summed over, and no tensor has an axis there, "
        "so that the text cannot say it; write the sum as a number, or as a tensor of order 0"
    )


def closed(operands: Sequence[Operand], output: str, sizes: Collection[Any]) -> list[Operand]:
    """The operands of a product, with the extents hidden that are summed over and that no tensor fixes.

    ``sizes`` are the symbols in the shapes of the tensors: no text says that a number is repeated along one.
    """
    operands = list(operands)
    found = classes_of(operands)
    kept = {FIXED, *(found[letter] for letter in output)}
    for position, (part, letters) in enumerate(operands):
        hidden = part.hidden
        for extent, letter in zip(part.shape, letters, strict=True):
            if found[letter] not in kept:
                if extent in hidden or not extent.is_Symbol or extent in sizes:
                    refuse_summed(extent)
                hidden |= {extent}
            kept.add(found[letter])
        operands[position] = replace(part, hidden=hidden), letters
    return operands


def named(tensor: Any) -> Piece:
    """The name of a tensor."""
    axis_letters(tensor.rank)
    name = piece((tensor.name,), Level.ATOM)
    return replace(name, shape=tuple(tensor.shape), classes=(FIXED,) * tensor.rank)
