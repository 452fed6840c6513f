"""Expressions rebuilt from the leaves up, by rules for classes and for what stands in a symbol's place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, TypeAlias

from sympy import Idx, Piecewise, Symbol

from sympy_tensordiff.symbolic.traversal import Recursion, trampoline

Scope: TypeAlias = frozenset[tuple[Any, Any]]
"""What stands in place of the symbols that are bound around an expression."""

EMPTY: Scope = frozenset()


class Rewriting:
    """One pass over one expression; shared parts are visited once for each scope.

    Subclasses give ``rules`` from a class of nodes to a method; what has no rule is rebuilt from
    its arguments.
    """

    rules: ClassVar[dict[type, Callable[..., Recursion[Any]]]] = {}

    def __init__(self) -> None:
        # Nodes are known by identity: comparing and hashing deep ones is a recursion of its own.
        self._done: dict[tuple[int, Scope], tuple[Any, Any]] = {}

    def run(self, expr: Any, scope: Scope = EMPTY) -> Any:
        """The rebuilt expression."""
        return trampoline(self.visit(expr, scope))

    def visit(self, expr: Any, scope: Scope) -> Recursion[Any]:
        key = (id(expr), scope)
        if key not in self._done:
            if isinstance(expr, (Symbol, Idx)):
                result = self.symbol(expr, scope)
            else:
                rule = next((self.rules[kind] for kind in type(expr).__mro__ if kind in self.rules), type(self).rebuilt)
                result = yield rule(self, expr, scope)
            self._done[key] = expr, result
        return self._done[key][1]

    def all(self, exprs: Iterable[Any], scope: Scope) -> Recursion[list[Any]]:
        results = []
        for expr in exprs:
            results.append((yield self.visit(expr, scope)))
        return results

    def symbol(self, expr: Any, scope: Scope) -> Any:
        """What stands in place of a symbol."""
        return next((new for old, new in scope if old == expr), expr)

    def rebuilt(self, expr: Any, scope: Scope) -> Recursion[Any]:
        """The same node over rebuilt arguments; itself where nothing has changed."""
        args = yield self.all(expr.args, scope)
        return with_args(expr, args)


def with_args(expr: Any, args: Sequence[Any]) -> Any:
    """The same node over other arguments; itself where nothing has changed."""
    if all(new is old for new, old in zip(args, expr.args, strict=True)):
        return expr
    # SymPy would rewrite conditions on its own terms, over the reals.
    return expr.func(*args, evaluate=False) if isinstance(expr, Piecewise) else expr.func(*args)


def rebound(scope: Scope, bound: Any, new: Any) -> Scope:
    """The scope inside of a binder, where ``new`` stands in place of ``bound``."""
    rest = frozenset([pair for pair in scope if pair[0] != bound])
    return rest if new == bound else rest | {(bound, new)}
