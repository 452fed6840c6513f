"""Sums under a concave function: what the inequality of Cauchy and Schwarz leaves of their curvature."""

from __future__ import annotations

from typing import Any, NamedTuple

import sympy
from sympy import Expr, S

from sympy_tensordiff.convex.affine_parts import SMOOTH, Cut, Variables
from sympy_tensordiff.convex.conditions import require
from sympy_tensordiff.convex.signs import Signs

SHORT = 25
"""The summand of an exact bound has a second derivative of at most so many operations: squares, powers, logarithms."""


class Bound(NamedTuple):
    """``(sum(h'*z))**2 <= sum(h''*z**2) * ratio``; ``sign`` is that of ``curvature``.

    The curvature is ``h''``, or ``sum(h''*z**2)`` of a quadratic form, which has no summand.
    """

    sign: str
    ratio: Expr
    curvature: Expr
    summand: Cut | None


def cut_of_one(by: Variables, body: Expr) -> Cut | None:
    """A scalar as a function of one part."""
    opaque = [a for a in body.args if by.degree(a) == 2] if body.func in SMOOTH else []
    cuts = (by.cut(body), by.cut(body, finest=True), by.cut(body, opaque))
    return next((cut for cut in cuts if len(cut.back) == 1), None)


def bound_of_sum(signs: Signs, node: Expr, symbol: Expr, cut: Cut) -> Bound | None:
    """The bound of a sum, which ``symbol`` stands for, with the summand cut into one part; None where ``h'' = 0``.

    The ratio is ``sum(h'**2/h'')``, written as a multiple of the sum plus a constant, or the sum where that is more.
    A sum that is 0 inside of the domain has its least value there, ``h = h' = 0``, so it grows with the sum alone: the
    bound is one of ``e + sum`` as well for all ``e > 0``, and the limit of convex functions is convex.
    """
    ((part, _),) = cut.back.items()
    first = sympy.diff(cut.function, part)
    second = sympy.diff(first, part)
    sign = signs.of(second)
    if sign in (None, "0"):
        return None
    limits = node.args[1:]
    count = sympy.Mul(*(high - low + 1 for _, low, high in limits))
    found = _exact(signs, cut.function, first, second, part, {limit[0] for limit in limits}, count)
    if found is None or found[1] != 0:
        below = str(sign)[0] == ">" and signs.of(cut.function * second - first**2) in (">", ">=", "0")
        require("ratio", below or found is not None, "h'**2/h'' of {}", node.args[0])
        found = (S.One, S.Zero) if below or found is None else found
    factor, offset = found
    ratio = signs.written(factor) * symbol + signs.written(offset) * count
    return Bound(str(sign)[0], ratio, second.xreplace(cut.back), cut)


def _exact(
    signs: Signs, h: Expr, first: Expr, second: Expr, part: Expr, indices: set[Any], count: Expr
) -> tuple[Expr, Expr] | None:
    """``c`` and ``d`` of ``h'**2/h'' = c*h + d``, where they do not depend on the index."""
    if second.count_ops() > SHORT:
        return None
    ratio = first**2 / second
    c = _quotient(signs, sympy.diff(ratio, part) / first)
    d = _quotient(signs, ratio - signs.written(c) * h)
    constant = all(signs.independent(each, {part, *indices}) for each in (c, d))
    return (c, d) if constant and (d == 0 or not count.free_symbols & indices) else None


def _quotient(signs: Signs, scalar: Expr) -> Expr:
    top, bottom = signs.quotient(signs.form(scalar))
    return top / bottom
