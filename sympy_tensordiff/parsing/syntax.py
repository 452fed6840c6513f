"""Text into a tree, by lark's LALR parser; what the grammar does not accept becomes a `ParseError`.

The tree is made by the parser itself as it reduces, so that depth costs no recursion.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from lark import Lark, Token, Transformer, v_args
from lark.exceptions import UnexpectedCharacters, UnexpectedToken

from sympy_tensordiff.errors import ParseError
from sympy_tensordiff.parsing.complaints import unexpected_character, unexpected_token
from sympy_tensordiff.parsing.tree import Declaration, Input, Kind, Tree

LONGEST = 200_000
"""The longest input, in characters."""


def read(source: str) -> Input:
    """The tree of an input."""
    if len(source) > LONGEST:
        raise ParseError(
            f"the input has {len(source):,} characters, and at most {LONGEST:,} are read; split the expression, or "
            "build it with the classes of the package",
            source[:LONGEST],
        )
    try:
        result: Input = _parser().parse(source)  # type: ignore[assignment]
    except UnexpectedToken as error:
        raise unexpected_token(error, source) from None
    except UnexpectedCharacters as error:
        raise unexpected_character(error, source) from None
    return result


@cache
def _parser() -> Lark:
    grammar = files(__package__).joinpath("grammar.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", lexer="basic", transformer=_Grower(), maybe_placeholders=True)


@v_args(inline=True)
class _Grower(Transformer[Token, Any]):
    """What the parser makes of each rule."""

    def start(self, *parts: Any) -> Input:
        names = [part for part in parts if isinstance(part, Declaration)]
        (expression,) = (part for part in parts if isinstance(part, Tree))
        return Input(
            tuple(name for name in names if name.order), expression, tuple(name for name in names if not name.order)
        )

    def declaration(self, name: Token, order: Token) -> Declaration:
        return Declaration(str(name), _start(name), str(order), _start(order))

    def argument(self, derivative: Token, wrt: Token, name: Token) -> Declaration:
        return Declaration(str(name), _start(name))

    def sum(self, left: Tree, sign: Token, right: Tree) -> Tree:
        return _binary("sum" if sign == "+" else "difference", left, sign, right)

    def product(self, left: Tree, star: Token, letters: Token, right: Tree) -> Tree:
        return _binary("product", left, letters, right)

    def quotient(self, left: Tree, slash: Token, right: Tree) -> Tree:
        return _binary("quotient", left, slash, right)

    def power(self, left: Tree, caret: Token, right: Tree) -> Tree:
        return _binary("power", left, caret, right)

    def negative(self, sign: Token, operand: Tree) -> Tree:
        return Tree("negative", "-", (operand,), _start(sign), operand.end, _start(sign))

    def relabelled(self, star: Token | None, letters: Token, operand: Tree) -> Tree:
        start = _start(letters if star is None else star)
        return Tree("relabelled", str(letters), (operand,), start, operand.end, _start(letters))

    def number(self, token: Token) -> Tree:
        return _leaf("number", token)

    def name(self, token: Token) -> Tree:
        return _leaf("name", token)

    def delta(self, delta: Token, left: Token, order: Token, right: Token) -> Tree:
        return Tree("delta", str(order), (), _start(delta), _end(right), _start(order))

    def function(self, name: Token, left: Token, operand: Tree, right: Token) -> Tree:
        return Tree("function", str(name), (operand,), _start(name), _end(right), _start(name))

    def enclosed(self, left: Token, inside: Tree, right: Token) -> Tree:
        inside.start, inside.end, inside.is_enclosed = _start(left), _end(right), True
        return inside


def _leaf(kind: Kind, token: Token) -> Tree:
    return Tree(kind, str(token), (), _start(token), _end(token), _start(token))


def _binary(kind: Kind, left: Tree, operator: Token, right: Tree) -> Tree:
    return Tree(kind, str(operator), (left, right), left.start, right.end, _start(operator))


def _start(token: Token) -> int:
    return token.start_pos or 0


def _end(token: Token) -> int:
    return token.end_pos or 0
