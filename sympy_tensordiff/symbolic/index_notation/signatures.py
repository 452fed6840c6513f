"""Types in the signatures of public functions, and docstring sections that several of them share.

SymPy has no types, so that ``Expr`` would accept everything: signatures use `Expression` instead. Sections of
docstrings that several functions or classes share are written once (`documented`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import cleandoc, isfunction
from typing import Any, Protocol, TypeAlias, TypeVar, cast

from sympy_tensordiff.symbolic.expressions.call_errors import explained
from sympy_tensordiff.symbolic.index_notation.tensors import TensorSymbol


class Expression(Protocol):
    """The static type of a tensor expression or a SymPy expression. Strings, arrays and Python numbers do not
    match it.
    """

    @property
    def free_symbols(self) -> Any:
        """Return the free symbols of the expression."""


Scalar: TypeAlias = Expression | float
Tensors: TypeAlias = tuple[TensorSymbol, ...] | list[TensorSymbol]
Variables: TypeAlias = Sequence[Expression]


Documented = TypeVar("Documented")


def documented(sections: str) -> Callable[[Documented], Documented]:
    r"""Return a decorator that inserts ``sections`` (numpydoc text) after the first paragraph of a docstring. A
    function is also wrapped by `explained`, which gives better messages for wrong calls.

    >>> documented("Raises")(type("T", (), {"__doc__": "A class." + chr(10) * 2 + "Notes"})).__doc__
    'A class.\n\nRaises\n\nNotes'
    """

    def with_sections(described: Documented) -> Documented:
        """Insert the text ``sections`` into the docstring of ``described``, a function or class, after its first
        paragraph, and return ``described``. A function is also wrapped by `explained`, which explains wrong calls.
        """
        if described.__doc__:  # there is none under python -OO
            first, _, rest = cleandoc(described.__doc__).partition("\n\n")
            described.__doc__ = "\n\n".join(filter(None, (first, cleandoc(sections), rest)))
        return cast(Documented, explained(described)) if isfunction(described) else described

    return with_sections
