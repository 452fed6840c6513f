"""Expressions that have a name."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, ClassVar

from sympy import Basic, Expr
from sympy.core.symbol import Str

from sympy_tensordiff.symbolic import walkers
from sympy_tensordiff.symbolic.entries import TensorExpr
from sympy_tensordiff.symbolic.indices import as_expr
from sympy_tensordiff.symbolic.printing import PrintedSymbol
from sympy_tensordiff.symbolic.tensors import checked_name
from sympy_tensordiff.symbolic.traversal import Recursion, Rewriting, Scope, named_in


class NamedTensor(PrintedSymbol, TensorExpr):
    """An expression that is printed by a name, which `td.name` gives it.

    Examples
    --------
    >>> import sympy_tensordiff as td
    >>> x = td.TensorSymbol("x", 3)
    >>> y = td.name(2*x, "y")
    >>> y, y.shape, y.definition, y.doit()
    (y, (3,), 2*x, 2*x)
    >>> y.func(*y.args) == y, y.free_symbols == {x}
    (True, True)
    """

    is_symbol = True
    is_named = True

    def __new__(cls, name: Any, definition: Any) -> NamedTensor:
        result: NamedTensor = cls._unchecked(Str(checked_name(name)), as_expr(definition, "the definition"))
        return result

    @property
    def name(self) -> str:
        """The name."""
        return str(self._args[0].name)

    @property
    def definition(self) -> Any:
        """What the name stands for."""
        return self._args[1]

    @property
    def shape(self) -> tuple[Expr, ...]:
        return tuple(getattr(self.definition, "shape", ()))

    @property
    def index_parts(self) -> tuple[Expr, ...]:
        return self.shape

    @property
    def free_symbols(self) -> set[Basic]:
        return walkers.shown_symbols(self, set(self.definition.free_symbols), sys._getframe(1))

    dtype = float
    below = None
    symmetric = False
    positive = False

    def _sympyrepr(self, printer: Any) -> str:
        return f"NamedTensor({self.name!r}, {printer._print(self.definition)})"

    def doit(self, **hints: Any) -> Any:
        return self.definition.doit(**hints)

    def _eval_simplify(self, **kwargs: Any) -> Any:
        return self


class _InFull(Rewriting):
    def definition(self, expr: NamedTensor, scope: Scope) -> Recursion[Any]:
        return (yield self.visit(expr.definition, scope))

    rules: ClassVar[dict[type, Callable[..., Recursion[Any]]]] = {NamedTensor: definition}


def in_full(expr: Any) -> Any:
    """An expression with all definitions in the places of the names."""
    return _InFull().run(expr) if named_in([expr]) else expr
