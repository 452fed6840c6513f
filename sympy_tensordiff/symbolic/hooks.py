"""Hooks: functions that the node classes call and that later packages register, so that imports go one way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Hook:
    """A function that a later package registers; until then a call applies the default ``function``."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def register(self, function: Callable[..., Any]) -> None:
        """Set the function that the hook calls."""
        self.function = function

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)


derivative = Hook(lambda expr, variable: None)
"""Return the derivative of an entry, an indexed sum or a tensor expression with respect to an entry of a tensor symbol,
a tensor symbol or a scalar symbol; None leaves SymPy's unevaluated ``Derivative``."""

jacobian = Hook(lambda T, variable, simplify: derivative(T, variable))
"""Return the derivative of a parsed expression with respect to a tensor symbol, axes of ``T`` first."""

lifted = Hook(lambda value: value)
"""Convert a variable in SymPy's own notation to these classes; other values are returned unchanged."""

simplified = Hook(lambda expr: expr)
"""Contract Kronecker deltas under a binder, for `sympy.simplify`."""

formula = Hook(str)
"""Return the LaTeX that notebooks show for a list of results of these classes."""

lines = Hook(lambda expr: None)
"""Return (name, part) pairs of an expression that is too long for one text, the rest with the name None; or None."""

notations: dict[Any, Callable[[Any], Any]] = {}
"""The conversion that ``expr.rewrite(target)`` applies, for each class ``target``."""


def rewritten(expr: Any, target: type) -> Any:
    """Return ``expr`` rewritten in the notation of the class ``target``; ``expr`` may be a native expression."""
    return notations[target](expr)
