"""Pieces of text in the language of the thesis, with precedence, length and rank, and operators that combine them.

The text of a piece is joined only at the end: shared subexpressions may make the text of a small expression very long.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from types import MappingProxyType
from typing import Any, TypeAlias

from sympy import Float, Max, Min, Mul, Rational, S

from sympy_tensordiff.errors import UnsupportedError
from sympy_tensordiff.functions.table import by_name, record_of
from sympy_tensordiff.parsing.axes import MAX_INPUT
from sympy_tensordiff.parsing.numbers import ENTRYWISE, FUNCTIONS, Operations
from sympy_tensordiff.symbolic.expressions.depth import measures
from sympy_tensordiff.symbolic.index_notation.entries import TensorEntry
from sympy_tensordiff.symbolic.index_notation.tensors import TensorComprehension, TensorSymbol
from sympy_tensordiff.symbolic.whole_tensors.einsum import EinsumProduct
from sympy_tensordiff.symbolic.whole_tensors.elementwise import TensorFunction, TensorMul
from sympy_tensordiff.symbolic.whole_tensors.subscripts import FROM_I, Subscripts, parse_subscripts

LETTERS = FROM_I[:26]
"""The letters of products, in the order in which they are used."""
MAX_DECIMAL_DIGITS = 17
"""The greatest number of decimal places of a fraction that is written as a decimal number."""
MAX_NUMBER = 10**308


class Level(IntEnum):
    """The precedence of a piece of text, which decides whether it needs parentheses in a larger expression."""

    SUM = 0
    CHAIN = 1  # of products and quotients entry by entry, which `parse` makes one node
    TERM = 2
    FACTOR = 3
    POWER = 4
    ATOM = 5


@dataclass(frozen=True, eq=False, slots=True)
class Piece:
    """The text of a subexpression with its precedence and the number of axes of its value, from which the texts of
    larger expressions are joined.

    `parts` are the fragments in order, strings or pieces; `length` is the number of their characters, `level` the
    precedence, `rank` the number of axes.
    """

    parts: tuple[Any, ...]
    length: int
    level: Level
    rank: int = 0


Fragment: TypeAlias = str | Piece


def make_piece(parts: Iterable[Fragment], level: Level, rank: int = 0) -> Piece:
    """Join ``parts`` to a `Piece` of text with the precedence ``level`` and the number ``rank`` of axes of its value.
    Raise `UnsupportedError` if the text is too long to be parsed.
    """
    parts = tuple(parts)
    length = sum(len(part) if isinstance(part, str) else part.length for part in parts)
    if length > MAX_INPUT:
        raise UnsupportedError(
            f"to_text: the text of the expression is longer than {MAX_INPUT:,} characters, the most that td.parse "
            "reads; what is shared is written at each of its places: give shared parts names of their own, as tensors"
        )
    return Piece(parts, length, level, rank)


def parenthesized(part: Piece, level: Level) -> Fragment:
    """Return ``part``, in parentheses if its precedence is below ``level``."""
    return part if part.level >= level else make_piece(("(", part, ")"), Level.ATOM, part.rank)


def joined_text(whole: Piece) -> str:
    """Return the text of the piece ``whole``, with its fragments joined."""
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
    """Return the text of a number; a rational number is written exactly, as a decimal number or a quotient."""
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
    """Return the number of decimal places of ``value``, or None if its decimal expansion is too long or infinite."""
    return next((places for places in range(MAX_DECIMAL_DIGITS + 1) if 10**places % value.q == 0), None)


def negated_piece(part: Piece) -> Piece:
    """Return ``part`` with a minus sign."""
    return make_piece(("-", parenthesized(part, Level.FACTOR)), Level.FACTOR, part.rank)


def opposite_piece(part: Piece) -> Piece:
    """Return ``part`` with the opposite sign: without its minus sign if it has one, else with one."""
    match part.parts:
        case "-", Piece(parts=("(", Piece() as inner, ")")):
            return inner
        case "-", Piece() as inner:
            return inner
    return negated_piece(part)


def call_piece(function: str, *operands: Piece, rank: int | None = None) -> Piece:
    """Return the text ``function(operand, ...)``; ``rank`` is the number of axes of its value (by default the greatest
    of the operands).
    """
    parts = [part for operand in operands for part in (", ", operand)][1:]
    highest = max(operand.rank for operand in operands) if rank is None else rank
    return make_piece((f"{function}(", *parts, ")"), Level.ATOM, highest)


# -------------------------------------------------------------- operators


def axis_letters(rank: int, taken: str = "") -> str:
    """Return ``rank`` letters for axes that are not in ``taken``; raise `UnsupportedError` if there are not enough."""
    free = "".join(letter for letter in LETTERS if letter not in taken)
    if rank > len(free):
        raise UnsupportedError(
            f"to_text: {len(taken) + rank} axes need more than the {len(LETTERS)} letters a-z of the text language; "
            "split the expression into tensors and products of fewer axes"
        )
    return free[:rank]


def sum_piece(terms: Sequence[tuple[bool, Piece]]) -> Piece:
    """Return the text of the sum of ``terms``, pairs ``(is subtracted, piece)``."""
    parts: list[Fragment] = []
    for minus, term in terms:
        if parts:
            parts += [" - " if minus else " + ", parenthesized(term, Level.CHAIN)]
        else:
            parts.append(negated_piece(term) if minus else parenthesized(term, Level.CHAIN))
    return make_piece(parts, Level.SUM, max(term.rank for _, term in terms))


def quotient_piece(above: Sequence[Piece], below: Sequence[Piece]) -> Piece:
    """Return the text, as a `Piece`, of the element-wise product of the subexpressions ``above``, divided by each of
    the subexpressions ``below``.
    """
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
    """Write the text ``base ^ exponent`` of an elementwise power with a scalar exponent, with parentheses where the
    precedence of the two pieces requires them.
    """
    parts = parenthesized(base, Level.POWER), " ^ ", parenthesized(exponent, Level.ATOM)
    return make_piece(parts, Level.POWER, base.rank)


def repeated_piece(value: Piece, rank: int) -> Piece:
    """Return the text of the scalar ``value`` repeated along ``rank`` axes."""
    if not rank:
        return value
    letters = axis_letters(rank)
    # With the letters at both sides it is read as one repeated number, with them at one side as a product by 1.
    return make_piece((parenthesized(value, Level.CHAIN), f" *({letters},{letters}->{letters}) 1"), Level.TERM, rank)


def relabelled_piece(operand: Piece, letters: str, output: str) -> Piece:
    """Return the text ``(letters->output) operand``, which transposes the operand, sums it over axes, or takes a
    diagonal.
    """
    return make_piece((f"({letters}->{output}) ", parenthesized(operand, Level.FACTOR)), Level.FACTOR, len(output))


Factor = tuple[Piece, str, Piece | None]
"""An operand of a product, its letters, and its value if it is a repeated scalar (else None)."""


def contraction_piece(operands: Sequence[Factor], output: str) -> Piece:
    """Return the text of an einsum of ``operands`` whose result has the axes ``output``, as a chain of products of two
    factors. Each step multiplies by the operand that leaves the fewest axes.
    """
    left, *rest = operands
    if not rest:
        return relabelled_piece(left[0], left[1], output)
    while rest:
        remaining = [
            _remaining_letters(left[1] + other[1], rest[:place] + rest[place + 1 :], output)
            for place, other in enumerate(rest)
        ]
        place = min(range(len(rest)), key=lambda place: len(remaining[place]))
        right = rest.pop(place)
        letters = remaining[place] if rest else output
        left = _binary_product(left, right, letters), letters, None
    return left[0]


def _remaining_letters(letters: str, others: Sequence[Factor], output: str) -> str:
    """Return the ``letters`` of a product of factors that are still needed: those in the result (``output``) or in one
    of the other factors ``others``. The product can be summed over the rest.
    """
    needed = set(output).union(*(own for _, own, _ in others))
    return "".join(dict.fromkeys(letter for letter in letters if letter in needed))


def _binary_product(left: Factor, right: Factor, output: str) -> Piece:
    """Return the text of the product of two factors, ``left *(ij,jk->ik) right`` for the letters ``output`` "ik" of the
    result.

    A repeated scalar is written without repetition if the other factor has none of its letters.
    """
    shown = [left[0], right[0]]
    for position, (_, own, value), (_, others, _) in ((1, right, left), (0, left, right)):
        if value is not None and len(set(own)) == len(own) and set(own).isdisjoint(others):
            shown[position] = value
            break
    letters = f" *({left[1]},{right[1]}->{output}) "
    parts = parenthesized(shown[0], Level.CHAIN), letters, parenthesized(shown[1], Level.POWER)
    return make_piece(parts, Level.TERM, len(output))


NAMES = MappingProxyType({function: name for name, function in FUNCTIONS.items() if function is not Max})
CONSTANTS = MappingProxyType({S.Exp1: "exp(1)", S.Pi: "arccos(-1)"})


def function_name(function: Any) -> str:
    """Return the name in texts of ``function``, a SymPy class; "" if texts have no such function."""
    record = record_of(function)
    return NAMES.get(function) or (record.name if record.is_readable and function is not Max else "")


def name_of_template(template: Any) -> str:
    """Return the name in texts of the element-wise function ``template``, a `Lambda`; "" if it has none."""
    variables, body = template.variables, template.expr
    if isinstance(body, (Max, Min)) and {*body.args} == {*variables}:
        return "maximum" if isinstance(body, Max) else "minimum"
    return _names_of_templates(len(variables)).get(template, "") if len(variables) <= MAX_NAMED_OPERANDS else ""


MAX_NAMED_OPERANDS = 3
"""The greatest number of operands of functions other than maxima and minima."""


@cache
def _names_of_templates(count: int) -> dict[Any, str]:
    """Return a dictionary from the templates of the functions of ``count`` operands, as texts are read, to their
    names.
    """
    tensors = [TensorSymbol(f"t{number}", 2) for number in range(count)]
    operations = Operations()
    found: dict[Any, str] = {}
    for name, (least, most) in ENTRYWISE.items():
        if least <= count <= most:
            value = operations.entrywise(name, tensors)
            if isinstance(value, TensorFunction) and [*value.operands] == tensors:
                record = by_name(name)
                known = name if record is None else NAMES.get(record.function, record.name)
                found.setdefault(value.template, known)
    return found


def unsupported(node: Any, reason: str, way_out: str) -> UnsupportedError:
    """Return (do not raise) the exception for ``node``, which the language cannot express: ``reason`` says why,
    ``way_out`` what to do instead.
    """
    shown = f"a {type(node).__name__}" if measures(node).is_unprintable else node
    return UnsupportedError(f"to_text: {shown} has no text in the text language of td.parse: {reason}; {way_out}")


def split_coefficient(term: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return ``(number, other factors)`` of ``term``; the number is 1 if it has no numeric factor."""
    if term.is_Number:
        return term, ()
    if isinstance(term, (Mul, TensorMul)):
        first, *rest = term.args
        return (first, tuple(rest)) if first.is_Number else (S.One, tuple(term.args))
    return S.One, (term,)


def split_fraction(number: Any) -> tuple[Any, Any]:
    """Return ``(numerator, denominator)`` of a number as the text shows it: ``(2, 3)`` for 2/3 and ``(1, 4)`` for 1/4;
    ``(number, 1)`` for a number that is written as a decimal, such as 0.75 or a Float.
    """
    if number.is_Float or (abs(number.p) != 1 and decimal_places(number) is not None):
        return number, S.One
    return S(number.p), S(number.q)


def is_subtracted(term: Any) -> bool:
    """Return whether ``term`` of a sum can be printed as ``- t`` so that the parser gives back the same term: its
    coefficient is negative, and it is not a tensor product of several factors.
    """
    coefficient, factors = split_coefficient(term)
    return bool(coefficient < 0) and (not isinstance(term, TensorMul) or len(factors) == 1)


def scalar_of(node: Any) -> Any:
    """Return the scalar ``s`` if `node` is a comprehension without axes whose body is ``s``, or an entry of such a
    comprehension; None for any other node.
    """
    tensor = node.tensor if isinstance(node, TensorEntry) else node
    return tensor.body if isinstance(tensor, TensorComprehension) and not tensor.rank else None


def lower_case_subscripts(product: EinsumProduct) -> Subscripts:
    """Return the subscripts of ``product`` with lower-case letters only, because the text language has no others."""
    found = parse_subscripts(product.subscripts)
    used = dict.fromkeys(found.output + "".join(found.inputs))
    others = [letter for letter in used if letter not in LETTERS]
    free = axis_letters(len(others), "".join(letter for letter in used if letter in LETTERS))
    letters = str.maketrans(dict(zip(others, free, strict=True)))
    return parse_subscripts(product.subscripts.translate(letters))
