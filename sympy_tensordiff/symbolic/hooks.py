"""The doors between the classes and what works on them: the classes call, the others register."""

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


Rewriting: TypeAlias = Callable[[Expr], Any]

_lifting: list[Rewriting] = []
_notations: dict[Any, Rewriting] = {}
_simplification: list[Rewriting] = []


def register_lifting(function: Rewriting) -> None:
    """Make ``function(value)`` what a variable in SymPy's own notation is in these classes."""
    _lifting[:] = [function]


def lifted(value: Any) -> Any:
    """``value`` in these classes; as it is where nobody has registered a function."""
    return _lifting[0](value) if _lifting else value


def register_notation(target: type, function: Rewriting) -> None:
    """Make ``function(expr)`` what ``expr.rewrite(target)`` gives for every class of ours."""
    _notations[target] = function


def notation(target: Any) -> Rewriting | None:
    """What rewrites into the notation that a class stands for; None where it stands for none."""
    return _notations.get(target) if isinstance(target, type) else None


def rewritten(expr: Any, target: type) -> Any:
    """``expr`` in the notation that a class stands for, whether it is one of ours or not."""
    return _notations[target](expr)


def register_simplification(function: Rewriting) -> None:
    """Make ``function(expr)`` what `sympy.simplify` does to deltas under a binder of ours."""
    _simplification[:] = [function]


def simplified(expr: Expr) -> Any:
    """``expr`` without deltas under sums; as it is where nobody has registered a function."""
    return _simplification[0](expr) if _simplification else expr


_formula: list[Callable[[Any], str]] = []


def register_formula(function: Callable[[Any], str]) -> None:
    """Make ``function(results)`` the LaTeX in which notebooks show one or several results of these classes."""
    _formula[:] = [function]


def formula(results: Any) -> str:
    """Results in LaTeX for a notebook, by the registered function."""
    return _formula[0](results)


Jacobian: TypeAlias = Callable[[Any, Any, bool], Any]

_jacobian: list[Jacobian] = []


def register_jacobian(function: Jacobian) -> None:
    """Make ``function(T, variable, simplify)`` the derivative of a parsed expression by a tensor symbol."""
    _jacobian[:] = [function]


def jacobian(T: Any, variable: Any, simplify: bool) -> Any:
    """The derivative by a tensor symbol, axes of ``T`` first, by the registered function."""
    return _jacobian[0](T, variable, simplify)
