"""Sections of docstrings that several functions or classes have in common, written once."""

from __future__ import annotations

from collections.abc import Callable
from inspect import cleandoc
from typing import TypeVar

Documented = TypeVar("Documented")


def documented(sections: str) -> Callable[[Documented], Documented]:
    r"""A decorator that puts sections behind the first paragraph of a docstring.

    >>> documented("Raises")(type("T", (), {"__doc__": "A class." + chr(10) * 2 + "Notes"})).__doc__
    'A class.\n\nRaises\n\nNotes'
    """

    def with_sections(described: Documented) -> Documented:
        if described.__doc__:  # there is none under python -OO
            first, _, rest = cleandoc(described.__doc__).partition("\n\n")
            described.__doc__ = "\n\n".join(filter(None, (first, cleandoc(sections), rest)))
        return described

    return with_sections
