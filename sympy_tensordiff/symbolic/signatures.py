"""What signatures and docstrings of public functions have in common.

SymPy has no types, so that ``Expr`` would accept everything: type checkers are told of `Expression`. Sections of
docstrings that several functions or classes share are written once (`documented`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import cleandoc, isfunction
from typing import Any, Protocol, TypeAlias, TypeVar, cast

from sympy_tensordiff.symbolic.calls import explained
from sympy_tensordiff.symbolic.tensors import TensorSymbol


class Expression(Protocol):
    """A tensor expression, or one of SymPy's: no text, no array, no number of Python's."""

    @property
    def free_symbols(self) -> Any:
        """The symbols in it."""


Scalar: TypeAlias = Expression | float
Tensors: TypeAlias = tuple[TensorSymbol, ...] | list[TensorSymbol]
Variables: TypeAlias = Sequence[Expression]


Documented = TypeVar("Documented")


def documented(sections: str) -> Callable[[Documented], Documented]:
    r"""A decorator that puts sections behind the first paragraph of a docstring, and explains calls of a function.

    >>> documented("Raises")(type("T", (), {"__doc__": "A class." + chr(10) * 2 + "Notes"})).__doc__
    'A class.\n\nRaises\n\nNotes'
    """

    def with_sections(described: Documented) -> Documented:
        if described.__doc__:  # there is none under python -OO
            first, _, rest = cleandoc(described.__doc__).partition("\n\n")
            described.__doc__ = "\n\n".join(filter(None, (first, cleandoc(sections), rest)))
        return cast(Documented, explained(described)) if isfunction(described) else described

    return with_sections
