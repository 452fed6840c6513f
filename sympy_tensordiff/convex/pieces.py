"""Functions of one affine scalar in pieces: convex where each piece is, and where the slopes at their ends increase."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import sympy
from sympy import Dummy, Expr, S
from sympy.functions.elementary.piecewise import ExprCondPair

from sympy_tensordiff.convex.affine_parts import SMOOTH, Cut, Variables
from sympy_tensordiff.convex.conditions import NoSign, Term, require
from sympy_tensordiff.convex.domains import require_values
from sympy_tensordiff.convex.generators import POSITIVE, Range
from sympy_tensordiff.convex.signs import Signs

INEQUALITIES = frozenset({sympy.Lt, sympy.Le, sympy.Gt, sympy.Ge})
THROUGH = SMOOTH | INEQUALITIES | {sympy.Abs, sympy.Piecewise, ExprCondPair, sympy.And, sympy.Or}


class _Interval(NamedTuple):
    """The points ``at`` between two ends, by a symbol of their own; None for no end."""

    low: Expr | None
    high: Expr | None
    at: Expr


def terms_of_pieces(signs: Signs, by: Variables, slope: Callable[[Expr], Expr], scalar: Expr, way: int) -> list[Term]:
    """The term of a function of one affine scalar in pieces.

    Law: it is convex if each piece is, and if neighbours have equal values where they meet, and slopes that increase.

    Raises
    ------
    NoSign

    Examples
    --------
    >>> import sympy
    >>> import sympy_tensordiff as td
    >>> x = sympy.Symbol("x", real=True)
    >>> huber = sympy.Piecewise((x**2, abs(x) < 1), (2*abs(x) - 1, True))
    >>> bool(td.certify_convex(huber, x)), bool(td.certify_convex(-huber, x))
    (True, False)
    """
    cuts = [by.cut(scalar, finest=finest, through=THROUGH) for finest in (False, True)]
    cut = min(cuts, key=lambda cut: len(cut.back))
    require("rule", len(cut.back) == len(cut.leaves) == 1, "{} has no rule", scalar)
    ((leaf, part),) = cut.leaves.items()
    cut, part = _scaled(signs, cut, leaf, part)
    intervals = _intervals(signs, cut, leaf, signs.range_of(part))
    chosen = [_piece(signs, cut.function, leaf, interval.at) for interval in intervals]
    for interval, piece in zip(intervals, chosen, strict=True):
        inside = piece.xreplace({leaf: interval.at})
        require_values(signs, inside, dict.fromkeys(interval.at.free_symbols, part))
        curvature = way * sympy.diff(piece, leaf, 2).xreplace({leaf: interval.at})
        require("pivot", signs.of(curvature) in (">", ">=", "0"), "no sign of {}", curvature.xreplace(cut.back))
    for left, right, interval in zip(chosen, chosen[1:], intervals, strict=False):
        end = {leaf: interval.high}
        middle = _piece(signs, cut.function, leaf, interval.high)
        values = [(middle - piece).xreplace(end) for piece in (left, right)]
        require("meeting", all(map(signs.is_zero, values)), "{} at {}", scalar, interval.high)
        corner = way * (sympy.diff(right, leaf) - sympy.diff(left, leaf)).xreplace(end)
        require("corner", signs.of(corner) in (">", ">=", "0"), "{} at {}", scalar, interval.high)
    curvatures = [way * sympy.diff(piece, leaf, 2) for piece in chosen]
    inner = [(weight, leaf < interval.high) for weight, interval in zip(curvatures[:-1], intervals, strict=False)]
    weight = sympy.Piecewise(*inner, (curvatures[-1], True)).xreplace(cut.back)
    return [Term("pieces", weight * slope(part) ** 2, (weight, slope(part)), ((weight, ">="),))] if weight != 0 else []


def _scaled(signs: Signs, cut: Cut, leaf: Expr, part: Expr) -> tuple[Cut, Expr]:
    """The function of a multiple of its scalar, where it has the factor in no other place: ``y*x`` for ``x``."""
    slopes = [sympy.diff(border, leaf) for border in _borders(cut.function)]
    factor = next((slope for slope in slopes if leaf not in slope.free_symbols and signs.of(slope) is None), S.One)
    function = cut.function.xreplace({leaf: leaf / factor})
    if factor == 1 or function.has(factor):
        return cut, part
    return Cut(function, {leaf: factor * part}, {}), factor * part


def _intervals(signs: Signs, cut: Cut, leaf: Expr, known: Range) -> list[_Interval]:
    """The intervals in which no condition and no absolute value changes, in order."""
    ends: list[Expr] = []
    for end in sorted(_ends(signs, cut.function, leaf), key=sympy.default_sort_key):
        order = [signs.of(end - other) for other in ends]
        require("order", None not in order and not {">=", "<="} & set(order), "{}", end)
        if "0" not in order:
            ends.insert(order.count(">"), end)
    for bound, outside in ((known.low, "<"), (known.high, ">")):
        ends = ends if bound is None else [end for end in ends if signs.of(end - bound) not in (outside, "0")]
    points: list[Expr | None] = [known.low, *ends, known.high]
    return [_between(signs, low, high) for low, high in pairwise(points)]


def _between(signs: Signs, low: Expr | None, high: Expr | None) -> _Interval:
    share = Dummy("r", real=True)
    signs.given[share] = POSITIVE if low is None or high is None else Range(S.Zero, S.One)
    if low is not None:
        return _Interval(low, high, low + share * (1 if high is None else high - low))
    return _Interval(low, high, share if high is None else high - share)


def _ends(signs: Signs, function: Expr, leaf: Expr) -> set[Expr]:
    """Where the sides of an inequality are equal, or what an absolute value is taken of is 0."""
    found = set()
    for border in _borders(function):
        for sign in (1, -1):
            line = border.replace(sympy.Abs, lambda inner, sign=sign: sign * inner)
            slope = sympy.diff(line, leaf)
            require("order", leaf not in slope.free_symbols, "{}", border)
            if signs.of(slope) != "0":
                require("order", signs.of(slope) in (">", "<"), "{}", border)
                found.add(sympy.expand(-line.xreplace({leaf: S.Zero}) / slope))
    return found


def _borders(function: Expr) -> list[Expr]:
    """What is 0 where a condition or an absolute value changes."""
    sides = [r.lhs - r.rhs for r in function.atoms(*INEQUALITIES)]
    return sorted(sides + [a.args[0] for a in function.atoms(sympy.Abs)], key=sympy.default_sort_key)


def _piece(signs: Signs, function: Any, leaf: Expr, at: Expr) -> Expr:
    """The piece at a point, with the signs of absolute values there."""

    def resolved(scalar: Expr) -> Expr:
        way = {}
        for node in scalar.atoms(sympy.Abs):
            sign = signs.of(node.args[0].xreplace({leaf: at}))
            require("order", sign is not None, "{}", node)
            way[node] = node.args[0] * (1 if str(sign)[0] in ">0" else -1)
        return scalar.xreplace(way)

    for piece, condition in function.args:
        if _holds(signs, condition, lambda scalar: resolved(scalar).xreplace({leaf: at})):
            return resolved(piece)
    raise NoSign("{} has no value at {}", function, at)


def _holds(signs: Signs, condition: Any, value: Callable[[Expr], Expr]) -> bool:
    """Whether a condition is true at a point."""
    if condition in (True, False):
        return bool(condition)
    if isinstance(condition, sympy.And | sympy.Or):
        each = [_holds(signs, part, value) for part in condition.args]
        return all(each) if isinstance(condition, sympy.And) else any(each)
    require("order", condition.func in INEQUALITIES, "{}", condition)
    sign = signs.of(value(condition.lhs - condition.rhs))
    require("order", sign in (">", "<", "0"), "{}", condition)
    return sign in {sympy.Lt: ("<",), sympy.Le: ("<", "0"), sympy.Gt: (">",), sympy.Ge: (">", "0")}[condition.func]


__all__ = ["terms_of_pieces"]
