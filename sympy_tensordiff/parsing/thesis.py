"""The text language of the thesis for the front end: its limits, its words, and what is said about frequent slips."""

from __future__ import annotations

from collections.abc import Collection
from sys import maxsize

from lark import Token

from sympy_tensordiff.parsing.frontend import Language, cut, found, is_called
from sympy_tensordiff.parsing.numbers import FUNCTIONS

LONGEST = 200_000
"""The longest input, in characters."""
OF_MATRICES = ("det", "inv", "adj")
RESERVED = frozenset({"declare", "expression", "derivative", "wrt", "delta", *FUNCTIONS, *OF_MATRICES})
"""No names of tensors."""


def slip(token: Token, expected: Collection[str], before: list[Token]) -> str:
    """What is said about frequent slips; nothing where it is none of them."""
    if set(expected) == {"NUMBER"} and before[-1].type == "NAME":
        return f"{found(token)} stands where a number is expected: the order of the tensor `{cut(before[-1])}`"
    if token in RESERVED and "NAME" in expected and "LEFT" not in expected:
        return f"`{token}` is a word of the language, which cannot be the name of a tensor; take another name"
    if "LETTERS" in expected and before and before[-1].type == "STAR" and "LEFT" not in expected:
        return (
            "a product needs its letters: two operands' and the result's, as in `a *(i,i->i) b` for element-wise "
            f"products, `A *(ij,j->i) x` or, for scalars, `a *(,->) b`; not {found(token)}"
        )
    if "PLUS" not in expected:
        return "an exponent that is no number or name stands in parentheses, as in `x^(-1)`" * (
            token.type == "MINUS" and bool(before) and before[-1].type == "CARET"
        )
    if token.type in ("NAME", "NUMBER", "FUNCTION", "DELTA"):
        return (
            f"{found(token)} stands beside an operand without an operator; write a product with its letters, as in "
            "`2 *(,i->i) x`"
        )
    if is_called(token, expected, before):
        return (
            f"`{cut(before[-1])}` is not a function: the functions are {', '.join((*FUNCTIONS, *OF_MATRICES))}; "
            "write a product with its letters, as in `a *(i,i->i) (b + c)`"
        )
    if token.type in ("LEFT", "LETTERS"):
        return "an operator is missing before the parenthesis: write a product as `a *(i,i->i) (b + c)`"
    return ""


_BINARY = frozenset({"STAR", "SLASH", "CARET", "LETTERS"})
THESIS = Language(
    grammar="grammar.lark",
    called="the language",
    longest=LONGEST,
    deepest=maxsize,
    example='"declare x 1 expression x *(i,i->) x derivative wrt x"',
    signs={
        "": "inputs consist of letters a-z and A-Z, digits, + - * / ^ ( ) and blanks",
        ",": "a comma separates the letters of a product, as in `a *(i,i->) b`",
        ">": "the arrow stands between the letters of a product, as in `a *(i,i->) b`",
        "_": "names are letters and digits, beginning with a letter",
        ".": "a number has a digit before or behind the point",
        "@": "write the product with its letters, as in `A *(ij,jk->ik) B`",
        "'": "write the transpose as `(ij->ji)A`",
        "=": "an input states an expression, and no equation (`parse_indexed` reads f[i] = …)",
        **dict.fromkeys(
            "[]",
            "parentheses are round; tensors are written without indices (`parse_indexed` reads entries such as x[i])",
        ),
    },
    groups=(
        (
            frozenset({"NUMBER", "NAME", "FUNCTION", "DELTA", "LEFT", "MINUS"}),
            "a number, a name, a function, `delta(n)`, `(` or `-`",
            _BINARY,
        ),
        (frozenset({"PLUS", "MINUS"}), "an operator (`+`, `-`, `/`, `^` or a product `*(ij,j->i)`)", _BINARY),
    ),
    slip=slip,
)
