"""Scalars as SymPy's own nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sympy
from sympy import Add, Mul, Pow, S

from sympy_tensordiff.symbolic.base import Node
from sympy_tensordiff.symbolic.limits import NOT_FINITE
from sympy_tensordiff.symbolic.shallow import Shallow, applied
from sympy_tensordiff.symbolic.traversal import nodes_in

DEEPEST = 12
"""The levels of SymPy's own nodes in one another; a new level costs SymPy questions about all levels below."""
EVALUATED = 5
"""From so many levels on a function stays as it is written: SymPy's rules for ``tanh`` and others take seconds."""
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sin": sympy.sin,
    "cos": sympy.cos,
    "tan": sympy.tan,
    "arcsin": sympy.asin,
    "arccos": sympy.acos,
    "arctan": sympy.atan,
    "tanh": sympy.tanh,
    "exp": sympy.exp,
    "log": sympy.log,
    "sign": sympy.sign,
    "abs": sympy.Abs,
}


class Scalars:
    """Makes the scalars of one expression; deep ones are held by entries."""

    def __init__(self) -> None:
        self.shallow = Shallow(DEEPEST)
        self.held = self.shallow.held

    def add(self, terms: Sequence[Any]) -> Any:
        """The sum."""
        return self.held(applied(Add, terms))

    def multiply(self, factors: Sequence[Any]) -> Any:
        """The product."""
        return self.held(applied(Mul, factors))

    def power(self, base: Any, exponent: Any) -> Any:
        """``base**exponent``."""
        return self.held(applied(Pow, (base, exponent)))

    def function(self, name: str, value: Any) -> Any:
        """A function of the language."""
        is_deep = self.shallow.levels.get(value, 0) >= EVALUATED
        if name == "relu":
            return self.held(applied(sympy.Max, (value, S.Zero), is_deep))
        return self.held(applied(FUNCTIONS[name], (value,), is_deep))


def is_real(value: Any) -> bool:
    """Whether nothing in a scalar says that it is no finite real number."""
    inside = nodes_in([value], lambda node: () if isinstance(node, Node) else node.args)
    return not any(node is S.ImaginaryUnit or node in NOT_FINITE for node in inside)
