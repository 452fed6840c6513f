"""Which extents a text fixes: that of a repeated number is fixed by its surroundings, or by nothing.

``parse`` finds extents by unification: an axis has the extent of the tensors that it meets. An axis that
is summed over and meets no tensor would have an extent of its own, whatever it was before. There a
zero tensor of the right shape is added, made from a tensor that has the extent.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from sympy import Integer

from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.parsing.pieces import LETTERS, Level, Piece, at_least, number, piece
from sympy_tensordiff.symbolic.tabulate import same_extent

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
            refuse_shared(min(found & part.hidden, key=str))
        found |= part.hidden
    return found


def refuse_shared(extent: Any) -> None:
    """Raise for an extent that the text would name several times, each time as another one."""
    raise UnsupportedError(
        f"to_text: the extent {extent} of a repeated number or delta is summed over, and no tensor of the expression "
        "has an axis of it, so that the text cannot say it; use a tensor with this extent in the expression"
    )


class Ties:
    """Makes axes known by tensors that have their extents."""

    def __init__(self, tensors: Iterable[Any]) -> None:
        self.tensors = sorted((tensor for tensor in tensors if tensor.rank), key=lambda tensor: tensor.rank)
        self.symbols = {symbol for tensor in self.tensors for extent in tensor.shape for symbol in extent.free_symbols}

    def closed(self, operands: Sequence[Operand], output: str) -> list[Operand]:
        """The operands of a product such that each extent that is summed over is known, or hidden for good."""
        operands = list(operands)
        found = classes_of(operands)
        kept = {FIXED, *(found[letter] for letter in output)}
        for position, (part, letters) in enumerate(operands):
            axes = [axis for axis, letter in enumerate(letters) if found[letter] not in kept]
            known = [axis for axis in axes if self.owner(part.shape[axis]) is not None]
            tied = self.tied(part, known) if known else part
            for axis in axes:
                root = found[letters[axis]]
                if axis not in known and root not in kept:
                    tied = replace(tied, hidden=tied.hidden | {self.unknown(part.shape[axis], tied.hidden)})
                kept.add(root)
            operands[position] = tied, letters
        return operands

    def unknown(self, extent: Any, hidden: frozenset[Any]) -> Any:
        """An extent that is summed over and that nothing else names: the text may name it as it likes."""
        if extent in hidden or not extent.is_Symbol or extent in self.symbols:
            refuse_shared(extent)
        return extent

    def owner(self, extent: Any) -> tuple[Any, int] | None:
        """A tensor and its axis of an extent; None where there is none."""
        for tensor in self.tensors:
            for axis, other in enumerate(tensor.shape):
                if same_extent(extent, other):
                    return tensor, axis
        return None

    def tied(self, part: Piece, axes: Sequence[int]) -> Piece:
        """The piece plus zeros that fix the extents of some axes."""
        letters = axis_letters(part.rank)
        zeros = self.zeros(part.shape, axes, letters)
        whole = piece((part, " + ", zeros), Level.SUM, part)
        return with_axes(whole, [(part, letters), (zeros, letters)], letters)

    def zeros(self, shape: Sequence[Any], axes: Sequence[int], letters: str) -> Piece:
        """A tensor of zeros whose extents are known at some axes."""
        text, done = self.any_of(shape, axes, letters)
        zeros = piece((at_least(text, Level.TERM), f" *({done},->{done}) 0"), Level.CHAIN)
        classes = tuple(FIXED if axis in axes else axis + 1 for axis in range(len(shape)))
        return replace(zeros, shape=tuple(shape), classes=classes)

    def any_of(self, shape: Sequence[Any], axes: Sequence[int], letters: str) -> Operand:
        """Some tensor of a shape, whose extents are known at some axes, and its letters."""
        same = (tensor for tensor in self.tensors if tensor.rank == len(shape) == len(axes))
        whole = next((tensor for tensor in same if all(map(same_extent, tensor.shape, shape))), None)
        if whole is not None:
            return named(whole), letters
        (left, done), *rest = (
            (self.vector(shape[axis]) if axis in axes else number(Integer(1)), letters[axis])
            for axis in sorted(range(len(shape)), key=lambda axis: axis not in axes)
        )
        for right, letter in rest:
            together = "".join(sorted(done + letter, key=letters.index))
            left, done = piece(product_text((left, done), (right, letter), together), Level.TERM), together
        return left, done

    def vector(self, extent: Any) -> Piece:
        """Some vector of a known extent."""
        owner = self.owner(extent)
        assert owner is not None, extent
        tensor, axis = owner
        letters = axis_letters(tensor.rank)
        if tensor.rank == 1:
            return named(tensor)
        return piece((f"({letters}->{letters[axis]}) ", named(tensor)), Level.FACTOR)


def named(tensor: Any) -> Piece:
    """The name of a tensor."""
    axis_letters(tensor.rank)
    name = piece((tensor.name,), Level.ATOM)
    return replace(name, shape=tuple(tensor.shape), classes=(FIXED,) * tensor.rank)
