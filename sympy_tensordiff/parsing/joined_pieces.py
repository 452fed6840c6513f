"""Pieces joined by the operators of the language."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from sympy_tensordiff.parsing.axes_of_text import axis_letters, closed, product_text, with_axes
from sympy_tensordiff.parsing.pieces import Level, Part, Piece, at_least, called, negated, piece


def total(terms: Sequence[tuple[bool, Piece]]) -> Piece:
    """The sum of terms, each with whether it is subtracted."""
    parts: list[Part] = []
    for minus, term in terms:
        if parts:
            parts += [" - " if minus else " + ", at_least(term, Level.CHAIN)]
        else:
            parts.append(negated(term) if minus else at_least(term, Level.CHAIN))
    return _like(piece(parts, Level.SUM), [term for _, term in terms])


def quotient(above: Sequence[Piece], below: Sequence[Piece]) -> Piece:
    """The product entry by entry of some pieces, divided by others."""
    if len(above) == 1 and not below:
        return above[0]
    letters = axis_letters(max(part.rank for part in (*above, *below)))
    # Chains are read as one node, and this is one of its own.
    parts: list[Part] = [at_least(above[0], Level.TERM)]
    left = letters if above[0].rank else ""
    for part in above[1:]:
        right = letters if part.rank else ""
        parts += [f" *({left},{right}->{left or right}) ", at_least(part, Level.POWER)]
        left = left or right
    for part in below:
        parts += [" / ", at_least(part, Level.POWER)]
    return _like(piece(parts, Level.CHAIN), [*above, *below])


def raised(base: Piece, exponent: Piece) -> Piece:
    """A power entry by entry; the exponent is a scalar."""
    text = piece((at_least(base, Level.POWER), " ^ ", at_least(exponent, Level.ATOM)), Level.POWER)
    return _like(text, [base, exponent])


def _like(text: Piece, parts: Sequence[Piece]) -> Piece:
    """A text with the axes of what is in it, which is of one shape, or without axes."""
    letters = axis_letters(max(part.rank for part in parts))
    return with_axes(text, [(part, letters if part.rank else "") for part in parts], letters)


def repeated(value: Piece, shape: Sequence[Any]) -> Piece:
    """A scalar that is repeated along axes, which nothing fixes."""
    if not shape:
        return value
    letters = axis_letters(len(shape))
    # With the letters at both sides it is read as one repeated number, with them at one side as a product by 1.
    text = piece((at_least(value, Level.CHAIN), f" *({letters},{letters}->{letters}) 1"), Level.TERM)
    return replace(text, shape=tuple(shape), classes=tuple(range(1, len(shape) + 1)), hidden=value.hidden)


def relabelled(operand: Piece, letters: str, output: str, sizes: Collection[Any]) -> Piece:
    """The product of one operand."""
    operands = closed([(operand, letters)], output, sizes)
    text = piece((f"({letters}->{output}) ", at_least(operands[0][0], Level.FACTOR)), Level.FACTOR)
    return with_axes(text, operands, output)


Factor = tuple[Piece, str, Piece | None]
"""An operand of a product, its letters, and the value of one that is a repeated scalar."""


def contracted(operands: Sequence[Factor], output: str, sizes: Collection[Any]) -> Piece:
    """The product of operands, by two of them at a time: next the one that leaves the fewest axes."""
    left, *rest = operands
    if not rest:
        return relabelled(left[0], left[1], output, sizes)
    while rest:
        kept = [_kept(left[1] + other[1], rest[:place] + rest[place + 1 :], output) for place, other in enumerate(rest)]
        place = min(range(len(rest)), key=lambda place: len(kept[place]))
        right = rest.pop(place)
        letters = kept[place] if rest else output
        left = _product(left, right, letters, sizes), letters, None
    return left[0]


def _kept(letters: str, others: Sequence[Factor], output: str) -> str:
    """The letters that are needed after a product."""
    needed = set(output).union(*(own for _, own, _ in others))
    return "".join(dict.fromkeys(letter for letter in letters if letter in needed))


def _product(left: Factor, right: Factor, output: str, sizes: Collection[Any]) -> Piece:
    """The product of two operands.

    A repeated scalar is not repeated in the text where the other operand has none of its letters.
    """
    factors = left, right
    operands = closed([(part, letters) for part, letters, _ in factors], output, sizes)
    shown = [part for part, _ in operands]
    for position in (1, 0):
        _, own, value = factors[position]
        is_alone = len(set(own)) == len(own) and set(own).isdisjoint(factors[1 - position][1])
        if value is not None and is_alone:
            shown[position] = value
            break
    text = piece(product_text((shown[0], left[1]), (shown[1], right[1]), output), Level.TERM)
    return with_axes(text, operands, output)


def of_matrix(function: str, matrix: Piece, sizes: Collection[Any]) -> Piece:
    """The determinant, which has no axes, or the inverse or the adjugate; the matrix is square."""
    kept = "" if function == "det" else "ij"
    operands = closed([(matrix, "ii")], "i" * bool(kept), sizes)
    square = with_axes(called(function, matrix), operands, "i" * bool(kept))
    return replace(square, shape=2 * square.shape, classes=2 * square.classes)
