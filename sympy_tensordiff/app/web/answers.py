"""Requests of the page and their answers as JSON values, independent of network and processes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import sympy_tensordiff as td
from sympy_tensordiff.app.forms import BACKENDS, certificate, certificate_text, check_lines, form_text, parsed_input
from sympy_tensordiff.errors import ParseError, TensorDiffError, UnsupportedError
from sympy_tensordiff.lazy import numpy as np
from sympy_tensordiff.symbolic.printing.printed_forms import refuse_unprintable
from sympy_tensordiff.testing.values import random_values, size_symbols

Answer: TypeAlias = dict[str, Any]
Typesetter: TypeAlias = Callable[[str], str]
"""A function that converts a formula in LaTeX to MathML."""

MAX_SOURCE_LENGTH = 20_000
"""The greatest number of characters of an input."""
MAX_TEXT_LENGTH = 200_000
"""The greatest number of characters of an answer."""
MAX_FORMULA_LENGTH = 20_000
"""The greatest number of characters of a formula in LaTeX that is typeset; longer ones would hold up the browser."""
MAX_DOMAIN_LENGTH = 40
"""The greatest number of characters of a domain."""
MAX_SIZE = 1000
"""The greatest size of an axis for ``"numbers"``."""
VARIABLES = ("x", "X", "w", "W", "theta", "beta", "u", "U", "z", "Z", "y", "Y")
"""The default variables of a formula without a derivative clause, the likeliest first."""
WANTS = ("formulas", "python", *BACKENDS, "graph", "check", "convex", "numbers")
LANGUAGES = {"any": None, "index": "index", "matrix": "matrix", "latex": "latex", "text": "thesis"}
"""The languages of the input, as names for `parse`; ``None`` is detected."""
CHOICES: dict[str, tuple[Any, ...]] = {"language": tuple(LANGUAGES), "order": (1, 2), "want": WANTS}


class RequestError(Exception):
    """The request is invalid; the message says why, in one line."""


class Request(NamedTuple):
    """A request of the page; field names are the keys in JSON.

    Attributes
    ----------
    language : {"any", "index", "matrix", "latex", "text"}
        The language of ``source``: detected, index notation, matrix formulas, LaTeX, or the language of the thesis.
    source : str
        At most 20,000 characters.
    order : {1, 2}
        The order of the derivative; 2 repeats the last variable.
    wrt : list of str
        The variables; if empty, those of the source, or the likeliest name.
    sizes : dict of str
        Sizes for ``"numbers"``; the others are 2, 3, 4, … in the order of their names.
    domains : dict of str
        For ``"convex"``: the domain of the entries of a tensor, ``"positive"``, ``"nonnegative"``, or ``"0 : 1"``.
    want : str
        The requested result: ``"formulas"``, the code for a backend, a program, the graph, a check, or numbers.
    """

    language: str
    source: str
    order: int
    wrt: Sequence[str]
    sizes: Mapping[str, int]
    domains: Mapping[str, str]
    want: str


def parse_request(body: bytes) -> Request:
    """Return the request in the body of an HTTP request; raise `RequestError` if the body is not a JSON object with
    the fields of `Request` as keys, or a value is out of range.
    """
    try:
        found = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError):
        raise RequestError("the request is not a JSON text") from None
    if not isinstance(found, dict) or set(found) != set(Request._fields):
        raise RequestError(f"a request has {', '.join(Request._fields)}")
    source = found["source"]
    if not isinstance(source, str) or len(source) > MAX_SOURCE_LENGTH:
        raise RequestError(f"the source is a text of at most {MAX_SOURCE_LENGTH:,} characters")
    if any(0xD800 <= ord(character) < 0xE000 for character in source):
        raise RequestError("the source holds half a character")
    for name, known in CHOICES.items():
        if type(found[name]) is not type(known[0]) or found[name] not in known:  # True is not 1
            raise RequestError(f"{name} is one of {', '.join(map(str, known))}")
    wrt, sizes = found["wrt"], found["sizes"]
    if not isinstance(wrt, list) or len(wrt) > 2 or not all(isinstance(name, str) for name in wrt):
        raise RequestError("wrt is a list of at most two names")
    if not isinstance(sizes, dict) or not all(type(n) is int and 0 <= n <= MAX_SIZE for n in sizes.values()):
        raise RequestError(f"sizes are integers from 0 to {MAX_SIZE:,} by their names")
    domains = found["domains"]
    if not isinstance(domains, dict) or not all(
        isinstance(d, str) and len(d) <= MAX_DOMAIN_LENGTH for d in domains.values()
    ):
        raise RequestError(f"domains are texts of at most {MAX_DOMAIN_LENGTH} characters by their names")
    return Request(**found)


def answer(request: Request, typeset: Typesetter | None = None) -> Answer:
    """Return the answer to ``request``: a dict with the requested result, or with ``"error"``. Formulas have the key
    ``"mathml"`` if there is a function ``typeset``, which converts LaTeX to MathML.
    """
    try:
        parsed, derivative = parse_and_derive(request.language, request.source, request.order, tuple(request.wrt))
        if request.want == "formulas":
            return formulas(parsed, derivative, typeset)
        if request.want == "graph":
            return {"graph": text_or_error(lambda: td.draw_graph(parsed, simplify=True).svg())}
        if request.want == "check":
            return {"check": text_or_error(lambda: "\n".join(check_lines(parsed, derivative)))}
        if request.want == "convex":
            return {"convex": convexity(parsed, request.domains, typeset)}
        if request.want == "numbers":
            return {"numbers": text_or_error(lambda: numbers(parsed, derivative, request.sizes))}
        return {"code": text_or_error(lambda: form_text(parsed, derivative, request.want))}
    except ParseError as error:
        place = {"line": error.line, "column": error.column, "text": str(error)}
        return {"error": error.message, "place": place}
    except TensorDiffError as error:
        return {"error": str(error)}
    except RecursionError:
        return {"error": "the expression or its derivative is nested too deeply"}


def answer_text(body: str, typeset: Typesetter) -> str:
    """Return the answer to a request of the page as JSON text; ``body`` is the request, also JSON text. ``typeset``
    converts LaTeX to MathML.
    """
    try:
        return json.dumps(answer(parse_request(body.encode("utf-8", "surrogatepass")), typeset))
    except RequestError as error:
        return json.dumps({"error": str(error)})


@lru_cache(maxsize=4)
def parse_and_derive(language: str, source: str, order: int, wrt: tuple[str, ...]) -> tuple[Any, Any]:
    """Parse the input text ``source`` in ``language`` and differentiate it. Return ``(parsed, derivative)``; the
    derivative has the given ``order``, with respect to the variables named in ``wrt``.

    The last few results are cached, since a page asks for several forms of one.
    """
    parsed = parsed_input(source, LANGUAGES[language])
    names = [name for name in wrt if name in parsed.tensors]  # a name may have been typed over
    if not names and not parsed.arguments:  # a matrix formula
        known = [name for name, tensor in parsed.tensors.items() if tensor.dtype is float]
        names = [name for name in VARIABLES if name in known][:1] or known[:1]
    parsed = parsed.with_respect_to(names[:order] or None)
    if order == 2 and len(names) < 2:
        parsed = parsed.with_respect_to((*parsed.arguments, parsed.arguments[-1]))
    return parsed, parsed.derivative()


def formulas(parsed: Any, derivative: Any, typeset: Typesetter | None = None) -> Answer:
    """Return the dictionary that the page shows for the input ``parsed``: the expression, its variables and sizes, and
    the ``derivative`` in all notations. ``typeset`` converts LaTeX to MathML; without it, formulas are LaTeX only.
    """
    notations: dict[str, Callable[[], str]] = {
        "index": lambda: form_text(parsed, derivative, "index"),
        "einsum": lambda: thesis_text(derivative),
        "matrix": lambda: whole_tensor_text(derivative),
    }
    return {
        "variables": [name for name, tensor in parsed.tensors.items() if tensor.dtype is float],
        "sizes": {str(symbol): size for symbol, size in sizes_of(parsed, {}).items()},
        "wrt": [tensor.name for tensor in parsed.arguments],
        "assumed": list(parsed.assumed),
        "shape": shape_text(derivative),
        "expression": formula(lambda: str(td.latex(parsed.expression)), typeset),
        "derivative": {
            **formula_and_parts(derivative, typeset),
            **{name: text_or_error(write) for name, write in notations.items()},
        },
        "reading": bracket_note(derivative) or bracket_note(parsed.expression),
    }


def bracket_note(expr: Any) -> str:
    """Return an explanation of the notation ``[…]`` with bounds below it, if ``expr`` is printed with it; else ""."""
    if not isinstance(expr, td.TensorComprehension):
        return ""
    bounds = ", ".join(f"{index} < {extent}" for index, extent in expr.limits)
    ranges = " and ".join(f"{index} = 0, …, {extent - 1}" for index, extent in expr.limits)
    kind = {1: "vector", 2: "matrix"}.get(expr.rank, "tensor")
    return f"[…] with {bounds} below is the {kind} of the entries in the brackets, for {ranges}."


def sizes_of(parsed: Any, given: Mapping[str, int]) -> dict[Any, int]:
    """Return a number for each symbolic size of the expression ``parsed``: the one in ``given``, by name, or a small
    default that differs from those of other sizes.
    """
    symbols = size_symbols(*parsed.tensors.values(), parsed.expression)
    return {symbol: given.get(str(symbol), n) for n, symbol in enumerate(symbols, start=2)}


def numbers(parsed: Any, derivative: Any, given: Mapping[str, int]) -> str:
    """Return a text with random inputs and the values of the expression ``parsed`` and of its derivative at these
    inputs. ``given`` has the sizes that the user gave, by name.
    """
    expressions = (*parsed.tensors.values(), parsed.expression, derivative)
    values = random_values(expressions, sizes_of(parsed, given), kind="float")
    value, slope = td.evaluate((parsed.expression, derivative), values)
    inputs = [(name, values[tensor]) for name, tensor in parsed.tensors.items()]
    with np.printoptions(precision=4, suppress=True, threshold=200):
        return "\n".join(f"{name} =\n{array}" for name, array in [*inputs, ("value", value), ("derivative", slope)])


def formula(write: Callable[[], str], typeset: Typesetter | None) -> Answer:
    """Return the formula whose LaTeX ``write()`` returns, for the page: ``{"text": LaTeX}``, and MathML under
    ``"mathml"``; ``{"error": message}`` if ``write`` raises.

    There is no MathML if the formula is too long, or without ``typeset``, the converter.
    """
    result = text_or_error(write)
    if typeset is not None and len(result.get("text", "")) <= MAX_FORMULA_LENGTH and "text" in result:
        result["mathml"] = typeset(result["text"])
    return result


def formula_and_parts(expr: Any, typeset: Typesetter | None) -> Answer:
    """Return the LaTeX formula of `expr` for the page as ``{"latex": formula}``, and a second version as ``"other"`` if
    parts of the expression can be named. If given, ``typeset`` converts the formulas to MathML, too.

    If parts of the expression can be named, there are two formulas, with and without named parts: ``"latex"`` is the
    one that reads better, ``"other"`` the second one.
    """
    best = formula(lambda: str(td.latex(expr)), typeset)
    in_parts = formula(lambda: str(td.latex(expr, parts=True)), typeset)
    if best.get("text") == in_parts.get("text"):
        in_parts = formula(lambda: str(td.latex(expr, parts=False)), typeset)
    is_same = "error" in in_parts or best.get("text") == in_parts["text"]
    return {"latex": best} if is_same else {"latex": best, "other": in_parts}


def convexity(parsed: Any, given: Mapping[str, str], typeset: Typesetter | None = None) -> Answer:
    """Return the answer to "is the expression ``parsed`` convex for tensors in the domains ``given``?": a certificate
    of convexity or concavity with its proof, or an error message.

    ``typeset`` converts the formula of the proof to MathML. ``given`` maps names of tensors to the domains of their
    entries, as text.
    """
    domains = [(name, text) for name, text in given.items() if text.strip() and name in parsed.tensors]
    found: list[Any] = []

    def write() -> str:
        """Return the text of a certificate that the user's function is convex or, failing that, concave.

        The certificate, or None, replaces the contents of ``found``, a list of the enclosing function.
        """
        found.append(certificate(parsed, domains))
        other = None if found[0] else certificate(parsed, domains, concave=True)
        found[:] = [other or found[0]]
        return certificate_text(found[0])

    result = text_or_error(write)
    if "text" in result and found[0]:
        lines = r" \\ & ".join(found[0].latex_lines())
        result["proof"] = formula(lambda: rf"\begin{{aligned}} & {lines} \end{{aligned}}", typeset)
    return result


def text_or_error(write: Callable[[], str]) -> Answer:
    """Return ``{"text": write()}``, or ``{"error": message}`` if ``write`` raises or the text is too long to be
    shown.
    """
    try:
        text = write()
    except TensorDiffError as error:
        return {"error": str(error)}
    if len(text) > MAX_TEXT_LENGTH:
        return {"error": f"this takes {len(text):,} characters, and at most {MAX_TEXT_LENGTH:,} are shown"}
    return {"text": text}


def shape_text(expr: Any) -> str:
    """Return the shape as text, or "" for a scalar."""
    extents = map(str, getattr(expr, "shape", ()))
    return " × ".join(f"({extent})" if " " in extent else extent for extent in extents)


def thesis_text(expr: Any) -> str:
    """Return ``expr`` in the text language of Lippmann's thesis; raise `UnsupportedError` with a short reason if that
    is impossible.
    """
    try:
        return td.to_text(expr)
    except UnsupportedError as error:
        reason = str(error).rpartition("the text language of td.parse: ")[2].removeprefix("to_text: ")
        raise UnsupportedError(f"the text language cannot say this: {reason}") from None


def whole_tensor_text(expr: Any) -> str:
    """Return ``expr`` as operations on whole tensors; raise `UnsupportedError` if there are none."""
    whole = expr if getattr(expr, "shape", ()) == () else expr.rewrite(td.EinsumProduct)
    if isinstance(whole, td.TensorComprehension):
        raise UnsupportedError("there are no operations on whole tensors that give this; see the index notation")
    whole = whole.rewrite(td.EinsumProduct)
    refuse_unprintable(whole, "index notation")
    return str(whole)
