"""Scalars as SymPy's own nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sympy
from sympy import Add, Mul, Pow, S

from sympy_tensordiff.parsing.numbers import Numbers
from sympy_tensordiff.symbolic.shallow import Shallow, applied

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
        self.numbers = Numbers()

    def held(self, scalar: Any) -> Any:
        """The scalar, or an entry that holds it."""
        result = self.shallow.held(self.numbers.check_length(scalar))
        if result is not scalar:
            self.numbers.found[result] = self.numbers.found[scalar]
        return result

    def add(self, terms: Sequence[Any]) -> Any:
        """The sum."""
        return self.held(self.numbers.joined(lambda some: applied(Add, some), list(terms)))

    def multiply(self, factors: Sequence[Any]) -> Any:
        """The product."""
        return self.held(self.numbers.joined(lambda some: applied(Mul, some), list(factors)))

    def power(self, base: Any, exponent: Any) -> Any:
        """``base**exponent``."""
        self.numbers.check_power(base, exponent)
        return self.held(applied(Pow, (base, exponent)))

    def function(self, name: str, value: Any) -> Any:
        """A function of the language."""
        is_deep = self.shallow.levels.get(value, 0) >= EVALUATED
        if name == "relu":
            return self.held(applied(sympy.Max, (value, S.Zero), is_deep))
        if name == "exp":
            self.numbers.check_exponential(value)
        return self.held(applied(FUNCTIONS[name], (value,), is_deep))
