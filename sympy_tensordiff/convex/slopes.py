"""Directional derivatives of the scalars that a rule takes as a whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import sympy
from sympy import Expr, S

from sympy_tensordiff.convex.affine_parts import KINKS, SMOOTH, Variables, inverse_of
from sympy_tensordiff.convex.conditions import require
from sympy_tensordiff.convex.quadratic import matrix_slope
from sympy_tensordiff.symbolic.sums import IndexedMax, IndexedMin, IndexedSum


class Slopes:
    """The directional derivatives in one set of variables; at a kink they speak for one side.

    Examples
    --------
    >>> import sympy
    >>> x, v = sympy.symbols("x v", real=True)
    >>> Slopes(Variables((x,)), {x: v}, {}).of(sympy.exp(2*x))
    2*v*exp(2*x)
    """

    def __init__(self, by: Variables, directions: Mapping[Any, Any], matrices: Mapping[Expr, Any]) -> None:
        self.by, self.directions, self.matrices = by, dict(directions), dict(matrices)

    def of(self, node: Expr) -> Expr:
        """The directional derivative of a scalar."""
        if self.by.degree(node) < 2:
            return self.by.along(node, self.directions)
        if isinstance(node, IndexedSum):
            return IndexedSum(self.of(node.args[0]), *node.args[1:])
        if isinstance(node, sympy.Abs):
            return sympy.sign(node.args[0]) * self.of(node.args[0])
        if node.func in KINKS or isinstance(node, IndexedMax | IndexedMin):
            return active(node, self.of)
        if isinstance(node, sympy.Piecewise):
            return sympy.Piecewise(*((self.of(piece), condition) for piece, condition in node.args))
        if node in self.matrices or inverse_of(node) is not None:
            return matrix_slope(node, self.directions, self.matrices)
        require("rule", node.func in SMOOTH, "{} has no rule", node)
        cut = self.by.cut(node)
        return sympy.Add(
            *(sympy.diff(cut.function, s).xreplace(cut.back) * self.of(part) for s, part in cut.back.items())
        )


def active(node: Expr, value: Callable[[Expr], Expr | None]) -> Expr:
    """The value of that argument of a maximum which is equal to it, away from ties."""
    if isinstance(node, IndexedMax | IndexedMin):
        body = node.args[0]
        return IndexedSum(sympy.Piecewise((value(body), sympy.Eq(body, node)), (0, True)), *node.args[1:])
    compare = sympy.Ge if isinstance(node, sympy.Max) else sympy.Le
    parts = []
    for a in node.args:
        others = [compare(a, b) for b in node.args if b != a]
        inner = value(a)
        parts.append(sympy.Piecewise((inner, sympy.And(*others)), (0, True)) if inner else S.Zero)
    return sympy.Add(*parts)


__all__ = ["Slopes", "active"]
