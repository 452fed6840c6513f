"""Requests and the answers to them, as what JSON can say. Nothing here knows of the network or of processes."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import sympy_tensordiff as td
from sympy_tensordiff.app.forms import checks, parsed_input, written
from sympy_tensordiff.errors import ParseError, TensorDiffError, UnsupportedError
from sympy_tensordiff.symbolic.printing import refuse_unprintable

Answer: TypeAlias = dict[str, Any]

LONGEST_SOURCE = 20_000
"""The longest input, in characters."""
LONGEST = 200_000
"""Longer texts are not sent."""
WANTS = ("formulas", "numpy", "numba", "cuda", "graph", "check")
CHOICES: dict[str, tuple[Any, ...]] = {"language": ("index", "matrix", "text"), "order": (1, 2), "want": WANTS}


class RequestError(Exception):
    """The request is none; the message says why, in a line."""


class Request(NamedTuple):
    """One question; the names of its parts are those in JSON.

    Attributes
    ----------
    language : {"index", "matrix", "text"}
        Of ``source``: index notation, a matrix formula, or the text language.
    source : str
        At most 20,000 characters.
    order : {1, 2}
        2: the derivative by what is differentiated by last, once more.
    want : str
        What is to be told: ``"formulas"``, the code for a backend, the graph, or a numeric check.
    """

    language: str
    source: str
    order: int
    want: str


def request_of(body: bytes) -> Request:
    """The request in the body of a call.

    Raises
    ------
    RequestError
        If the body is no JSON object with the four attributes, or one of them is out of its range.
    """
    try:
        found = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError):
        raise RequestError("the request is no JSON text") from None
    if not isinstance(found, dict) or set(found) != set(Request._fields):
        raise RequestError("a request has language, source, order and want")
    source = found["source"]
    if not isinstance(source, str) or len(source) > LONGEST_SOURCE:
        raise RequestError(f"the source is a text of at most {LONGEST_SOURCE:,} characters")
    if any(0xD800 <= ord(character) < 0xE000 for character in source):
        raise RequestError("the source holds half a character")
    for name, known in CHOICES.items():
        if type(found[name]) is not type(known[0]) or found[name] not in known:  # True is no 1
            raise RequestError(f"{name} is one of {', '.join(map(str, known))}")
    return Request(**found)


def answer(request: Request) -> Answer:
    """What is told: a dict with what was asked for, or with ``"error"``."""
    try:
        parsed, derivative = derived(request.language, request.source, request.order)
        if request.want == "formulas":
            return formulas(parsed, derivative)
        if request.want == "graph":
            return {"graph": form(lambda: td.draw_graph(parsed, simplify=True).svg())}
        if request.want == "check":
            return {"check": form(lambda: "\n".join(checks(parsed, derivative)))}
        return {"code": form(lambda: written(parsed, derivative, request.want))}
    except ParseError as error:
        place = {"line": error.line, "column": error.column, "text": str(error)}
        return {"error": error.message, "place": place}
    except TensorDiffError as error:
        return {"error": str(error)}
    except RecursionError:
        return {"error": "the expression or its derivative is nested too deeply"}


@lru_cache(maxsize=4)
def derived(language: str, source: str, order: int) -> tuple[Any, Any]:
    """What was parsed, and its derivative; a page asks for several forms of one."""
    parsed = parsed_input(source, {"text": "thesis"}.get(language, language))
    if not parsed.arguments and parsed.tensors:  # a matrix formula
        parsed = parsed.with_respect_to(next(iter(parsed.tensors)))
    if order == 2:
        parsed = parsed.with_respect_to((*parsed.arguments, parsed.arguments[-1]))
    return parsed, parsed.derivative()


def formulas(parsed: Any, derivative: Any) -> Answer:
    """The expression, and the derivative in the notations of the package."""
    notations: dict[str, Callable[[], str]] = {
        "latex": lambda: written(parsed, derivative, "latex"),
        "index": lambda: written(parsed, derivative, "index"),
        "einsum": lambda: einsum(derivative),
        "matrix": lambda: matrix(derivative),
    }
    return {
        "tensors": [{"name": name, "shape": shape(tensor)} for name, tensor in parsed.tensors.items()],
        "wrt": [tensor.name for tensor in parsed.arguments],
        "assumed": list(parsed.assumed),
        "shape": shape(derivative),
        "expression": form(lambda: written(parsed, parsed.expression, "latex")),
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
    whole = whole.rewrite(td.EinsumProduct)
    refuse_unprintable(whole, "index notation")
    return str(whole)
