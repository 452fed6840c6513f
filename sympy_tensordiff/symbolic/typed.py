"""What type checkers are told of expressions: SymPy has no types, so that ``Expr`` would accept everything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

from sympy_tensordiff.symbolic.tensors import TensorSymbol


class Expression(Protocol):
    """A tensor expression, or one of SymPy's: no text, no array, no number of Python's."""

    @property
    def free_symbols(self) -> Any:
        """The symbols in it."""


Scalar: TypeAlias = Expression | float
Tensors: TypeAlias = tuple[TensorSymbol, ...] | list[TensorSymbol]
Variables: TypeAlias = Sequence[Expression]
