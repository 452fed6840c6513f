"""Piecewise functions of one scalar: convex if each piece is, and the slopes do not decrease from piece to piece."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import sympy
from sympy import Dummy, Expr, S
from sympy.functions.elementary.piecewise import ExprCondPair

from sympy_tensordiff.convex.affine_parts import SMOOTH, Decomposition, Variables
from sympy_tensordiff.convex.conditions import CONDITIONS, ProofTerm, SignUnknown, require, require_values
from sympy_tensordiff.convex.generators import POSITIVE
from sympy_tensordiff.convex.signs import Signs
from sympy_tensordiff.functions.table import Interval

INEQUALITIES = frozenset({sympy.Lt, sympy.Le, sympy.Gt, sympy.Ge})
PIECEWISE_FUNCTIONS = SMOOTH | INEQUALITIES | {sympy.Abs, sympy.Piecewise, ExprCondPair, sympy.And, sympy.Or}


class _Piece(NamedTuple):
    """An interval from ``low`` to ``high`` (None: unbounded) on which a piecewise function is smooth. ``point`` is an
    expression in the symbol ``parameter`` that stands for any point inside, so that a sign proved at ``point`` holds in
    the whole interval.
    """

    low: Expr | None
    high: Expr | None
    point: Expr
    parameter: Expr


def terms_of_pieces(
    signs: Signs,
    variables: Variables,
    slope: Callable[[Expr], Expr],
    terms: Callable[[Expr, int], list[ProofTerm]],
    scalar: Expr,
    curvature: int,
) -> list[ProofTerm]:
    """Return the terms of a proof that ``scalar``, a piecewise function of one inner scalar, is convex (``curvature``
    1) or concave (-1). Raise `SignUnknown` if there is no proof. ``slope`` computes directional derivatives, ``terms``
    the proof terms of the inner scalar.

    Law: the function is convex if each piece is, and if neighbouring pieces have equal values where they meet and
    slopes that increase. An inner scalar needs slopes of one sign as well.

    `slope` returns the directional derivative of a scalar, `terms` its proof terms as a convex (1) or concave (-1)
    function.

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
    reason = SignUnknown("{} has no rule: {}", scalar, CONDITIONS["rule"])
    for outer in _univariate_decompositions(variables, scalar):
        try:
            return _terms_of_decomposition(signs, slope, terms, outer, curvature)
        except SignUnknown as failure:
            reason = failure.with_parts(outer.parts)
    raise reason


def _terms_of_decomposition(
    signs: Signs,
    slope: Callable[[Expr], Expr],
    terms: Callable[[Expr, int], list[ProofTerm]],
    outer: Decomposition,
    curvature: int,
) -> list[ProofTerm]:
    """Return the terms of a proof that a piecewise function of one scalar, given as the decomposition ``outer``, is
    convex (``curvature`` 1) or concave (-1). Raise `SignUnknown` if there is no proof.

    ``slope(scalar)`` is a directional derivative, ``terms(scalar, curvature)`` the proof terms of an inner scalar.
    """
    ((symbol, part),) = outer.parts.items()
    is_inner = bool(outer.inner)
    outer, part = _absorb_factor(signs, outer, symbol, part)
    intervals = _smooth_intervals(signs, outer, symbol, signs.range_of(part))
    pieces = [_piece_at(signs, outer.function, symbol, interval.point) for interval in intervals]
    slopes, curvatures = ([curvature * sympy.diff(piece, symbol, order) for piece in pieces] for order in (1, 2))
    directions = {1, -1}
    for n, interval in enumerate(intervals):
        point = {symbol: interval.point}
        require_values(signs, pieces[n].xreplace(point), {interval.parameter: part})
        sign = signs.of(curvatures[n].xreplace(point))
        require("pivot", sign in (">", ">=", "0"), "no sign of {}", curvatures[n].xreplace(outer.parts))
        if is_inner:
            sign = signs.of(slopes[n].xreplace(point))
            directions -= {">": {-1}, "<": {1}, "0": set()}.get(sign[0], directions) if sign else directions
            require("slope", bool(directions), "the slope {} has no sign", slopes[n].xreplace(outer.parts))
        if n:
            _require_corner(signs, outer, symbol, pieces[n - 1 : n + 1], curvature, intervals[n - 1].high)
    weight = _piecewise_over_intervals(curvatures, symbol, intervals).xreplace(outer.parts)
    found = []
    if weight != 0:
        found.append(ProofTerm("pieces", weight * slope(part) ** 2, (weight, slope(part)), ((weight, ">="),)))
    if is_inner:
        rate = _piecewise_over_intervals(slopes, symbol, intervals).xreplace(outer.parts)
        direction = max(directions)
        found += [t._replace(form=direction * rate * t.form) for t in terms(part, direction)]
    return found


def _univariate_decompositions(variables: Variables, scalar: Expr) -> Iterator[Decomposition]:
    """Yield ways to write the piecewise function ``scalar`` as a function of one inner scalar: first with an affine
    inner scalar, then with the one that the conditions compare, such as ``u`` in ``u**2 if u > 0 else 0``.
    """
    sides = [side for r in scalar.atoms(*INEQUALITIES) for side in r.args if variables.degree(side) == 2]
    inner = {side.args[0] if isinstance(side, sympy.Abs) else side for side in sides}
    opaque = {a for a in inner if variables.degree(a) == 2}
    found = [variables.decompose(scalar, finest=finest, through=PIECEWISE_FUNCTIONS) for finest in (False, True)]
    yield from [d for d in found if len(d.parts) == len(d.affine) == 1][:1]
    by_compared = variables.decompose(scalar, opaque, through=PIECEWISE_FUNCTIONS)
    if len(by_compared.parts) == len(by_compared.inner) == 1:
        yield by_compared


def _require_corner(
    signs: Signs, outer: Decomposition, symbol: Expr, pieces: list[Expr], curvature: int, end: Any
) -> None:
    """Raise `SignUnknown` unless the two ``pieces`` of the function in ``outer`` provably fit together at
    ``symbol = end``: the values are equal, and the slope does not decrease for ``curvature`` 1 (convex), or does not
    increase for -1 (concave).
    """
    left, right = pieces
    nodes = {node for piece in pieces for node in piece.atoms(sympy.Pow, sympy.log) if symbol in node.free_symbols}
    for node in sorted(nodes, key=sympy.default_sort_key):
        if isinstance(node, sympy.log) or signs.of(node.exp) != ">":
            base = node.args[0].xreplace({symbol: end})
            require("pole", signs.of(base) in (">", "<"), "no sign of {}", node.args[0].xreplace(outer.parts))
    middle = _piece_at(signs, outer.function, symbol, end)
    shown = outer.function.xreplace(outer.parts)
    values = [(middle - piece).xreplace({symbol: end}) for piece in pieces]
    require("meeting", all(map(signs.is_zero, values)), "{} at {}", shown, end)
    corner = curvature * (sympy.diff(right, symbol) - sympy.diff(left, symbol)).xreplace({symbol: end})
    require("corner", signs.of(corner) in (">", ">=", "0"), "{} at {}", shown, end)


def _piecewise_over_intervals(values: list[Expr], symbol: Expr, intervals: list[_Piece]) -> Expr:
    """Return the `Piecewise` that is ``values[n]`` where ``symbol`` is in the interval ``intervals[n]``."""
    pairs = [(value, symbol < interval.high) for value, interval in zip(values[:-1], intervals, strict=False)]
    return sympy.Piecewise(*pairs, (values[-1], True))


def _absorb_factor(signs: Signs, outer: Decomposition, symbol: Expr, part: Expr) -> tuple[Decomposition, Expr]:
    """Replace the argument ``part`` of the function in ``outer`` by ``c*part``, if a condition compares ``c*part`` for
    a factor c of unknown sign, and ``part`` occurs only in this product. Return ``(decomposition, c*part)``, or
    ``(outer, part)`` if there is no factor c.

    ``symbol`` represents ``part`` in the function.
    """
    slopes = [sympy.diff(border, symbol) for border in _border_expressions(outer.function)]
    factor = next((slope for slope in slopes if symbol not in slope.free_symbols and signs.of(slope) is None), S.One)
    function = outer.function.xreplace({symbol: symbol / factor})
    if factor == 1 or function.has(factor):
        return outer, part
    return Decomposition(function, {symbol: factor * part}, {}), factor * part


def _smooth_intervals(signs: Signs, outer: Decomposition, symbol: Expr, range_of_part: Interval) -> list[_Piece]:
    """Split the values of ``symbol`` into intervals, in ascending order, in which the function in ``outer`` is smooth:
    no condition and no sign of an absolute value changes.

    The first and the last interval end at the bounds in ``range_of_part``.

    They end at infinity if there is no bound, or if it is not proved which breakpoints are inside.
    """
    ends: list[Expr] = []
    for end in sorted(_breakpoints(signs, outer.function, symbol), key=sympy.default_sort_key):
        order = [signs.of(end - other) for other in ends]
        require("order", None not in order and not {">=", "<="} & set(order), "{}", end)
        if "0" not in order:
            ends.insert(order.count(">"), end)
    points: list[Expr | None] = [None, *ends, None]
    for bound, outside, side in ((range_of_part.low, "<", 0), (range_of_part.high, ">", -1)):
        sides = {end: None if bound is None else signs.of(end - bound) for end in ends}
        if bound is not None and {"<", ">", "0"} >= set(sides.values()):  # otherwise the bound does not help
            points = [end for end in points if sides.get(end) not in (outside, "0")]
            points[side] = bound
    return [_make_interval(signs, low, high) for low, high in pairwise(points)]


def _make_interval(signs: Signs, low: Expr | None, high: Expr | None) -> _Piece:
    """Return the interval from ``low`` to ``high`` (None: unbounded), with a new parameter whose range is declared in
    ``signs``.
    """
    parameter = Dummy("r", real=True)
    signs.declared[parameter] = POSITIVE if low is None or high is None else Interval(S.Zero, S.One)
    if low is not None:
        return _Piece(low, high, low + parameter * (1 if high is None else high - low), parameter)
    return _Piece(low, high, parameter if high is None else high - parameter, parameter)


def _breakpoints(signs: Signs, function: Expr, symbol: Expr) -> set[Expr]:
    """Return the values of ``symbol`` at which a condition in ``function`` changes or an absolute value has its kink.
    Raise `SignUnknown` if such a condition or argument is not affine in ``symbol``, or if ``signs`` cannot find the
    sign of its slope.
    """
    found = set()
    for border in _border_expressions(function):
        for sign in (1, -1):
            line = border.replace(sympy.Abs, lambda inner, sign=sign: sign * inner)
            slope = sympy.diff(line, symbol)
            require("order", symbol not in slope.free_symbols, "{}", border)
            if signs.of(slope) != "0":
                require("order", signs.of(slope) in (">", "<"), "{}", border)
                found.add(sympy.expand(-line.xreplace({symbol: S.Zero}) / slope))
    return found


def _border_expressions(function: Expr) -> list[Expr]:
    """Return the expressions that change sign where a condition in ``function`` changes or an absolute value has its
    kink: the differences of the sides of inequalities, and the arguments of absolute values.
    """
    sides = [r.lhs - r.rhs for r in function.atoms(*INEQUALITIES)]
    return sorted(sides + [a.args[0] for a in function.atoms(sympy.Abs)], key=sympy.default_sort_key)


def _piece_at(signs: Signs, function: Any, symbol: Expr, point: Expr) -> Expr:
    """Return the branch of ``function`` that applies where ``symbol`` has the value ``point``, without absolute values;
    raise `SignUnknown` if the conditions or signs there are not known.
    """

    def without_abs(scalar: Expr) -> Expr:
        """Return ``scalar`` without `Abs`: each ``Abs(a)`` becomes ``a`` or ``-a``, by the sign of ``a`` where the
        variable ``symbol`` has the value ``point``. Raise `SignUnknown` if this sign is unknown.
        """
        resolved_values = {}
        for node in scalar.atoms(sympy.Abs):
            sign = signs.of(node.args[0].xreplace({symbol: point}))
            require("order", sign is not None, "{}", node)
            resolved_values[node] = node.args[0] * (1 if str(sign)[0] in ">0" else -1)
        return scalar.xreplace(resolved_values)

    for piece, condition in function.args:
        if _condition_holds(signs, condition, lambda scalar: without_abs(scalar).xreplace({symbol: point})):
            return without_abs(piece)
    raise SignUnknown("{} has no value at {}", function, point)


def _condition_holds(signs: Signs, condition: Any, value: Callable[[Expr], Expr]) -> bool:
    """Return whether ``condition`` is true at a point; raise `SignUnknown` if ``signs`` cannot decide it. The function
    ``value`` returns a scalar's expression at the point.
    """
    if condition in (True, False):
        return bool(condition)
    if isinstance(condition, sympy.And | sympy.Or):
        each = [_condition_holds(signs, part, value) for part in condition.args]
        return all(each) if isinstance(condition, sympy.And) else any(each)
    require("order", condition.func in INEQUALITIES, "{}", condition)
    sign = signs.of(value(condition.lhs - condition.rhs))
    require("order", sign in (">", "<", "0"), "{}", condition)
    return sign in {sympy.Lt: ("<",), sympy.Le: ("<", "0"), sympy.Gt: (">",), sympy.Ge: (">", "0")}[condition.func]
