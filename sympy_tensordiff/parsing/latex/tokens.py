"""The definition of LaTeX for the front end, and the direction of vertical bars."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from lark import Token

from sympy_tensordiff.parsing.frontend import TERMINALS, Language

MAX_INPUT = 4_500
"""The greatest number of characters of an input."""
MAX_DEPTH = 120
"""The greatest depth of the syntax tree; a pair of parentheses has about three levels."""
ENVIRONMENTS = frozenset(
    ["cases", "aligned", "align", "align*", "equation", "equation*", "split", "gather", "gathered"]
)
EXAMPLE = r"r'\|A x - b\|_2^2' or r'declare A[m, n], x[n]  \sum_{i=0}^{n-1} x_i^2  derivative wrt x'"

_OPERATORS = frozenset(
    [
        "SIGN",
        "OPERATOR",
        "ENTRYWISE",
        "COMPARE",
        "AND",
        "OR",
        "COMMA",
        "LEFT",
        "LEFT_BRACKET",
        "LEFT_BRACE",
        "LEFT_BAR",
        "LEFT_BARS",
        "LEFT_ANGLE",
        "COLUMN",
        "ROW",
        "FUNCTION",
        "FRACTION",
        "ROOT",
        "BINDER",
        "FOR",
        "WHERE",
        "WRT",
        "DECLARE",
        "BEGIN_CASES",
    ]
)
"""Terminals after which a vertical bar opens."""


class Bars:
    r"""A token filter that decides for each bar ``|`` or ``\|``, which looks the same on both sides, whether it opens
    or closes.
    """

    always_accept = ("BAR", "BARS")

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        """Yield the tokens of ``stream``, with each bar marked as opening or closing (LEFT_BAR, RIGHT_BAR, LEFT_BARS or
        RIGHT_BARS).
        """
        opened: list[str] = []
        before = "COMMA"
        for token in stream:
            if token.type in self.always_accept:
                closes = before not in _OPERATORS and opened[-1:] == [token.type]
                opened.pop() if closes else opened.append(token.type)
                token = Token.new_borrow_pos(("RIGHT_" if closes else "LEFT_") + token.type, token.value, token)
            elif token.type in ("LEFT", "LEFT_BRACKET", "LEFT_BRACE"):
                opened.append(token.type)
            elif token.type in ("RIGHT", "RIGHT_BRACKET", "RIGHT_BRACE") and opened:
                opened.pop()
            before = token.type
            yield token


def mistake_hint(token: Token, expected: Collection[str], before: list[Token]) -> str:
    """Return a hint for the error message if the unexpected ``token`` is a frequent mistake, given the ``expected``
    terminals and the tokens ``before`` it; else "".
    """
    if token.type == "COMMAND" or (token.type == "NAME" and token.startswith("\\")):
        return f"`{token}` is not read here"
    if token.type == "PRIME":
        return "a prime follows a matrix"
    return ""


LATEX = Language(
    grammar="latex/grammar.lark",
    display_name="the LaTeX of formulas",
    max_length=MAX_INPUT,
    max_depth=MAX_DEPTH,
    example=EXAMPLE,
    signs={
        "": "formulas consist of letters, digits, operators and commands such as \\frac, \\sum, \\operatorname{tr}",
        "\\": "commands of layout and definitions are not read, nor are environments but cases, columns and aligned",
        "#": "macros are not read: write the formula itself",
        "!": "factorials are not read",
        ":": "a definition is written with =",
    },
    groups=((frozenset({"NUMBER"}), "an operand", frozenset(TERMINALS)),),
    mistake_hint=mistake_hint,
    lexer="contextual",
    postlex=Bars(),
)
