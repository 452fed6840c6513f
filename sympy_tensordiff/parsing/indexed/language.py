"""Index notation for the front end: its limits, and what is said about frequent slips."""

from __future__ import annotations

from collections.abc import Collection

from lark import Token

from sympy_tensordiff.parsing.front import WORDS, Language, found

LONGEST = 20_000
"""The longest input, in characters."""
DEEPEST = 60
"""So many levels of parentheses, calls and indices may stand inside of each other."""
EXAMPLE = '"declare A[m, n], x[n]  f[i] = sum(A[i, j]*x[j], j)  derivative wrt x"'


def slip(token: Token, expected: Collection[str], before: list[Token]) -> str:
    """What is said about frequent slips; nothing where it is none of them."""
    if token.type in ("NAME", "NUMBER", "LEFT") and "STAR" in expected:
        hint = "write a product with `*`, and `derivative wrt` behind the one definition"
        return f"{found(token)} stands behind an operand; {hint}"
    if set(expected) == {"DECLARE"}:
        return f"{found(token)} is not expected here, but `declare`; an input reads {EXAMPLE}"
    if token.type == "NUMBER" and "LEFT_BRACKET" in expected and "EQUALS" in expected:
        return f"{found(token)} is no shape; shapes are in brackets, as in x[n] or A[m, 3]"
    return ""


INDEXED = Language(
    grammar="indexed/grammar.lark",
    called="index notation",
    longest=LONGEST,
    deepest=DEEPEST,
    example=EXAMPLE,
    signs={
        "": "names and operators consist of the letters and signs of ASCII",
        "'": "a transpose is read with its indices exchanged, A[j, i]",
        "@": "write the product with its indices, as in sum(A[i, j]*x[j], j)",
        ".": "a number has a digit before or behind the point, and nothing has methods",
        "_": "names begin with a letter, and indices stand in brackets, as in x[i]",
        **dict.fromkeys("{}", "indices stand in brackets, as in x[i]"),
        **dict.fromkeys("·×⋅∙", "the product is `*`"),
        **dict.fromkeys("−–", "the difference is `-`"),
        **dict.fromkeys("²³", "powers are written with `^`, as in x[i]^2"),
        **{"≤": "write `<=`", "≥": "write `>=`", "≠": "write `!=`", "√": "write sqrt(x[i])"},
        **{"∑": "write sum(x[k], k)", "Σ": "write sum(x[k], k)", "∏": "write prod(x[k], k)"},
    },
    groups=(
        (
            frozenset({"NUMBER"}),
            "an operand: a number, a name, an entry such as `x[i]`, or `(`",
            frozenset(WORDS),
        ),
    ),
    slip=slip,
)
