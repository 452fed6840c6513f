"""Answers to requests, as what JSON can say. Nothing here knows of the network or of processes."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeAlias

import sympy

import sympy_tensordiff as td
from sympy_tensordiff.app.arguments import arguments_of
from sympy_tensordiff.app.size_checks import worst_errors
from sympy_tensordiff.app.web.requests import Language, Request
from sympy_tensordiff.errors import DerivativeMismatch, ParseError, TensorDiffError, UnsupportedError
from sympy_tensordiff.simplify.outside_reads import check_expression
from sympy_tensordiff.symbolic.for_readers import for_readers
from sympy_tensordiff.symbolic.printing import refuse_unprintable

Answer: TypeAlias = dict[str, Any]

LONGEST = 200_000
"""Longer texts are not sent."""


def answer(request: Request) -> Answer:
    """What is told: a dict with what was asked for, or with ``"error"``."""
    try:
        expression, derivative, parsed = derived(request.language, request.source, request.order)
        if request.want == "formulas":
            return formulas(parsed, expression, derivative)
        if request.want == "graph":
            return {"graph": form(lambda: td.draw_graph(parsed, simplify=True).svg())}
        if request.want == "check":
            return {"check": form(lambda: checked(parsed, derivative))}
        return {"code": form(lambda: code(parsed, derivative, request.want))}
    except ParseError as error:
        place = {"line": error.line, "column": error.column, "text": str(error)}
        return {"error": error.message, "place": place}
    except TensorDiffError as error:
        return {"error": str(error)}
    except RecursionError:
        return {"error": "the expression or its derivative is nested too deeply"}


@lru_cache(maxsize=4)
def derived(language: Language, source: str, order: int) -> tuple[Any, Any, Any]:
    """The expression, its derivative, and what was parsed; a page asks for several forms of one."""
    parsed = td.parse_indexed(source) if language == "index" else td.parse(source)
    check_expression(parsed.expression)
    if order == 2:
        parsed = td.ParsedExpression(parsed.tensors, parsed.expression, (*parsed.arguments, parsed.arguments[-1]))
    return parsed.expression, parsed.derivative(), parsed


def formulas(parsed: Any, expression: Any, derivative: Any) -> Answer:
    """The expression, and the derivative in the notations of the package."""
    notations: dict[str, Callable[[], str]] = {
        "latex": lambda: latex(derivative),
        "index": lambda: printed(for_readers(derivative)),
        "einsum": lambda: einsum(derivative),
        "matrix": lambda: matrix(derivative),
    }
    return {
        "tensors": [{"name": name, "shape": shape(tensor)} for name, tensor in parsed.tensors.items()],
        "wrt": [tensor.name for tensor in parsed.arguments],
        "shape": shape(derivative),
        "expression": form(lambda: latex(expression)),
        "derivative": {name: form(write) for name, write in notations.items()},
    }


def form(write: Callable[[], str]) -> Answer:
    """A text, or why there is none."""
    try:
        text = write()
    except TensorDiffError as error:
        return {"error": str(error)}
    if len(text) > LONGEST:
        return {"error": f"this takes {len(text):,} characters, and at most {LONGEST:,} are shown"}
    return {"text": text}


def shape(expr: Any) -> str:
    """The shape, as text; nothing for a scalar."""
    extents = map(str, getattr(expr, "shape", ()))
    return " × ".join(f"({extent})" if " " in extent else extent for extent in extents)


def latex(expr: Any) -> str:
    """LaTeX without dollars."""
    refuse_unprintable(expr, "LaTeX")
    return str(sympy.latex(expr))


def printed(expr: Any) -> str:
    """The text that Python prints, and `td.parse_indexed` reads."""
    refuse_unprintable(expr, "index notation")
    return str(expr)


def einsum(expr: Any) -> str:
    """The text language; where it has none for an expression, why, without the expression, which is on the page."""
    try:
        return td.to_text(expr)
    except UnsupportedError as error:
        reason = str(error).rpartition("the text language of td.parse: ")[2].removeprefix("to_text: ")
        raise UnsupportedError(f"the text language cannot say this: {reason}") from None


def matrix(expr: Any) -> str:
    """Operations on whole tensors."""
    whole = expr if getattr(expr, "shape", ()) == () else expr.rewrite(td.EinsumProduct)
    if isinstance(whole, td.TensorComprehension):
        raise UnsupportedError("there are no operations on whole tensors that give this; see the index notation")
    return printed(whole.rewrite(td.EinsumProduct))


def code(parsed: Any, derivative: Any, backend: str) -> str:
    """The module that computes the derivative."""
    return td.generate_code(arguments_of(parsed, derivative), derivative, backend)


def checked(parsed: Any, derivative: Any) -> str:
    """The derivative against central differences at random points, a line for each choice of the sizes."""
    lines = []
    try:
        for sizes, error in worst_errors(parsed, derivative):
            lines.append(f"{sizes}: largest relative error {error:.1e}")
    except DerivativeMismatch as error:
        raise DerivativeMismatch(f"the check has failed for {error}") from None
    return "\n".join(lines)
