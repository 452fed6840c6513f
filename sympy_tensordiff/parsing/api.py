"""The function `parse` and the detection of the language of a text."""

from __future__ import annotations

import re

from sympy_tensordiff.errors import ArgumentError, ArgumentTypeError
from sympy_tensordiff.parsing.axes import MAX_INPUT, THESIS, AxisSizes, declared_orders
from sympy_tensordiff.parsing.build import ThesisBuilder
from sympy_tensordiff.parsing.frontend import bottom_up, read
from sympy_tensordiff.parsing.indexed.api import parse_indexed
from sympy_tensordiff.parsing.latex.api import read_latex
from sympy_tensordiff.parsing.matrix.api import read_matrix
from sympy_tensordiff.parsing.parsed import ParsedExpression
from sympy_tensordiff.parsing.recurrences import with_recurrences
from sympy_tensordiff.symbolic.expressions.call_errors import explained


@explained
def parse(text: str, language: str | None = None) -> ParsedExpression:
    r"""Parse a formula in the text language of Lippmann's thesis, in index notation, in LaTeX or as a matrix formula,
    and return it as a `ParsedExpression`.

    Parameters
    ----------
    text : str
        ``declare NAME ORDER … expression EXPRESSION derivative wrt NAME``, at most 200,000 characters; several
        ``derivative wrt NAME`` give a higher-order derivative. White space is free, ``#`` starts a comment up to the
        end of the line. Index notation is described at `parse_indexed`. A matrix formula uses the notation of MATLAB,
        ``norm2(A*x - y)^2``, or of NumPy, ``X.T @ (sigmoid(X @ w) - y)``; ``declare A[m, n], x[n]`` before it and
        ``derivative wrt x`` after it are optional. LaTeX is read as papers and `td.latex` write it, with the same
        optional declarations.
    language : {"thesis", "index", "matrix", "latex"}, optional
        The default is detected: LaTeX contains a command, index notation contains an equation, the language of the
        thesis begins with ``declare``, a name and its order, and any other text is a matrix formula.

    Returns
    -------
    ParsedExpression
        The tensors, the expression, and the variables of the derivative.

    Raises
    ------
    ParseError
        If the text is invalid, or its tensors do not fit; the error has the line and the column.
    ArgumentTypeError
        If ``text`` is not a str.
    ArgumentError
        If ``language`` is unknown.

    Notes
    -----
    *Matrix formulas.* Orders and sizes of undeclared names are inferred from their use. If several orders fit, names
    that start with a capital are matrices, as ``assumed`` of the result records; for other names an error asks for a
    declaration. `norm2` is the Euclidean or Frobenius norm, ``vector(1)`` repeats a number, ``eye`` is the unit matrix.
    If ``@``, ``.T`` or ``**`` occurs, ``*`` is element-wise, as for NumPy arrays.

    *Recurrences.* After "where" are lines such as ``h[t] = tanh(W @ h[t-1] + x[t]), h[-1] = h0``, in LaTeX with
    subscripts; ``h`` is then a `Scan`. The tensors are declared. A step reads states at ``t-1`` and other lines at
    ``t``; with ``h[T] = h0`` it runs backwards and reads ``h[t+1]``.

    *LaTeX.* A subscript is an index if something binds it, or if its tensor has indices elsewhere; otherwise it is a
    part of the name. The ranges of indices and the declarations give the sizes. Indices that start at 1 are shifted, as
    ``assumed`` records. Macros are not expanded. A product is written without a sign, an element-wise one with
    ``\odot``.

    *The text language of Lippmann's thesis.*
    Operators by decreasing precedence (Lippmann's thesis, section 2.3): ``^`` from left to right, with an atom as
    exponent; ``-`` and the unary product ``(ij->ji)A`` before an operand, so that ``-x^2`` is ``-(x^2)``; the products
    ``*(ij,jk->ik)`` and ``/`` from left to right; ``+`` and ``-`` from left to right.

    Numbers are exact (``0.5`` is 1/2). Numbers and tensors of order 0 fit any order. Axes with the same letter in a
    product, and the axes of both operands of a sum, have equal lengths (thesis, section 3.2.4).

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
    >>> td.parse(r"\sum_{i=1}^{n-1} (x_{i+1} - x_i)^2", language="latex").expression
    IndexedSum((x[i + 1] - x[i])**2, (i, 0, n - 2))
    """
    if not isinstance(text, str):
        raise ArgumentTypeError(f"td.parse takes a str, not {type(text).__name__}")
    if language is not None and language not in LANGUAGES:
        raise ArgumentError(f"there is no language {language!r}; the languages are {', '.join(map(repr, LANGUAGES))}")
    return LANGUAGES[language or language_of(text)](text)


def _parse_thesis(text: str) -> ParsedExpression:
    """Parse ``text`` in the text language of Lippmann's thesis, such as ``declare A 2 expression det(A) derivative wrt
    A``; raise `ParseError` if it is invalid.
    """
    root = read(THESIS, text)
    orders = declared_orders(root)
    nodes = bottom_up(root.body)
    builder = ThesisBuilder(AxisSizes(orders, nodes))
    result = builder.expression(nodes)
    return ParsedExpression(
        builder.tensors, result, tuple(builder.tensors[node.text] for node in root.of_kind("argument"))
    )


LANGUAGES = with_recurrences(
    {"thesis": _parse_thesis, "index": parse_indexed, "matrix": read_matrix, "latex": read_latex}
)
"""The parser of each language."""


def language_of(text: str) -> str:
    """Return the language in which ``text`` seems to be written: "thesis" (the text language of Lippmann's thesis),
    "index", "matrix" or "latex".
    """
    if _COMMAND.search(text):
        return "latex"
    code = re.sub(r"#.*", "", text)
    code = re.sub(r"\bwhere\b(?!\s*\().*", "", code, flags=re.DOTALL)  # the lines of a recurrence
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


_COMMAND = re.compile(r"\\[A-Za-z]{2,}|\\\||[_^]\s*\{")
# f(x) = … and, without declarations, f = …, which index notation has with a declaration only.
_HEADING = re.compile(
    r"\s*(declare\b[^=()]*\s)?[A-Za-z]\w*\s*\(\s*[A-Za-z]\w*(\s*,\s*[A-Za-z]\w*)*\s*\)\s*=(?!=)|\s*[A-Za-z]\w*\s*=(?!=)"
)
# Matrix formulas declare shapes in brackets, or nothing after the name: a number there is an order of the thesis.
_THESIS = re.compile(r"\bexpression\b|^\s*declare\s*(\w+\s*)?$|^\s*declare\s+\w+\s+[\d.]+\s*($|\w)")
