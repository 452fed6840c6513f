"""`parse_indexed`: index notation as text."""

from __future__ import annotations

from sympy_tensordiff.errors import ArgumentTypeError
from sympy_tensordiff.parsing.api import ParsedExpression
from sympy_tensordiff.parsing.front import read
from sympy_tensordiff.parsing.indexed.build import Builder
from sympy_tensordiff.parsing.indexed.language import INDEXED


def parse_indexed(text: str) -> ParsedExpression:
    """An expression out of a text in index notation.

    Parameters
    ----------
    text : str
        ``declare A[m, n], x[n]  f[i] = sum(A[i, j]*x[j], j)  derivative wrt x``: tensors with their
        shapes, one definition, and what to differentiate by, several times for higher orders. At most
        20,000 characters. White space and ``;`` are free, ``#`` starts a comment up to the end of the line.

    Returns
    -------
    ParsedExpression
        As of `parse`.

    Raises
    ------
    ParseError
        If the text is no index notation, or its tensors do not fit; it has the line and the column.
    ArgumentTypeError
        If ``text`` is no str.

    Notes
    -----
    Names in shapes are sizes, names without brackets tensors of order 0; ``int idx[k]`` declares a
    tensor of integers, which may stand in indices, and ``int p`` an integer. A range is
    ``(k, first, last)``, both included and the first of several innermost, or ``k`` alone where it
    stands by itself at an axis, which it then runs along. The axes of the result run along the axes
    at which their indices stand, or have the extents of its own declaration (``declare f[n - 1], …``).
    Operators bind as in Python, but for ``&`` and ``|``, which are ``and`` and ``or``; ``^`` is ``**``.
    ``//`` and ``%`` are ``floor`` of the quotient and ``Mod``.
    What is printed for expressions of the package can be read again.

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
    line 1, column 28: y is no declared tensor; take a declared name: x
    declare x[n]  s = sum(x[j]*y[j], j)  derivative wrt x
                               ^
    """
    if not isinstance(text, str):
        raise ArgumentTypeError(f"the input of parse_indexed is a text, not {type(text).__name__}")
    root = read(INDEXED, text)
    builder = Builder(root)
    arguments = tuple(builder.names.argument(node) for node in root.of_kind("argument"))
    (right,) = (part for part in root.parts if part.kind not in ("declaration", "argument"))
    expression = builder.definition(right)
    return ParsedExpression(builder.names.tensors, expression, arguments)
