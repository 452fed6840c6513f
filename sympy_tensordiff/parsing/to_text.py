"""The function `to_text`: expressions in the language of Lippmann's thesis, in index notation, as matrix formulas."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from sympy import S, Symbol

from sympy_tensordiff.errors import ArgumentError, ParseError, UnsupportedError
from sympy_tensordiff.parsing.api import parse
from sympy_tensordiff.parsing.indexed.api import parse_indexed
from sympy_tensordiff.parsing.matrix.api import read_matrix
from sympy_tensordiff.parsing.parsed import ParsedExpression
from sympy_tensordiff.parsing.text_terms import joined_text
from sympy_tensordiff.parsing.text_writer import ThesisWriter
from sympy_tensordiff.symbolic.conversion.rewriting import for_readers
from sympy_tensordiff.symbolic.expressions.arguments import as_expr
from sympy_tensordiff.symbolic.expressions.call_errors import explained
from sympy_tensordiff.symbolic.expressions.traversal import scans_in
from sympy_tensordiff.symbolic.index_notation.tensors import TensorSymbol, in_full
from sympy_tensordiff.symbolic.printing.printed_forms import refuse_unprintable
from sympy_tensordiff.symbolic.whole_tensors.operations import shape_of


@explained
def to_text(expr: Any, language: str = "thesis") -> str:
    """Return an expression as a text in a ``language`` ("thesis", "index" or "matrix") that `parse` reads.

    Parameters
    ----------
    expr : Expr or ParsedExpression
        A tensor expression, a scalar, or a result of `parse`.
    language : {"thesis", "index", "matrix"}
        The language of the thesis, index notation, or matrix formulas.

    Returns
    -------
    str
        For an expression the text between ``expression`` and ``derivative wrt``; for a parsed input the whole input.
        A result of `parse` is read back as the same expression, other expressions, such as derivatives, as one with
        the same value. The language has no sizes: a repeated number whose axes no tensor determines is read back
        with new sizes.

    Raises
    ------
    UnsupportedError
        If the language cannot express a part, which the message names: functions that it neither has nor can compose,
        the maximum of two tensors, exponents with axes, sizes as numbers, derivatives of the adjugate, single entries,
        ranges over a part of an axis, more than 26 axes in a product, more than 200,000 characters, sizes that follow
        only from a term that SymPy has evaluated to 0. Matrix formulas have no tensors with more than two axes.
    ArgumentError
        If the language is unknown, or the name of a tensor is invalid or ambiguous.
    ArgumentTypeError
        If ``expr`` is not an expression.

    Notes
    -----
    Parentheses are written only where the grammar needs them (Lippmann's thesis, section 2.3). Products of more than
    two operands become products of two.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> parsed = td.parse("declare A 2 x 1 expression sin(A *(ij,j->i) x) derivative wrt x")
    >>> td.to_text(parsed.derivative())
    'A *(ij,i->ij) cos(A *(ij,j->i) x)'
    >>> td.to_text(parsed)
    'declare A 2 x 1 expression sin(A *(ij,j->i) x) derivative wrt x'
    >>> td.to_text(parsed.derivative(), language="matrix")
    'diag(cos(A @ x)) @ A'
    >>> td.to_text(td.parse("declare X 2 expression adj(X) derivative wrt X").derivative())
    Traceback (most recent call last):
    ...
    sympy_tensordiff.errors.UnsupportedError: to_text: TensorCofactor(2, X) ...
    """
    if not isinstance(expr, ParsedExpression):
        expr = in_full(as_expr(expr, "the argument of to_text"))
    scans = [] if isinstance(expr, ParsedExpression) else scans_in([expr])
    if scans and language in ("index", "matrix"):
        raise UnsupportedError(
            f"to_text: no text language writes this recurrence: str(…) of {scans[0]} is a text of Python, and "
            "td.parse reads what td.latex prints"
        )
    if language in ("index", "matrix"):
        return to_index_text(expr) if language == "index" else to_matrix_text(expr)
    if language != "thesis":
        raise ArgumentError(f"to_text writes the languages 'thesis', 'index' and 'matrix', not {language!r}")
    if not isinstance(expr, ParsedExpression):
        writer = ThesisWriter(expr)
        text = joined_text(writer.write())
        if writer.extents:
            tensors = writer.names or {"x": S.One}
            _check_summed_extents(writer, tensors, _read_back(_input_text(text, tensors, [*tensors][:1])))
        return text
    writer = ThesisWriter(expr.expression, expr.tensors.values())
    text = _input_text(joined_text(writer.write()), expr.tensors, [argument.name for argument in expr.arguments])
    again = _read_back(text)
    _check_summed_extents(writer, expr.tensors, again)
    _check_equal_sizes(expr, again)
    return text


def _input_text(text: str, tensors: Mapping[str, Any], arguments: Iterable[str]) -> str:
    """Return a complete text to parse: declarations of `tensors`, the expression's ``text``, and a derivative clause
    for each of `arguments`.
    """
    declarations = "".join(f"{name} {len(getattr(tensor, 'shape', ()))} " for name, tensor in tensors.items())
    return f"declare {declarations}expression {text}{''.join(f' derivative wrt {name}' for name in arguments)}"


def _read_back(whole: str) -> ParsedExpression:
    """Return the written text `whole`, parsed again; raise `UnsupportedError` if it cannot be parsed."""
    try:
        return parse(whole)
    except ParseError as error:
        raise UnsupportedError(f"to_text: td.parse would not read the text: {error.message}") from None


def _check_summed_extents(writer: ThesisWriter, tensors: Mapping[str, Any], again: ParsedExpression) -> None:
    """Raise `UnsupportedError` if the text of ``writer`` does not determine the length of a summed axis, because none
    of ``tensors`` has this axis. ``again`` is the text, parsed again.

    An axis of a repeated number or delta may be summed that no tensor has; parsed back, it would have any extent.
    """
    own = _sizes_without_axis(writer.expr, tensors)
    is_given = any(not extent.is_Symbol and extent.free_symbols & own for extent in writer.extents)
    if is_given or len(_sizes_without_axis(again.expression, again.tensors)) > len(own):
        raise UnsupportedError(
            f"to_text: the extent {' or '.join(map(str, writer.extents))} of a repeated number or delta is summed "
            "over, and no tensor has an axis there, so that the text cannot say it; write the sum as a number, or as a "
            "tensor of order 0"
        )


def _sizes_without_axis(expr: Any, tensors: Mapping[str, Any]) -> set[Any]:
    """Return the size symbols in ``expr`` that occur in no shape: neither in that of one of ``tensors``, nor in that of
    ``expr`` itself.
    """
    shapes = [getattr(tensor, "shape", ()) for tensor in (expr, *tensors.values())]
    fixed = {symbol for shape in shapes for extent in shape for symbol in extent.free_symbols}
    return expr.free_symbols - fixed - {*tensors.values()}  # type: ignore[no-any-return]


def _check_equal_sizes(parsed: ParsedExpression, again: ParsedExpression) -> None:
    """Raise `UnsupportedError` unless ``parsed`` and ``again`` require the same axes to be equally long. ``again`` is
    the result of writing ``parsed`` as text and parsing this text.

    SymPy evaluates ``0 *(,->) (x *(i,i->) y)`` to 0, which loses the constraint on the sizes.
    """
    first, second = ((*p.tensors.items(), ("the expression", p.expression)) for p in (parsed, again))
    known: dict[Any, tuple[str, Any]] = {}
    for (name, tensor), (_, other) in zip(first, second, strict=True):
        for axis, (old, new) in enumerate(zip(getattr(tensor, "shape", ()), getattr(other, "shape", ()), strict=True)):
            here = f"axis {axis} of {name}"
            for before, after in ((("old", old), new), (("new", new), old)):
                there, expected = known.setdefault(before, (here, after))
                if expected != after:
                    raise UnsupportedError(
                        f"to_text: the text would not say whether {there} and {here} are equally long: a term that "
                        "says so has vanished, as a product by 0 does; leave it out of the input, or write one that "
                        "stays"
                    )


def to_index_text(expr: Any) -> str:
    """Return the text of the expression ``expr`` in index notation. If it was parsed, the text is a definition with its
    declarations and derivative clauses.
    """
    expression, declared, arguments = text_parts(expr)
    expression = for_readers(expression)
    refuse_unprintable(expression, "index notation")
    text = str(expression)
    if not isinstance(expr, ParsedExpression):
        return text
    name = next(name for number in range(len(expr.tensors) + 1) if (name := f"f{number or ''}") not in expr.tensors)
    whole = f"declare {declared}  {name} = {text} {arguments}"
    try:
        parse_indexed(whole)
    except ParseError as error:
        raise UnsupportedError(f"to_text: td.parse_indexed would not read the text: {error.message}") from None
    return whole


def text_parts(expr: Any) -> tuple[Any, str, str]:
    """Return ``(expression, declarations of its tensors, derivative clauses)``, the latter two as text; `expr` may be a
    `ParsedExpression`.

    Without arguments it is an expression alone, without declarations.
    """
    if isinstance(expr, ParsedExpression):
        arguments = "".join(f" derivative wrt {argument.name}" for argument in expr.arguments)
        return expr.expression, ", ".join(map(_declaration, expr.tensors.values())), arguments
    expression = as_expr(expr, "the argument of to_text")
    return expression, ", ".join(map(_declaration, _named_symbols(expression).values())), ""


def to_matrix_text(expr: Any) -> str:
    """Write an expression as a matrix formula; if it was parsed, with its declarations and derivative clauses."""
    is_parsed = isinstance(expr, ParsedExpression)
    expression, declared, arguments = text_parts(expr)
    declared = f"declare {declared} " * bool(declared)
    refuse_unprintable(expression, "a matrix formula")
    text = str(expression)
    dotted = re.sub(r"(?<![*.])[*/](?![*])", r".\g<0>", text)
    is_numpy = bool(re.search(r"@|\.T\b|\*\*", text))
    reason = "it would be read as another expression"
    for candidate in (text,) if is_numpy else (text, dotted):
        try:
            again = read_matrix(f"{declared}{candidate}{arguments}")
        except ParseError as error:
            reason = error.message
            continue
        # If * is the matrix product, only the parsed expression shows whether the text means the same.
        is_same = again.expression == expression if candidate is not dotted and not is_numpy else True
        if is_same and shape_of(again.expression) == shape_of(expression):
            return f"{declared}{candidate}{arguments}" if is_parsed else candidate
    raise UnsupportedError(
        f'to_text: matrix formulas cannot say {expression}: {reason}; write it in index notation, with language="index"'
    )


def _named_symbols(expression: Any) -> dict[str, Any]:
    """Return the tensors and real symbols in ``expression`` by name; symbols of sizes are left out."""
    symbols = sorted(expression.free_symbols, key=str)
    sizes = {s for t in symbols if isinstance(t, TensorSymbol) for extent in t.shape for s in extent.free_symbols}
    sizes |= {s for extent in getattr(expression, "shape", ()) for s in extent.free_symbols}
    return {s.name: s for s in symbols if isinstance(s, TensorSymbol) or (isinstance(s, Symbol) and s not in sizes)}


def _declaration(tensor: Any) -> str:
    """Return the declaration of ``tensor`` in index notation, such as ``int idx[k]``."""
    shape = getattr(tensor, "shape", ())
    name = f"{'int ' * (getattr(tensor, 'dtype', float) is int)}{tensor.name}"
    return f"{name}[{', '.join(map(str, shape))}]" if shape else name
