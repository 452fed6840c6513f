"""Scalars as SymPy's own nodes, of bounded depth.

SymPy builds, compares and prints its own nodes by recursion, which overflows from some hundred levels on. A
scalar of many levels is therefore held by an entry of a comprehension without axes, which is a leaf to SymPy and
is read through by everything of this package.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sympy import Add, Mul, Pow, S

from sympy_tensordiff.symbolic.base import Node
from sympy_tensordiff.symbolic.limits import NOT_FINITE
from sympy_tensordiff.symbolic.tensors import TensorComprehension
from sympy_tensordiff.symbolic.traversal import nodes_in

DEEPEST = 50
"""The levels of SymPy's own nodes in one another."""
WIDE = 50
"""As many operands count as a level more: nodes above a wide one would go through its operands again and again."""


class Scalars:
    """The scalars of one expression, with the number of levels of each."""

    def __init__(self) -> None:
        self.levels: dict[Any, int] = {}

    def add(self, terms: Sequence[Any]) -> Any:
        """The sum."""
        return self.made(Add(*terms), terms)

    def multiply(self, factors: Sequence[Any]) -> Any:
        """The product."""
        return self.made(Mul(*factors), factors)

    def power(self, base: Any, exponent: Any) -> Any:
        """``base**exponent``."""
        return self.made(Pow(base, exponent), (base, exponent))

    def apply(self, function: Callable[[Any], Any], value: Any) -> Any:
        """``function(value)``."""
        return self.made(function(value), (value,))

    def made(self, result: Any, parts: Sequence[Any]) -> Any:
        """A result, held by an entry where it has too many levels."""
        if isinstance(result, Node) or not result.args:
            return result
        levels = 1 + max(self.levels.get(part, 0) for part in parts) + len(result.args) // WIDE
        if levels > DEEPEST:
            result, levels = TensorComprehension(result)[()], 0
        self.levels[result] = levels
        return result


def is_real(value: Any) -> bool:
    """Whether nothing in a scalar says that it is no finite real number."""
    inside = nodes_in([value], lambda node: () if isinstance(node, Node) else node.args)
    return not any(node is S.ImaginaryUnit or node in NOT_FINITE for node in inside)
