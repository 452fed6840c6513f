"""Pieces of text in the text language: how tightly they bind, how long they are, which extents they leave open.

A piece holds other pieces, and no text is joined before the whole is known: what is shared may stand
at very many places, so that the text of a small expression may be endless.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypeAlias

from sympy import Float, Rational

from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.parsing.language import LONGEST
from sympy_tensordiff.symbolic.subscripts import FROM_I

LETTERS = FROM_I[:26]
"""The letters of products, in the order in which they are used."""
DIGITS = 17
"""The digits behind the point up to which a fraction is written as a decimal number."""
LARGEST = 10**308


class Level(IntEnum):
    """How tightly a piece binds, from the rules of the grammar."""

    SUM = 0
    CHAIN = 1  # of products and quotients entry by entry, which `parse` makes one node
    TERM = 2
    FACTOR = 3
    POWER = 4
    ATOM = 5


@dataclass(frozen=True, eq=False, slots=True)
class Piece:
    """The text of an expression, in parts.

    Attributes
    ----------
    parts : tuple of str or Piece
        The text in order.
    length : int
        The number of its characters.
    level : Level
        How tightly it binds.
    shape : tuple of Expr
        The shape of the expression.
    classes : tuple of int
        For each axis, 0 where a tensor of the expression fixes its extent; axes of the same other number
        have one extent that nothing fixes, as those of a number which is repeated.
    hidden : frozenset of Expr
        The extents that nothing fixes of axes that are summed over.
    """

    parts: tuple[Any, ...]
    length: int
    level: Level
    shape: tuple[Any, ...] = ()
    classes: tuple[int, ...] = ()
    hidden: frozenset[Any] = frozenset()

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)


Part: TypeAlias = str | Piece


def piece(parts: Iterable[Part], level: Level, like: Piece | None = None) -> Piece:
    """A piece of these parts, with the axes of another."""
    parts = tuple(parts)
    length = sum(len(part) if isinstance(part, str) else part.length for part in parts)
    if length > LONGEST:
        raise UnsupportedError(
            f"to_text: the text of the expression is longer than {LONGEST:,} characters, the most that td.parse reads; "
            "what is shared is written at each of its places: give shared parts names of their own, as tensors"
        )
    if like is None:
        return Piece(parts, length, level)
    return Piece(parts, length, level, like.shape, like.classes, like.hidden)


def at_least(part: Piece, level: Level) -> Part:
    """The piece, in parentheses where it binds less tightly."""
    return part if part.level >= level else piece(("(", part, ")"), Level.ATOM, part)


def written(whole: Piece) -> str:
    """The text."""
    texts: list[str] = []
    stack: list[Part] = [whole]
    while stack:
        part = stack.pop()
        if isinstance(part, str):
            texts.append(part)
        else:
            stack.extend(reversed(part.parts))
    return "".join(texts)


def number(value: Any) -> Piece:
    """A rational number, exact, or a floating-point number."""
    if value < 0:
        opposite = number(-value)
        return negated(opposite) if opposite.level == Level.ATOM else piece(("-", opposite), Level.CHAIN)
    if isinstance(value, Float):
        return piece((repr(float(value)).replace("e+", "e"),), Level.ATOM)
    if max(value.p, value.q) > LARGEST:
        raise UnsupportedError(
            f"to_text: a number has more than {len(str(LARGEST)) - 1} digits, which no floating-point number holds: "
            "scale it, or give it as a tensor of order 0"
        )
    places = decimal_places(value)
    if places is None:
        return piece((f"{value.p} / {value.q}",), Level.CHAIN)
    digits = str(value.p * 10**places // value.q).rjust(places + 1, "0")
    whole = len(digits) - places
    return piece((digits[:whole] + "." * bool(places) + digits[whole:],), Level.ATOM)


def decimal_places(value: Rational) -> int | None:
    """The digits behind the point of an exact decimal number; None where there are too many or no end."""
    return next((places for places in range(DIGITS + 1) if 10**places % value.q == 0), None)


def negated(part: Piece) -> Piece:
    """The piece with a minus sign in front."""
    return piece(("-", at_least(part, Level.FACTOR)), Level.FACTOR, part)


def flipped(part: Piece) -> Piece:
    """The piece with a minus sign in front, or without the one that it has."""
    match part.parts:
        case "-", Piece(parts=("(", Piece() as inner, ")")):
            return inner
        case "-", Piece() as inner:
            return inner
    return negated(part)


def called(function: str, argument: Piece) -> Piece:
    """A function of the piece, entry by entry."""
    return piece((f"{function}(", argument, ")"), Level.ATOM, argument)
