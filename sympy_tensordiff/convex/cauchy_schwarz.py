"""The Cauchy-Schwarz bound of a sum under a concave function."""

from __future__ import annotations

from typing import Any, NamedTuple

import sympy
from sympy import Expr, S

from sympy_tensordiff.convex.affine_parts import SMOOTH, Decomposition, Variables
from sympy_tensordiff.convex.conditions import require
from sympy_tensordiff.convex.signs import Signs

MAX_EXACT_OPERATIONS = 25
"""Largest second derivative of a summand for which the exact ratio is computed."""


class CauchySchwarzBound(NamedTuple):
    """A bound ``(sum(h'*z))**2 <= sum(h''*z**2) * ratio`` for a function h of one variable; ``sign`` is the sign of
    h''.

    ``curvature`` is ``h''``; for a quadratic form it is ``sum(h''*z**2)``, and ``summand`` is None.
    """

    sign: str
    ratio: Expr
    curvature: Expr
    summand: Decomposition | None


def decompose_univariate(variables: Variables, body: Expr) -> Decomposition | None:
    """Return ``body`` as a function of one affine or other scalar; None if it depends on several."""
    opaque = [a for a in body.args if variables.degree(a) == 2] if body.func in SMOOTH else []
    decompositions = (
        variables.decompose(body),
        variables.decompose(body, finest=True),
        variables.decompose(body, opaque),
    )
    return next((outer for outer in decompositions if len(outer.parts) == 1), None)


def bound_of_sum(signs: Signs, node: Expr, symbol: Expr, outer: Decomposition) -> CauchySchwarzBound | None:
    """Return the Cauchy-Schwarz bound for the sum ``node``, in which ``symbol`` stands for the value of the sum. The
    summand is a function h of one scalar, given as the decomposition ``outer``. None if the sign of ``h''`` is not
    known; raise `SignUnknown` if the ratio ``sum(h'**2/h'')`` has no suitable form.

    The ratio is ``sum(h'**2/h'')``, written as a multiple of the sum plus a constant; if that is not possible, the sum
    itself where it is larger. A sum that is 0 inside the domain is least there (``h = h' = 0``): the bound then holds
    for ``e + sum`` with every ``e > 0``, and a limit of convex functions is convex.
    """
    ((part, _),) = outer.parts.items()
    first = sympy.diff(outer.function, part)
    second = sympy.diff(first, part)
    sign = signs.of(second)
    if sign in (None, "0"):
        return None
    limits = node.args[1:]
    count = sympy.Mul(*(high - low + 1 for _, low, high in limits))
    coefficients = _exact_ratio(signs, outer.function, first, second, part, {limit[0] for limit in limits}, count)
    if coefficients is None or coefficients[1] != 0:
        below = str(sign)[0] == ">" and signs.of(outer.function * second - first**2) in (">", ">=", "0")
        require("ratio", below or coefficients is not None, "h'**2/h'' of {}", node.args[0])
        coefficients = (S.One, S.Zero) if below or coefficients is None else coefficients
    factor, offset = coefficients
    ratio = signs.to_expression(factor) * symbol + signs.to_expression(offset) * count
    return CauchySchwarzBound(str(sign)[0], ratio, second.xreplace(outer.parts), outer)


def _exact_ratio(
    signs: Signs, h: Expr, first: Expr, second: Expr, part: Expr, indices: set[Any], count: Expr
) -> tuple[Expr, Expr] | None:
    """Return ``(c, d)`` with ``h'**2/h'' = c*h + d``, both independent of ``indices`` and ``part``; None if none are
    found. ``first`` is ``h'`` and ``second`` is ``h''``, derivatives with respect to ``part``. ``count`` is the number
    of summands; if it depends on ``indices``, ``d`` must be 0.
    """
    if second.count_ops() > MAX_EXACT_OPERATIONS:
        return None
    ratio = first**2 / second
    c = _cancelled(signs, sympy.diff(ratio, part) / first)
    d = _cancelled(signs, ratio - signs.to_expression(c) * h)
    constant = all(signs.is_independent(each, {part, *indices}) for each in (c, d))
    return (c, d) if constant and (d == 0 or not count.free_symbols & indices) else None


def _cancelled(signs: Signs, scalar: Expr) -> Expr:
    """Return ``scalar`` as a quotient of polynomials without common factors, in the symbols (generators) that stand for
    its non-rational parts.
    """
    top, bottom = signs.quotient(signs.form(scalar))
    return top / bottom
