"""Replacement in expressions as by `xreplace`, with one visit to each node, however many paths lead to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sympy import Expr, Piecewise, S

from sympy_tensordiff.symbolic.expressions.traversal import native_parts, postorder, with_args


class IndexRenaming(dict[Expr, Expr]):
    """A dictionary from indices to new index symbols for `xreplace`. The class tells `xreplace` that the result need
    not be validated.
    """


class Substitution(dict[Expr, Expr]):
    """A dictionary for `xreplace` from free symbols to their values. The class tells `xreplace` that bound indices are
    not replaced.
    """


class Replacement:
    """A replacement rule that is called with an expression and returns it with subexpressions replaced. Results are
    cached, so that parts shared by several expressions are visited once.

    Nodes shared before are shared after: a part is one object in all results. Nodes of this package apply the rule
    themselves, since they know which indices they bind.

    Examples
    --------
    >>> import sympy
    >>> x, y = sympy.symbols("x y")
    >>> in_y = Replacement({x: y})
    >>> in_y(x + 1) is in_y(2**(x + 1)).args[1]
    True
    """

    def __init__(self, rule: Mapping[Any, Any]) -> None:
        self._rule = rule
        self._done: dict[int, tuple[Any, Any]] = {}  # with the node, so that its number is not given to another one

    def __call__(self, expr: Any) -> Any:
        """The expression with the values of the rule in the places of its keys."""
        if not self._rule:
            return expr
        for node in postorder(expr, self._done, self._below, id):
            self._done[id(node)] = node, self._replaced(node)
        return self._done[id(expr)][1]

    def _below(self, node: Any) -> tuple[Any, ...]:
        """Return the arguments of ``node`` in which to look for expressions to be replaced: () if ``node`` is one of
        these itself, or a node of this package.
        """
        return () if node in self._rule else self._parts(node)

    def _parts(self, node: Any) -> tuple[Any, ...]:
        """Return the arguments of ``node``. For a `Piecewise` leave out the cases whose replaced conditions are false:
        ``x[i - 4]`` in the second case of ``concatenate([x, y])`` exists only where the condition before is false.
        """
        if not isinstance(node, Piecewise):
            parts: tuple[Any, ...] = native_parts(node)
            return parts
        possible: list[Any] = []
        for pair in node.args:
            condition = self(pair.cond)
            if condition is not S.false:
                possible.append(pair)
            if condition is S.true:
                break
        return tuple(possible) or node.args

    def _replaced(self, node: Any) -> Any:
        """Return ``node`` with its arguments replaced, or its replacement if it is a key of the rule."""
        if node in self._rule:
            return self._rule[node]
        if hasattr(node, "is_tensor_entry"):
            return node._xreplace(self._rule)[0]
        return with_args(node, [self._done[id(arg)][1] for arg in self._parts(node)]) if node.args else node
