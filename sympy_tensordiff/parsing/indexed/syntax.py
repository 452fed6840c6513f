"""Text into a tree of parts, by lark's LALR parser; what the grammar does not accept becomes a `ParseError`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal, TypeAlias

from lark import Lark, Token, Transformer, v_args
from lark.exceptions import UnexpectedCharacters, UnexpectedToken

from sympy_tensordiff.errors import ParseError
from sympy_tensordiff.parsing.tree import cut

LONGEST = 20_000
"""The longest input, in characters."""
DEEPEST = 60
"""So many levels of parentheses, calls and indices may stand inside of each other."""

Kind: TypeAlias = Literal[
    "number", "name", "call", "entry", "tuple", "signed", "power", "product", "sum", "comparison", "inverse", "both",
    "either",
]  # fmt: skip


@dataclass(frozen=True, eq=False, slots=True)
class Part:
    """A subexpression.

    ``text`` is a number, a name, that of the function called or a sign; ``operators`` stand between the
    ``parts`` of sums, products and comparisons. An "entry" has what is read as its first part, then the
    indices. ``place`` is where a message points at; ``depth`` how many levels are inside.
    """

    kind: Kind
    text: str
    parts: tuple[Part, ...]
    place: int
    depth: int
    operators: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Item:
    """A declaration, or the left side of the definition: ``axes`` is None without brackets."""

    name: str
    place: int
    axes: tuple[Part, ...] | None
    is_integer: bool


@dataclass(frozen=True, slots=True, eq=False)
class Input:
    """A whole input."""

    declarations: tuple[Item, ...]
    left: Item
    right: Part
    arguments: tuple[Token, ...]


def read(source: str) -> Input:
    """The tree of an input.

    Raises
    ------
    ParseError
        If the text is too long or too deep, or no input of the language.
    """
    if len(source) > LONGEST:
        raise ParseError(
            f"the input has {len(source):,} characters, and at most {LONGEST:,} are read; build the expression with "
            "the classes of the package",
            source[:LONGEST],
        )
    try:
        result: Input = _parser().parse(source)  # type: ignore[assignment]
    except UnexpectedCharacters as error:
        place = error.pos_in_stream or 0
        hint = HINTS.get(source[place], "names and operators consist of the letters and signs of ASCII")
        raise ParseError(f"{source[place]!r} does not belong to index notation; {hint}", source, place) from None
    except UnexpectedToken as error:
        raise _unexpected(error, source) from None
    except _TooDeepError as error:
        raise ParseError(
            f"the expression has more than {DEEPEST} levels inside of each other; build it with the classes of the "
            "package",
            source,
            error.args[0],
        ) from None
    return result


class _TooDeepError(Exception):
    """The place where the levels get too many."""


@cache
def _parser() -> Lark:
    grammar = files(__package__).joinpath("grammar.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", lexer="basic", transformer=_Grower(), maybe_placeholders=True)


def _part(kind: Kind, text: str, parts: tuple[Part, ...], place: int | None, operators: tuple[str, ...] = ()) -> Part:
    depth = 1 + max((part.depth for part in parts), default=0)
    if depth > DEEPEST:
        raise _TooDeepError(place or 0)
    return Part(kind, text, parts, place or 0, depth, operators)


@v_args(inline=True)
class _Grower(Transformer[Token, Any]):
    """What the parser makes of each rule."""

    def start(self, *pieces: Any) -> Input:
        items = [piece for piece in pieces if isinstance(piece, Item)]
        (right,) = (piece for piece in pieces if isinstance(piece, Part))
        arguments = [piece for piece in pieces if isinstance(piece, Token) and piece.type == "NAME"]
        return Input(tuple(items[:-1]), items[-1], right, tuple(arguments))

    def item(self, integer: Token | None, name: Token, left: Token | None, axes: Any, right: Token | None) -> Item:
        return Item(str(name), name.start_pos or 0, axes, integer is not None)

    def argument(self, derivative: Token, wrt: Token, name: Token) -> Token:
        return name

    def list(self, *pieces: Any) -> tuple[Part, ...]:
        return tuple(piece for piece in pieces if isinstance(piece, Part))

    def either(self, *pieces: Any) -> Part:
        return _chain("either", pieces)

    def both(self, *pieces: Any) -> Part:
        return _chain("both", pieces)

    def comparison(self, *pieces: Any) -> Part:
        return _chain("comparison", pieces)

    def sum(self, *pieces: Any) -> Part:
        return _chain("sum", pieces)

    def product(self, *pieces: Any) -> Part:
        return _chain("product", pieces)

    def inverse(self, sign: Token, operand: Part) -> Part:
        return _part("inverse", str(sign), (operand,), sign.start_pos)

    def signed(self, sign: Token, operand: Part) -> Part:
        return _part("signed", str(sign), (operand,), sign.start_pos)

    def power(self, base: Part, sign: Token, exponent: Part) -> Part:
        return _part("power", str(sign), (base, exponent), sign.start_pos)

    def number(self, token: Token) -> Part:
        return _part("number", str(token), (), token.start_pos)

    def name(self, token: Token) -> Part:
        return _part("name", str(token), (), token.start_pos)

    def call(self, name: Token, left: Token, parts: tuple[Part, ...], right: Token) -> Part:
        return _part("call", str(name), parts, name.start_pos)

    def entry(self, read: Part, left: Token, indices: tuple[Part, ...], right: Token) -> Part:
        return _part("entry", read.text, (read, *indices), read.place)

    def enclosed(self, left: Token, parts: tuple[Part, ...], right: Token) -> Part:
        return parts[0] if len(parts) == 1 else _part("tuple", "", parts, left.start_pos)


def _chain(kind: Kind, pieces: tuple[Any, ...]) -> Part:
    """Operands with operators between them; one alone is itself."""
    operands = pieces[::2]
    if len(operands) == 1:
        alone: Part = operands[0]
        return alone
    return _part(kind, "", operands, pieces[1].start_pos, tuple(map(str, pieces[1::2])))


_WORDS = {
    "DECLARE": "`declare`",
    "DERIVATIVE": "`derivative wrt`",
    "WRT": "`wrt`",
    "EQUALS": "`=` and the entry",
    "NAME": "a name",
    "NUMBER": "a number",
    "LEFT": "`(`",
    "RIGHT": "`)`",
    "LEFT_BRACKET": "`[`",
    "RIGHT_BRACKET": "`]`",
    "COMMA": "`,`",
    "SIGN": "an operator",
}
HINTS = {
    "'": "a transpose is read with its indices exchanged, A[j, i]",
    "@": "write the product with its indices, as in sum(A[i, j]*x[j], j)",
    ".": "a number has a digit before or behind the point, and nothing has methods",
    "_": "names begin with a letter, and indices stand in brackets, as in x[i]",
    "{": "indices stand in brackets, as in x[i]",
    "}": "indices stand in brackets, as in x[i]",
    **dict.fromkeys("·×⋅∙", "the product is `*`"),
    **dict.fromkeys("−–", "the difference is `-`"),
    **dict.fromkeys("²³", "powers are written with `^`, as in x[i]^2"),
    **{"≤": "write `<=`", "≥": "write `>=`", "≠": "write `!=`", "√": "write sqrt(x[i])"},
    **{"∑": "write sum(x[k], k)", "Σ": "write sum(x[k], k)", "∏": "write prod(x[k], k)"},
}
EXAMPLE = '"declare A[m, n], x[n]  f[i] = sum(A[i, j]*x[j], j)  derivative wrt x"'


def _unexpected(error: UnexpectedToken, source: str) -> ParseError:
    """The error about a token where the grammar expects another."""
    token, expected = error.token, set(error.expected)
    if not source.strip():
        return ParseError(f"the input is empty; an input reads {EXAMPLE}", source)
    at_end = token.type == "$END"
    found = "the end of the input" if at_end else f"`{cut(token)}`"
    place = len(source.rstrip()) if at_end else token.start_pos or 0
    if token.type in ("NAME", "NUMBER", "LEFT") and "STAR" in expected:
        hint = "write a product with `*`, and `derivative wrt` behind the one definition"
        return ParseError(f"{found} stands behind an operand; {hint}", source, place)
    if expected == {"DECLARE"}:
        return ParseError(f"{found} is not expected here, but `declare`; an input reads {EXAMPLE}", source, place)
    if token.type == "NUMBER" and "LEFT_BRACKET" in expected and "EQUALS" in expected:
        return ParseError(f"{found} is no shape; shapes are in brackets, as in x[n] or A[m, 3]", source, place)
    if "NUMBER" in expected:  # an operand
        words = "an operand: a number, a name, an entry such as `x[i]`, or `(`"
    else:
        words = " or ".join(text for name, text in _WORDS.items() if name in expected)
    return ParseError(f"{found} is not expected here, but {words}", source, place)
