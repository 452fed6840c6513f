"""`parse`."""

from __future__ import annotations

import re

from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError
from sympy_tensordiff.parsing.axes import MAX_INPUT, THESIS, AxisSizes, declared_orders
from sympy_tensordiff.parsing.build import ThesisBuilder
from sympy_tensordiff.parsing.frontend import bottom_up, read
from sympy_tensordiff.parsing.indexed.api import parse_indexed
from sympy_tensordiff.parsing.matrix.api import read_matrix
from sympy_tensordiff.parsing.parsed import ParsedExpression
from sympy_tensordiff.symbolic.calls import explained


@explained
def parse(text: str, language: str | None = None) -> ParsedExpression:
    """An expression out of a text: in the language of the thesis, in index notation, or a matrix formula.

    Parameters
    ----------
    text : str
        ``declare NAME ORDER … expression EXPRESSION derivative wrt NAME``, at most 200,000 characters; several
        ``derivative wrt NAME`` mean a derivative of a higher order. White space is free, ``#`` starts a comment
        up to the end of the line. Index notation is as of `parse_indexed`. A matrix formula is as of MATLAB,
        ``norm2(A*x - y)^2``, or as of NumPy, ``X.T @ (sigmoid(X @ w) - y)``, with ``declare A[m, n], x[n]`` before
        it where that is needed, and ``derivative wrt x`` behind it where that is wanted.
    language : {"thesis", "index", "matrix"}, optional
        None: what the text is written in. Index notation has an equation, the language of the thesis begins with
        ``declare`` and a name with its order, all else is a matrix formula.

    Returns
    -------
    ParsedExpression
        The tensors, the expression, and what to differentiate by.

    Raises
    ------
    ParseError
        If the text is not in the language, or its tensors do not fit; it has the line and the column.
    ArgumentTypeError
        If ``text`` is no str.
    ArgumentError
        If there is no such language.

    Notes
    -----
    *Matrix formulas.* Orders and sizes of names that are not declared are inferred from their use; where nothing
    decides, names with a capital are matrices, which ``assumed`` of the result tells, and of others the message asks.
    `norm2` is the norm of Euclid, and of Frobenius, ``vector(1)`` repeats a number, ``eye`` is the unit matrix. Where
    ``@``, ``.T`` or ``**`` stands, ``*`` is the product of the entries, as of NumPy's arrays.

    *The language of the thesis.*
    The grammar of Lippmann (thesis, section 2.3), from what binds strongest: ``^`` from left to right, with an atom
    as exponent; ``-`` and the unary product ``(ij->ji)A`` before an operand, so that ``-x^2`` is ``-(x^2)``; the
    products ``*(ij,jk->ik)`` and ``/`` from left to right; ``+`` and ``-`` from left to right.

    Numbers are exact (``0.5`` is 1/2). Numbers and tensors of order 0 fit beside every order. Axes under one
    letter of a product and of the two sides of a sum are equally long (thesis, section 3.2.4).

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> parsed = td.parse("declare A 2 x 1 expression exp(A *(ij,j->i) x) derivative wrt x")
    >>> parsed.expression, parsed.tensors["A"].shape
    (exp(A @ x), (n, m))
    >>> parsed.derivative()
    diag(exp(A @ x)) @ A
    >>> td.parse("declare A 2 x 1 expression A + x derivative wrt x")
    Traceback (most recent call last):
    ...
    sympy_tensordiff.errors.ParseError: line 1, column 30: the operands of + have different orders: ...
    >>> parsed = td.parse("norm2(A*x - y)^2")
    >>> parsed.tensors["A"].shape, parsed.derivative(wrt="x")
    ((n, m), 2*A.T @ (A @ x - y))
    """
    if not isinstance(text, str):
        raise ArgumentTypeError(f"td.parse takes a str, not {type(text).__name__}")
    if language is not None and language not in LANGUAGES:
        raise ArgumentError(f"there is no language {language!r}; the languages are {', '.join(map(repr, LANGUAGES))}")
    return LANGUAGES[language or language_of(text)](text)


def _parse_thesis(text: str) -> ParsedExpression:
    """What `parse` reads in the language of the thesis."""
    root = read(THESIS, text)
    orders = declared_orders(root)
    nodes = bottom_up(root.body)
    builder = ThesisBuilder(AxisSizes(orders, nodes))
    result = builder.expression(nodes)
    return ParsedExpression(
        builder.tensors, result, tuple(builder.tensors[node.text] for node in root.of_kind("argument"))
    )


LANGUAGES = {"thesis": _parse_thesis, "index": parse_indexed, "matrix": read_matrix}
"""What reads the text of each language."""


def language_of(text: str) -> str:
    """The language that a text is written in, or is meant to be."""
    code = re.sub(r"#.*", "", text)
    if _HEADING.match(code):
        return "matrix"
    depth = 0
    for mark in re.finditer(r"[()]|(?<![<>=!])=(?!=)", code):
        depth += {"(": 1, ")": -1}.get(mark[0], 0)
        if mark[0] == "=" and depth <= 0:
            return "index"
    if len(text) > MAX_INPUT or not code.strip() or _THESIS.search(code):
        return "thesis"
    return "matrix"


# f(x) = … and, where nothing is declared, f = …, which index notation has with a declaration only.
_HEADING = re.compile(
    r"\s*(declare\b[^=()]*\s)?[A-Za-z]\w*\s*\(\s*[A-Za-z]\w*(\s*,\s*[A-Za-z]\w*)*\s*\)\s*=(?!=)|\s*[A-Za-z]\w*\s*=(?!=)"
)
# Matrix formulas declare shapes in brackets, or nothing behind the name: a number there is an order.
_THESIS = re.compile(r"\bexpression\b|^\s*declare\s*(\w+\s*)?$|^\s*declare\s+\w+\s+[\d.]+\s*($|\w)")
