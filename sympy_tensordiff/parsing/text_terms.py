"""Pieces of text in the text language: how tightly they bind, how long they are, and what operators join.

A piece holds other pieces, and no text is joined before the whole is known: what is shared may stand
at very many places, so that the text of a small expression may be endless. Terms and functions are taken apart here,
and composed of those that the language has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import Any, TypeAlias

import sympy
from sympy import Float, Function, KroneckerDelta, Max, Mul, Piecewise, Pow, Rational, S

from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.parsing.axes import MAX_INPUT
from sympy_tensordiff.parsing.numbers import FUNCTIONS
from sympy_tensordiff.symbolic.depth import applied, measures
from sympy_tensordiff.symbolic.einsum import EinsumProduct
from sympy_tensordiff.symbolic.elementwise import TensorMul, TensorPow
from sympy_tensordiff.symbolic.entries import TensorEntry
from sympy_tensordiff.symbolic.matrix_functions import TensorInverse
from sympy_tensordiff.symbolic.scalar_functions import sigmoid, softplus
from sympy_tensordiff.symbolic.subscripts import FROM_I, Subscripts, parse_subscripts
from sympy_tensordiff.symbolic.tensors import TensorComprehension
from sympy_tensordiff.symbolic.traversal import nodes_in

LETTERS = FROM_I[:26]
"""The letters of products, in the order in which they are used."""
MAX_DECIMAL_DIGITS = 17
"""The digits behind the point up to which a fraction is written as a decimal number."""
MAX_NUMBER = 10**308


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
    rank : int
        The number of axes.
    """

    parts: tuple[Any, ...]
    length: int
    level: Level
    rank: int = 0


Fragment: TypeAlias = str | Piece


def make_piece(parts: Iterable[Fragment], level: Level, rank: int = 0) -> Piece:
    """A piece of these parts."""
    parts = tuple(parts)
    length = sum(len(part) if isinstance(part, str) else part.length for part in parts)
    if length > MAX_INPUT:
        raise UnsupportedError(
            f"to_text: the text of the expression is longer than {MAX_INPUT:,} characters, the most that td.parse "
            "reads; what is shared is written at each of its places: give shared parts names of their own, as tensors"
        )
    return Piece(parts, length, level, rank)


def parenthesized(part: Piece, level: Level) -> Fragment:
    """The piece, in parentheses where it binds less tightly."""
    return part if part.level >= level else make_piece(("(", part, ")"), Level.ATOM, part.rank)


def joined_text(whole: Piece) -> str:
    """The text."""
    texts: list[str] = []
    stack: list[Fragment] = [whole]
    while stack:
        part = stack.pop()
        if isinstance(part, str):
            texts.append(part)
        else:
            stack.extend(reversed(part.parts))
    return "".join(texts)


def number_piece(value: Any) -> Piece:
    """A rational number, exact, or a floating-point number."""
    if value < 0:
        opposite = number_piece(-value)
        return negated_piece(opposite) if opposite.level == Level.ATOM else make_piece(("-", opposite), Level.CHAIN)
    if isinstance(value, Float):
        return make_piece((repr(float(value)).replace("e+", "e"),), Level.ATOM)
    if max(value.p, value.q) > MAX_NUMBER:
        raise UnsupportedError(
            f"to_text: a number has more than {len(str(MAX_NUMBER)) - 1} digits, which no floating-point number holds: "
            "scale it, or give it as a tensor of order 0"
        )
    places = decimal_places(value)
    if places is None:
        return make_piece((f"{value.p} / {value.q}",), Level.CHAIN)
    digits = str(value.p * 10**places // value.q).rjust(places + 1, "0")
    whole = len(digits) - places
    return make_piece((digits[:whole] + "." * bool(places) + digits[whole:],), Level.ATOM)


def decimal_places(value: Rational) -> int | None:
    """The digits behind the point of an exact decimal number; None where there are too many or no end."""
    return next((places for places in range(MAX_DECIMAL_DIGITS + 1) if 10**places % value.q == 0), None)


def negated_piece(part: Piece) -> Piece:
    """The piece with a minus sign in front."""
    return make_piece(("-", parenthesized(part, Level.FACTOR)), Level.FACTOR, part.rank)


def opposite_piece(part: Piece) -> Piece:
    """The piece with a minus sign in front, or without the one that it has."""
    match part.parts:
        case "-", Piece(parts=("(", Piece() as inner, ")")):
            return inner
        case "-", Piece() as inner:
            return inner
    return negated_piece(part)


def call_piece(function: str, argument: Piece, rank: int | None = None) -> Piece:
    """A function of the piece, entry by entry, or of another rank."""
    return make_piece((f"{function}(", argument, ")"), Level.ATOM, argument.rank if rank is None else rank)


# -------------------------------------------------------------- operators


def axis_letters(rank: int, taken: str = "") -> str:
    """Letters for some axes, which are not taken yet."""
    free = "".join(letter for letter in LETTERS if letter not in taken)
    if rank > len(free):
        raise UnsupportedError(
            f"to_text: {len(taken) + rank} axes need more than the {len(LETTERS)} letters a-z of the text language; "
            "split the expression into tensors and products of fewer axes"
        )
    return free[:rank]


def sum_piece(terms: Sequence[tuple[bool, Piece]]) -> Piece:
    """The sum of terms, each with whether it is subtracted."""
    parts: list[Fragment] = []
    for minus, term in terms:
        if parts:
            parts += [" - " if minus else " + ", parenthesized(term, Level.CHAIN)]
        else:
            parts.append(negated_piece(term) if minus else parenthesized(term, Level.CHAIN))
    return make_piece(parts, Level.SUM, max(term.rank for _, term in terms))


def quotient_piece(above: Sequence[Piece], below: Sequence[Piece]) -> Piece:
    """The product entry by entry of some pieces, divided by others."""
    if len(above) == 1 and not below:
        return above[0]
    rank = max(part.rank for part in (*above, *below))
    letters = axis_letters(rank)
    # Chains are read as one node, and this is one of its own.
    parts: list[Fragment] = [parenthesized(above[0], Level.TERM)]
    left = letters if above[0].rank else ""
    for part in above[1:]:
        right = letters if part.rank else ""
        parts += [f" *({left},{right}->{left or right}) ", parenthesized(part, Level.POWER)]
        left = left or right
    for part in below:
        parts += [" / ", parenthesized(part, Level.POWER)]
    return make_piece(parts, Level.CHAIN, rank)


def power_piece(base: Piece, exponent: Piece) -> Piece:
    """A power entry by entry; the exponent is a scalar."""
    parts = parenthesized(base, Level.POWER), " ^ ", parenthesized(exponent, Level.ATOM)
    return make_piece(parts, Level.POWER, base.rank)


def repeated_piece(value: Piece, rank: int) -> Piece:
    """A scalar that is repeated along axes."""
    if not rank:
        return value
    letters = axis_letters(rank)
    # With the letters at both sides it is read as one repeated number, with them at one side as a product by 1.
    return make_piece((parenthesized(value, Level.CHAIN), f" *({letters},{letters}->{letters}) 1"), Level.TERM, rank)


def relabelled_piece(operand: Piece, letters: str, output: str) -> Piece:
    """The product of one operand."""
    return make_piece((f"({letters}->{output}) ", parenthesized(operand, Level.FACTOR)), Level.FACTOR, len(output))


Factor = tuple[Piece, str, Piece | None]
"""An operand of a product, its letters, and the value of one that is a repeated scalar."""


def contraction_piece(operands: Sequence[Factor], output: str) -> Piece:
    """The product of operands, by two of them at a time: next the one that leaves the fewest axes."""
    left, *rest = operands
    if not rest:
        return relabelled_piece(left[0], left[1], output)
    while rest:
        kept = [
            _remaining_letters(left[1] + other[1], rest[:place] + rest[place + 1 :], output)
            for place, other in enumerate(rest)
        ]
        place = min(range(len(rest)), key=lambda place: len(kept[place]))
        right = rest.pop(place)
        letters = kept[place] if rest else output
        left = _binary_product(left, right, letters), letters, None
    return left[0]


def _remaining_letters(letters: str, others: Sequence[Factor], output: str) -> str:
    """The letters that are needed after a product."""
    needed = set(output).union(*(own for _, own, _ in others))
    return "".join(dict.fromkeys(letter for letter in letters if letter in needed))


def _binary_product(left: Factor, right: Factor, output: str) -> Piece:
    """The product of two operands.

    A repeated scalar is not repeated in the text where the other operand has none of its letters.
    """
    shown = [left[0], right[0]]
    for position, (_, own, value), (_, others, _) in ((1, right, left), (0, left, right)):
        if value is not None and len(set(own)) == len(own) and set(own).isdisjoint(others):
            shown[position] = value
            break
    letters = f" *({left[1]},{right[1]}->{output}) "
    parts = parenthesized(shown[0], Level.CHAIN), letters, parenthesized(shown[1], Level.POWER)
    return make_piece(parts, Level.TERM, len(output))


NAMES = MappingProxyType({function: name for name, function in FUNCTIONS.items()})
CONSTANTS = MappingProxyType({S.Exp1: "exp(1)", S.Pi: "arccos(-1)"})
HALF = Rational(1, 2)
MAX_SIMPLIFIED_DEPTH = 12
"""Differences of more levels get no simpler by SymPy's rules for signs, which would take seconds."""

COMPOSED: MappingProxyType[Any, Callable[[Any], Any]] = MappingProxyType(
    {
        sigmoid: lambda x: 1 / (1 + sympy.exp(-x)),
        # Without overflow, where the exponential of the argument has one.
        softplus: lambda x: Max(x, 0) + sympy.log(1 + sympy.exp(-sympy.Abs(x))),
        sympy.sinh: lambda x: (sympy.exp(x) - sympy.exp(-x)) / 2,
        sympy.cosh: lambda x: (sympy.exp(x) + sympy.exp(-x)) / 2,
        sympy.coth: lambda x: 1 / sympy.tanh(x),
        sympy.asinh: lambda x: sympy.sign(x) * sympy.log(sympy.Abs(x) + (x**2 + 1) ** HALF),
        sympy.acosh: lambda x: sympy.log(x + (x**2 - 1) ** HALF),
        sympy.atanh: lambda x: (sympy.log(1 + x) - sympy.log(1 - x)) / 2,
        sympy.sec: lambda x: 1 / sympy.cos(x),
        sympy.csc: lambda x: 1 / sympy.sin(x),
        sympy.cot: lambda x: 1 / sympy.tan(x),
    }
)
"""Functions that the language does not have, each as an expression of its argument."""


def unsupported(node: Any, reason: str, way_out: str) -> UnsupportedError:
    """The error about a node that the language cannot say."""
    return UnsupportedError(
        f"to_text: {node_text(node)} has no text in the text language of td.parse: {reason}; {way_out}"
    )


def split_coefficient(term: Any) -> tuple[Any, tuple[Any, ...]]:
    """A number and the other factors of a product, entry by entry or not, or of anything else."""
    if term.is_Number:
        return term, ()
    if isinstance(term, (Mul, TensorMul)):
        first, *rest = term.args
        return (first, tuple(rest)) if first.is_Number else (S.One, tuple(term.args))
    return S.One, (term,)


def split_fraction(number: Any) -> tuple[Any, Any]:
    """What to multiply by and what to divide by: ``x / 4``, but ``0.75`` as a decimal number."""
    if number.is_Float or (abs(number.p) != 1 and decimal_places(number) is not None):
        return number, S.One
    return S(number.p), S(number.q)


def is_subtracted(term: Any) -> bool:
    """Whether a term of a sum is read back as it is, where its opposite is subtracted."""
    coefficient, factors = split_coefficient(term)
    return bool(coefficient < 0) and (not isinstance(term, TensorMul) or len(factors) == 1)


def scalar_of(node: Any) -> Any:
    """The scalar that an entry or a comprehension without axes is; None for all others."""
    tensor = node.tensor if isinstance(node, TensorEntry) else node
    return tensor.body if isinstance(tensor, TensorComprehension) and not tensor.rank else None


def lower_case_subscripts(product: EinsumProduct) -> Subscripts:
    """The subscripts of a product in the letters of the language, with others in place of A-Z."""
    found = parse_subscripts(product.subscripts)
    used = dict.fromkeys(found.output + "".join(found.inputs))
    others = [letter for letter in used if letter not in LETTERS]
    free = axis_letters(len(others), "".join(letter for letter in used if letter in LETTERS))
    letters = str.maketrans(dict(zip(others, free, strict=True)))
    return parse_subscripts(product.subscripts.translate(letters))


def node_text(node: Any) -> str:
    """A node in a message."""
    return f"a {type(node).__name__}" if measures(node).is_unprintable else str(node)


# -------------------------------------------------------------- functions


def rewrite_with_relu(expr: Any) -> Any:
    """The larger or smaller one of a number and something else in terms of ``Max(x, 0)``; None for all else."""
    numbers = [arg for arg in expr.args if arg.is_Number]
    others = [arg for arg in expr.args if not arg.is_Number]
    if len(numbers) != 1 or len(others) != 1:
        return None
    (bound,), (other,) = numbers, others
    return bound + Max(other - bound, 0) if isinstance(expr, Max) else bound - Max(bound - other, 0)


def rewrite_with_sign(expr: Piecewise) -> Any:
    """One of two values by a comparison, in terms of ``Max`` and ``sign``; None for all other cases."""
    if len(expr.args) != 2 or expr.args[1].cond != S.true:
        return None
    (first, condition), (second, _) = expr.args
    match condition:
        case sympy.StrictGreaterThan():
            return second + (first - second) * _is_larger(condition.lhs, condition.rhs)
        case sympy.StrictLessThan():
            return second + (first - second) * _is_larger(condition.rhs, condition.lhs)
        case sympy.GreaterThan():
            return first + (second - first) * _is_larger(condition.rhs, condition.lhs)
        case sympy.LessThan():
            return first + (second - first) * _is_larger(condition.lhs, condition.rhs)
    return None


def rewrite_root_quotient(expr: Piecewise) -> Any:
    """What is chosen where a base ``s`` of powers is not 0, as the derivative of a root, and 0 elsewhere: with 1 for 0.

    ``1/sqrt(s)`` becomes ``abs(sign(s))/sqrt(s + 1 - abs(sign(s)))``. None for all other cases.
    """
    (first, condition), (second, _) = expr.args[0], expr.args[-1]
    if len(expr.args) != 2 or second != 0 or not isinstance(condition, sympy.Ne) or condition.rhs != 0:
        return None
    base = condition.lhs
    powers = [node for node in nodes_in([first]) if isinstance(node, Pow) and node.base in (base, sympy.Abs(base))]
    if not is_total([first.xreplace(dict.fromkeys(powers, S.One)), base]):
        return None
    chosen = sympy.Abs(sympy.sign(base))
    return chosen * first.xreplace({base: base + 1 - chosen})


def _is_larger(first: Any, second: Any) -> Any:
    """1 where the one is larger than the other, 0 elsewhere."""
    difference = applied(sympy.Add, (first, -second))
    is_deep = measures(difference).depth > MAX_SIMPLIFIED_DEPTH
    return applied(Max, (applied(sympy.sign, (difference,), is_deep), S.Zero), is_deep)


TOTAL = (
    *(sympy.sin, sympy.cos, sympy.atan, sympy.tanh, sympy.exp, sympy.sign, sympy.Abs, sigmoid, softplus),
    *(sympy.sinh, sympy.cosh, sympy.asinh, Piecewise, KroneckerDelta),
)


def is_total(exprs: Iterable[Any]) -> bool:
    """Whether all of the expressions have a value wherever their tensors have one.

    A value that is not chosen is multiplied by 0 in the text, and what has no value has no such product either.
    """
    for node in nodes_in(exprs):
        if isinstance(node, (Pow, TensorPow)):
            if not (node.args[1].is_Integer and node.args[1] > 0):
                return False
        elif isinstance(node, TensorInverse) or (isinstance(node, Function) and not isinstance(node, TOTAL)):
            return False
    return True
