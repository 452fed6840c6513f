"""The function `parse_indexed` and the definition of index notation for the front end."""

from __future__ import annotations

from collections.abc import Collection

from lark import Token

from sympy_tensordiff.errors import ArgumentTypeError
from sympy_tensordiff.parsing.frontend import TERMINALS, Language, read, token_text
from sympy_tensordiff.parsing.indexed.build import IndexedBuilder
from sympy_tensordiff.parsing.parsed import ParsedExpression
from sympy_tensordiff.symbolic.expressions.call_errors import explained

MAX_INPUT = 20_000
"""The greatest number of characters of an input."""
MAX_DEPTH = 60
"""The greatest nesting depth of parentheses, calls and indices."""
EXAMPLE = '"declare A[m, n], x[n]  f[i] = sum(A[i, j]*x[j], j)  derivative wrt x"'


def mistake_hint(token: Token, expected: Collection[str], before: list[Token]) -> str:
    """Return a hint for the error message if the unexpected ``token`` is a frequent mistake, given the ``expected``
    terminals and the tokens ``before`` it; else "".
    """
    if token.type in ("NAME", "NUMBER", "LEFT") and "STAR" in expected:
        hint = "write a product with `*`, and `derivative wrt` after the only definition"
        return f"{token_text(token)} follows an operand; {hint}"
    if set(expected) == {"DECLARE"}:
        return f"{token_text(token)} is not expected here, but `declare`; an input reads {EXAMPLE}"
    if token.type == "NUMBER" and "LEFT_BRACKET" in expected and "EQUALS" in expected:
        return f"{token_text(token)} is not a shape; shapes are in brackets, as in x[n] or A[m, 3]"
    return ""


INDEXED = Language(
    grammar="indexed/grammar.lark",
    display_name="index notation",
    max_length=MAX_INPUT,
    max_depth=MAX_DEPTH,
    example=EXAMPLE,
    signs={
        "": "names and operators consist of the letters and signs of ASCII",
        "'": "a transpose is read with its indices exchanged, A[j, i]",
        "@": "write the product with its indices, as in sum(A[i, j]*x[j], j)",
        ".": "a number has a digit before or after the point, and nothing has methods",
        "_": "names begin with a letter, and indices are in brackets, as in x[i]",
        **dict.fromkeys("{}", "indices are in brackets, as in x[i]"),
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
            frozenset(TERMINALS),
        ),
    ),
    mistake_hint=mistake_hint,
)


@explained
def parse_indexed(text: str) -> ParsedExpression:
    """Parse a text in index notation and return it as a `ParsedExpression`.

    Parameters
    ----------
    text : str
        ``declare A[m, n], x[n]  f[i] = sum(A[i, j]*x[j], j)  derivative wrt x``: tensors with their
        shapes, one definition, and the variables of the derivative, several for higher orders. At most 20,000
        characters. White space and ``;`` are free, ``#`` starts a comment up to the end of the line.

    Raises
    ------
    ParseError
        If the text is invalid, or its tensors do not fit; the error has the line and the column.
    ArgumentTypeError
        If ``text`` is not a str.

    Notes
    -----
    Names in shapes are sizes, names without brackets tensors of order 0; ``int idx[k]`` declares a tensor of integers,
    which may be used as indices, and ``int p`` an integer. A range is ``(k, first, last)``, both included, the first of
    several ranges innermost; or ``k`` alone, which runs along the axes whose index is ``k``. The axes of the result
    have the extents of the axes with their index, or those of its declaration (``declare f[n - 1], …``). Operators have
    the precedence of Python, except that ``&`` and ``|`` are ``and`` and ``or``; ``^`` is ``**``. ``//`` and ``%`` are
    ``floor`` of the quotient and ``Mod``. Printed expressions of the package can be parsed.

    No part of the text is evaluated as code.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> text = "declare d[n + m - 1], w[m], f[n]  f[i] = sum(w[k]*d[i + k], k)  derivative wrt d"
    >>> td.parse_indexed(text).expression
    TensorComprehension(IndexedSum(d[i + k]*w[k], (k, 0, m - 1)), (i, n))
    >>> try:
    ...     td.parse_indexed("declare x[n]  s = sum(x[j]*y[j], j)  derivative wrt x")
    ... except td.errors.ParseError as error:
    ...     print(error)
    line 1, column 28: y is not a declared tensor; take a declared name: x
    declare x[n]  s = sum(x[j]*y[j], j)  derivative wrt x
                               ^
    """
    if not isinstance(text, str):
        raise ArgumentTypeError(f"the input of parse_indexed is a text, not {type(text).__name__}")
    root = read(INDEXED, text)
    builder = IndexedBuilder(root)
    arguments = tuple(builder.names.argument(node) for node in root.of_kind("argument"))
    expression = builder.definition(root.body)
    return ParsedExpression(builder.names.tensors, expression, arguments)
