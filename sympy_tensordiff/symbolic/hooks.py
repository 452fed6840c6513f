"""The door between the classes and the derivative room: the classes call, the room registers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from sympy import Expr

Derivative: TypeAlias = Callable[[Expr, Expr], Any]

_registered: list[Derivative] = []


def register_derivative(function: Derivative) -> None:
    """Make ``function(expr, variable)`` the derivative of every class of ours.

    ``expr`` is an entry, an indexed sum or a tensor expression; ``variable`` an entry of a
    tensor symbol, a tensor symbol or a scalar symbol. The function returns the derivative, or
    None, which leaves SymPy's unevaluated ``Derivative``.
    """
    _registered[:] = [function]


def derivative(expr: Expr, variable: Expr) -> Expr | None:
    """The derivative by the registered function; None where nobody has registered one."""
    return _registered[0](expr, variable) if _registered else None
