"""What a page may ask for: a request out of JSON, and nothing else."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

LONGEST = 20_000
"""The longest input, in characters."""

Language: TypeAlias = Literal["index", "text"]
Want: TypeAlias = Literal["formulas", "numpy", "numba", "cuda", "graph", "check"]

LANGUAGES: tuple[Language, ...] = ("index", "text")
WANTS: tuple[Want, ...] = ("formulas", "numpy", "numba", "cuda", "graph", "check")
ORDERS = (1, 2)


class RequestError(Exception):
    """The request is none; the message says why, in a line."""


@dataclass(frozen=True, slots=True)
class Request:
    """One question.

    Attributes
    ----------
    language : {"index", "text"}
        Of ``source``: index notation, or the text language.
    source : str
        At most 20,000 characters.
    order : {1, 2}
        2: the derivative by what is differentiated by last, once more.
    want : str
        What is to be told: ``"formulas"``, the code for a backend, the graph, or a numeric check.
    """

    language: Language
    source: str
    order: int
    want: Want


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
    if not isinstance(found, dict) or set(found) != {"language", "source", "order", "want"}:
        raise RequestError("a request has language, source, order and want")
    source = found["source"]
    if not isinstance(source, str) or len(source) > LONGEST:
        raise RequestError(f"the source is a text of at most {LONGEST:,} characters")
    if any(0xD800 <= ord(character) < 0xE000 for character in source):
        raise RequestError("the source holds half a character")
    return Request(
        one_of("language", found["language"], LANGUAGES),
        source,
        one_of("order", found["order"], ORDERS),
        one_of("want", found["want"], WANTS),
    )


def one_of(name: str, value: Any, known: tuple[Any, ...]) -> Any:
    """The value, if it is among those known."""
    if type(value) is not type(known[0]) or value not in known:  # True is no 1
        raise RequestError(f"{name} is one of {', '.join(map(str, known))}")
    return value
