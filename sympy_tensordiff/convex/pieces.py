"""Functions of one affine scalar in pieces: convex where each piece is, and where the slopes at their ends increase."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import sympy
from sympy import Dummy, Expr, S
from sympy.functions.elementary.piecewise import ExprCondPair

from sympy_tensordiff.convex.affine_parts import SMOOTH, Cut, Variables
from sympy_tensordiff.convex.conditions import CONDITIONS, NoSign, Term, require, require_values
from sympy_tensordiff.convex.generators import POSITIVE, Range
from sympy_tensordiff.convex.signs import Signs

INEQUALITIES = frozenset({sympy.Lt, sympy.Le, sympy.Gt, sympy.Ge})
THROUGH = SMOOTH | INEQUALITIES | {sympy.Abs, sympy.Piecewise, ExprCondPair, sympy.And, sympy.Or}


class _Interval(NamedTuple):
    """The points ``at`` between two ends, by the symbol ``share``; None for no end."""

    low: Expr | None
    high: Expr | None
    at: Expr
    share: Expr


def terms_of_pieces(
    signs: Signs,
    by: Variables,
    slope: Callable[[Expr], Expr],
    terms: Callable[[Expr, int], list[Term]],
    scalar: Expr,
    way: int,
) -> list[Term]:
    """The terms of a function in pieces of one affine or inner scalar.

    Law: it is convex if each piece is, and if neighbours have equal values where they meet, and slopes that increase.
    An inner scalar needs slopes of one sign as well.

    Parameters
    ----------
    slope, terms : callable
        The directional derivative of a scalar, and its terms (1: as a convex one, -1: as a concave one).
    way : int
        1: the function is to be convex; -1: concave.

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
    >>> bool(td.certify_convex(huber.xreplace({x: sympy.cosh(x)}), x))
    True
    """
    reason = NoSign("{} has no rule: {}", scalar, CONDITIONS["rule"])
    for cut in _cuts(by, scalar):
        try:
            return _terms(signs, slope, terms, cut, way)
        except NoSign as failure:
            reason = failure.written(cut.back)
    raise reason


def _terms(
    signs: Signs, slope: Callable[[Expr], Expr], terms: Callable[[Expr, int], list[Term]], cut: Cut, way: int
) -> list[Term]:
    """The terms of a function of one scalar."""
    ((leaf, part),) = cut.back.items()
    is_inner = bool(cut.inner)
    cut, part = _scaled(signs, cut, leaf, part)
    intervals = _intervals(signs, cut, leaf, signs.range_of(part))
    pieces = [_piece(signs, cut.function, leaf, interval.at) for interval in intervals]
    slopes, curvatures = ([way * sympy.diff(piece, leaf, order) for piece in pieces] for order in (1, 2))
    upward = {1, -1}
    for n, interval in enumerate(intervals):
        at = {leaf: interval.at}
        require_values(signs, pieces[n].xreplace(at), {interval.share: part})
        sign = signs.of(curvatures[n].xreplace(at))
        require("pivot", sign in (">", ">=", "0"), "no sign of {}", curvatures[n].xreplace(cut.back))
        if is_inner:
            sign = signs.of(slopes[n].xreplace(at))
            upward -= {">": {-1}, "<": {1}, "0": set()}.get(sign[0], upward) if sign else upward
            require("slope", bool(upward), "the slope {} has no sign", slopes[n].xreplace(cut.back))
        if n:
            _require_corner(signs, cut, leaf, pieces[n - 1 : n + 1], way, intervals[n - 1].high)
    weight = _of_intervals(curvatures, leaf, intervals).xreplace(cut.back)
    found = [Term("pieces", weight * slope(part) ** 2, (weight, slope(part)), ((weight, ">="),))] if weight != 0 else []
    if is_inner:
        rate, direction = _of_intervals(slopes, leaf, intervals).xreplace(cut.back), max(upward)
        found += [t._replace(form=direction * rate * t.form) for t in terms(part, direction)]
    return found


def _cuts(by: Variables, scalar: Expr) -> Iterator[Cut]:
    """A function in pieces as one of a single affine scalar, or of a single inner one, which conditions compare."""
    sides = [side for r in scalar.atoms(*INEQUALITIES) for side in r.args if by.degree(side) == 2]
    inner = {side.args[0] if isinstance(side, sympy.Abs) else side for side in sides}
    opaque = {a for a in inner if by.degree(a) == 2}
    cuts = [by.cut(scalar, finest=finest, through=THROUGH) for finest in (False, True)]
    yield from [cut for cut in cuts if len(cut.back) == len(cut.leaves) == 1][:1]
    yield from [cut for cut in (by.cut(scalar, opaque, through=THROUGH),) if len(cut.back) == len(cut.inner) == 1]


def _require_corner(signs: Signs, cut: Cut, leaf: Expr, pieces: list[Expr], way: int, end: Any) -> None:
    """Require that two pieces have values at an end, which are equal, and slopes that increase."""
    left, right = pieces
    nodes = {node for piece in pieces for node in piece.atoms(sympy.Pow, sympy.log) if leaf in node.free_symbols}
    for node in sorted(nodes, key=sympy.default_sort_key):
        if isinstance(node, sympy.log) or signs.of(node.exp) != ">":
            base = node.args[0].xreplace({leaf: end})
            require("pole", signs.of(base) in (">", "<"), "no sign of {}", node.args[0].xreplace(cut.back))
    middle, shown = _piece(signs, cut.function, leaf, end), cut.function.xreplace(cut.back)
    values = [(middle - piece).xreplace({leaf: end}) for piece in pieces]
    require("meeting", all(map(signs.is_zero, values)), "{} at {}", shown, end)
    corner = way * (sympy.diff(right, leaf) - sympy.diff(left, leaf)).xreplace({leaf: end})
    require("corner", signs.of(corner) in (">", ">=", "0"), "{} at {}", shown, end)


def _of_intervals(values: list[Expr], leaf: Expr, intervals: list[_Interval]) -> Expr:
    """One value in each interval."""
    pairs = [(value, leaf < interval.high) for value, interval in zip(values[:-1], intervals, strict=False)]
    return sympy.Piecewise(*pairs, (values[-1], True))


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
    points: list[Expr | None] = [None, *ends, None]
    for bound, outside, side in ((known.low, "<", 0), (known.high, ">", -1)):
        sides = {end: None if bound is None else signs.of(end - bound) for end in ends}
        if bound is not None and {"<", ">", "0"} >= set(sides.values()):  # else the bound is of no use
            points = [end for end in points if sides.get(end) not in (outside, "0")]
            points[side] = bound
    return [_between(signs, low, high) for low, high in pairwise(points)]


def _between(signs: Signs, low: Expr | None, high: Expr | None) -> _Interval:
    share = Dummy("r", real=True)
    signs.given[share] = POSITIVE if low is None or high is None else Range(S.Zero, S.One)
    if low is not None:
        return _Interval(low, high, low + share * (1 if high is None else high - low), share)
    return _Interval(low, high, share if high is None else high - share, share)


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
