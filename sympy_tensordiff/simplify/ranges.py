"""What the rows and the bounds of variables say together: single values, empty ranges, residues."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sympy_tensordiff.integer.affine import Affine, Row, quotient
from sympy_tensordiff.integer.polyhedron import Bounds, implied

Facts = tuple[Row, ...]


def bound_rows(limits: Iterable[Bounds]) -> list[Row]:
    """The rows that say that each variable lies within its bounds."""
    rows = []
    for variable, lows, highs in limits:
        rows += [Row("ge", Affine({variable: divisor}) - form) for form, divisor in lows]
        rows += [Row("ge", form - Affine({variable: divisor})) for form, divisor in highs]
    return rows


def to_residues(rows: Facts) -> Facts:
    """Inequalities moved to the nearest value that a congruence beside them allows: even and < 14 is <= 12."""
    result = []
    for row in rows:
        for other in rows:
            if row.kind == "ge" and other.kind == "mod":
                for sign in (1, -1):
                    rest = row.form - sign * other.form
                    if all(c % other.modulus == 0 for _, c in rest.terms):
                        row = Row("ge", row.form - rest.constant % other.modulus)
        result.append(row)
    return tuple(result)


def without_exact_floors(form: Affine, rows: Facts) -> Affine:
    """``2*floor(p/2) + 1`` as ``p`` where a congruence among ``rows`` says that p is odd."""
    for found in form.quotients():
        c, d = form.coefficient(found), found.divisor
        if c % d:
            continue
        for row in rows:
            for sign in (1, -1):
                rest = found.form - sign * row.form
                if row.kind == "mod" and row.modulus % d == 0 and all(b % d == 0 for _, b in rest.terms):
                    exact = found.form - rest.constant % d
                    return without_exact_floors(form + (c // d) * exact - Affine({found: c}), rows)
    return form


def single_value(variables: Sequence[int], rows: Facts) -> tuple[dict[int, Affine], list[Row]] | None:
    """A variable whose range is provably shorter than 1: its value and the guard that goes with it.

    ``l <= c*v <= h`` with ``0 <= h - l < c`` holds at most for ``v = floor(h/c)``, and there if
    ``c*floor(h/c) >= l``.
    """
    for v in variables:
        lows: dict[int, list[Affine]] = {}
        highs: dict[int, list[Affine]] = {}
        for row in rows:
            c = row.form.coefficient(v)
            if c:
                (lows if c > 0 else highs).setdefault(abs(c), []).append(row.form - Affine({v: c}))
        for c, forms in highs.items():
            for high in forms:
                for low in lows.get(c, ()):
                    width = high + low
                    others = (high.atoms() if c > 1 else frozenset()) & frozenset(variables)
                    if width.is_constant and width.constant < c and not others:
                        value = quotient(high, c)
                        return {v: value}, [Row("ge", value * c + low)]
    return None


def never_empty(limits: Sequence[Bounds], facts: Facts) -> bool:
    """Whether every range provably holds an integer (sufficient: the dark shadow of each pair)."""
    known = facts
    for limit in limits:
        for low, c in limit.lows:
            for high, d in limit.highs:
                if not implied(Row("ge", c * high - d * low - (c - 1) * (d - 1)), known):
                    return False
        known = (*known, *bound_rows([limit]))
    return True


def number_of_values(limit: Bounds) -> Affine | None:
    """The number of values of a variable with one lower and one upper bound."""
    if len(limit.lows) == len(limit.highs) == 1 and limit.lows[0][1] == limit.highs[0][1] == 1:
        return limit.highs[0][0] - limit.lows[0][0] + 1
    return None
