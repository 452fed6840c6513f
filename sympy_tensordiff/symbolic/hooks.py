"""The doors between the classes and what works on them: the classes call, the others register."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Hook:
    """A function of a later room; until one is registered, what the classes do alone."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def register(self, function: Callable[..., Any]) -> None:
        """Make this the function."""
        self.function = function

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)


derivative = Hook(lambda expr, variable: None)
"""The derivative of an entry, an indexed sum or a tensor expression by an entry of a tensor symbol, a tensor symbol or
a scalar symbol; None leaves SymPy's unevaluated ``Derivative``."""

jacobian = Hook(lambda T, variable, simplify: derivative(T, variable))
"""The derivative of a parsed expression by a tensor symbol, axes of ``T`` first, simplified or not."""

lifted = Hook(lambda value: value)
"""What a variable in SymPy's own notation is in these classes."""

simplified = Hook(lambda expr: expr)
"""What `sympy.simplify` does to deltas under a binder of ours."""

formula = Hook(str)
"""The LaTeX in which notebooks show one or several results of these classes."""

lines = Hook(lambda expr: None)
"""The parts of an expression that is too long for one text, with their names, then what is left with None; or None."""

notations: dict[Any, Callable[[Any], Any]] = {}
"""From a class to what ``expr.rewrite`` of it gives for every class of ours."""


def rewritten(expr: Any, target: type) -> Any:
    """``expr`` in the notation that a class stands for, whether it is one of ours or not."""
    return notations[target](expr)
