"""Requests and the answers to them, as what JSON can say. Nothing here knows of the network or of processes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np

import sympy_tensordiff as td
from sympy_tensordiff.app.forms import certificate, certificate_text, checks, form_text, parsed_input
from sympy_tensordiff.errors import ParseError, TensorDiffError, UnsupportedError
from sympy_tensordiff.symbolic.printing import refuse_unprintable
from sympy_tensordiff.testing.values import random_values, size_symbols

Answer: TypeAlias = dict[str, Any]

LONGEST_SOURCE = 20_000
"""The longest input, in characters."""
LONGEST = 200_000
"""Longer texts are not sent."""
LONGEST_DOMAIN = 40
"""The longest text for a domain."""
LARGEST_SIZE = 1000
"""Of an axis for which numbers are tried."""
VARIABLES = ("x", "X", "w", "W", "theta", "beta", "u", "U", "z", "Z", "y", "Y")
"""The names that a formula is differentiated with respect to where it does not say, the likeliest first."""
WANTS = ("formulas", "python", "numpy", "numba", "c", "cuda", "graph", "check", "convex", "numbers")
LANGUAGES = {"any": None, "index": "index", "matrix": "matrix", "text": "thesis"}
"""Languages of the input as `parse` calls them; ``None`` for the one that it detects."""
CHOICES: dict[str, tuple[Any, ...]] = {"language": tuple(LANGUAGES), "order": (1, 2), "want": WANTS}


class RequestError(Exception):
    """The request is none; the message says why, in a line."""


class Request(NamedTuple):
    """One question; the names of its parts are those in JSON.

    Attributes
    ----------
    language : {"any", "index", "matrix", "text"}
        Of ``source``: what it is detected to be, index notation, a matrix formula, or the text language.
    source : str
        At most 20,000 characters.
    order : {1, 2}
        2: the derivative with respect to what comes last, once more.
    wrt : list of str
        What to differentiate with respect to; empty: as the source says, else the likeliest name.
    sizes : dict of str
        Sizes for ``"numbers"``; those that are not named are 2, 3, 4, … in the order of their names.
    domains : dict of str
        For ``"convex"``: what the entries of a tensor are: ``"positive"``, ``"nonnegative"``, an interval ``"0 : 1"``.
    want : str
        What is to be told: ``"formulas"``, the code for a backend, a program, the graph, a check, or numbers.
    """

    language: str
    source: str
    order: int
    wrt: Sequence[str]
    sizes: Mapping[str, int]
    domains: Mapping[str, str]
    want: str


def request_of(body: bytes) -> Request:
    """The request in the body of a call.

    Raises
    ------
    RequestError
        If the body is no JSON object with these attributes, or one of them is out of its range.
    """
    try:
        found = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError):
        raise RequestError("the request is no JSON text") from None
    if not isinstance(found, dict) or set(found) != set(Request._fields):
        raise RequestError(f"a request has {', '.join(Request._fields)}")
    source = found["source"]
    if not isinstance(source, str) or len(source) > LONGEST_SOURCE:
        raise RequestError(f"the source is a text of at most {LONGEST_SOURCE:,} characters")
    if any(0xD800 <= ord(character) < 0xE000 for character in source):
        raise RequestError("the source holds half a character")
    for name, known in CHOICES.items():
        if type(found[name]) is not type(known[0]) or found[name] not in known:  # True is no 1
            raise RequestError(f"{name} is one of {', '.join(map(str, known))}")
    wrt, sizes = found["wrt"], found["sizes"]
    if not isinstance(wrt, list) or len(wrt) > 2 or not all(isinstance(name, str) for name in wrt):
        raise RequestError("wrt is a list of at most two names")
    if not isinstance(sizes, dict) or not all(type(n) is int and 0 <= n <= LARGEST_SIZE for n in sizes.values()):
        raise RequestError(f"sizes are integers from 0 to {LARGEST_SIZE:,} by their names")
    domains = found["domains"]
    if not isinstance(domains, dict) or not all(
        isinstance(d, str) and len(d) <= LONGEST_DOMAIN for d in domains.values()
    ):
        raise RequestError(f"domains are texts of at most {LONGEST_DOMAIN} characters by their names")
    return Request(**found)


def answer(request: Request) -> Answer:
    """What is told: a dict with what was asked for, or with ``"error"``."""
    try:
        parsed, derivative = derived(request.language, request.source, request.order, tuple(request.wrt))
        if request.want == "formulas":
            return formulas(parsed, derivative)
        if request.want == "graph":
            return {"graph": form(lambda: td.draw_graph(parsed, simplify=True).svg())}
        if request.want == "check":
            return {"check": form(lambda: "\n".join(checks(parsed, derivative)))}
        if request.want == "convex":
            return {"convex": convexity(parsed, request.domains)}
        if request.want == "numbers":
            return {"numbers": form(lambda: numbers(parsed, derivative, request.sizes))}
        return {"code": form(lambda: form_text(parsed, derivative, request.want))}
    except ParseError as error:
        place = {"line": error.line, "column": error.column, "text": str(error)}
        return {"error": error.message, "place": place}
    except TensorDiffError as error:
        return {"error": str(error)}
    except RecursionError:
        return {"error": "the expression or its derivative is nested too deeply"}


@lru_cache(maxsize=4)
def derived(language: str, source: str, order: int, wrt: tuple[str, ...]) -> tuple[Any, Any]:
    """What was parsed, and its derivative; a page asks for several forms of one."""
    parsed = parsed_input(source, LANGUAGES[language])
    names = [name for name in wrt if name in parsed.tensors]  # a name may have been typed over
    if not names and not parsed.arguments:  # a matrix formula
        known = [name for name, tensor in parsed.tensors.items() if tensor.dtype is float]
        names = [name for name in VARIABLES if name in known][:1] or known[:1]
    parsed = parsed.with_respect_to(names[:order] or None)
    if order == 2 and len(names) < 2:
        parsed = parsed.with_respect_to((*parsed.arguments, parsed.arguments[-1]))
    return parsed, parsed.derivative()


def formulas(parsed: Any, derivative: Any) -> Answer:
    """The expression, and the derivative in the notations of the package."""
    notations: dict[str, Callable[[], str]] = {
        "latex": lambda: form_text(parsed, derivative, "latex"),
        "index": lambda: form_text(parsed, derivative, "index"),
        "einsum": lambda: einsum(derivative),
        "matrix": lambda: matrix(derivative),
    }
    return {
        "variables": [name for name, tensor in parsed.tensors.items() if tensor.dtype is float],
        "sizes": {str(symbol): size for symbol, size in sizes_of(parsed, {}).items()},
        "wrt": [tensor.name for tensor in parsed.arguments],
        "assumed": list(parsed.assumed),
        "shape": shape(derivative),
        "expression": form(lambda: form_text(parsed, parsed.expression, "latex")),
        "derivative": {name: form(write) for name, write in notations.items()},
        "reading": reading(derivative) or reading(parsed.expression),
    }


def reading(expr: Any) -> str:
    """What brackets with conditions below mean, where a formula is written so; else nothing."""
    if not isinstance(expr, td.TensorComprehension):
        return ""
    bounds = ", ".join(f"{index} < {extent}" for index, extent in expr.limits)
    ranges = " and ".join(f"{index} = 0, …, {extent - 1}" for index, extent in expr.limits)
    kind = {1: "vector", 2: "matrix"}.get(expr.rank, "tensor")
    return f"[…] with {bounds} below is the {kind} of the entries in the brackets, for {ranges}."


def sizes_of(parsed: Any, given: Mapping[str, int]) -> dict[Any, int]:
    """Values of the sizes; those that are not given are small and different."""
    symbols = size_symbols(*parsed.tensors.values(), parsed.expression)
    return {symbol: given.get(str(symbol), n) for n, symbol in enumerate(symbols, start=2)}


def numbers(parsed: Any, derivative: Any, given: Mapping[str, int]) -> str:
    """Random inputs, and the value and the derivative there."""
    expressions = (*parsed.tensors.values(), parsed.expression, derivative)
    values = random_values(expressions, sizes_of(parsed, given), kind="float")
    value, slope = td.evaluate((parsed.expression, derivative), values)
    inputs = [(name, values[tensor]) for name, tensor in parsed.tensors.items()]
    with np.printoptions(precision=4, suppress=True, threshold=200):
        return "\n".join(f"{name} =\n{array}" for name, array in [*inputs, ("value", value), ("derivative", slope)])


def convexity(parsed: Any, given: Mapping[str, str]) -> Answer:
    """A certificate that the expression is convex, or else that it is concave, with its proof in LaTeX."""
    domains = [(name, text) for name, text in given.items() if text.strip() and name in parsed.tensors]
    found: list[Any] = []

    def write() -> str:
        found.append(certificate(parsed, domains))
        other = None if found[0] else certificate(parsed, domains, concave=True)
        found[:] = [other or found[0]]
        return certificate_text(found[0])

    told = form(write)
    if "text" in told and found[0]:
        told["latex"] = r"\begin{aligned} & " + r" \\ & ".join(found[0].latex_lines()) + r" \end{aligned}"
    return told


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
