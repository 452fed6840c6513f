"""Projection that is exact over the integers, where rounded quotients express it.

`fourier_motzkin.eliminate` joins ``a*v >= f`` and ``b*v <= g`` to ``b*f <= a*g``, which also holds where no
integer lies between: that is the real shadow. The integers need ``ceil(f/a) <= floor(g/b)``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product

from .affine import Affine, Row, Variable, quotient
from .fourier_motzkin import eliminate
from .implication import FALSE
from .normalise import normalise_rows
from .unfolding import unfolded


def project_exactly(rows: Iterable[Row], drop: Iterable[Variable]) -> tuple[Row, ...] | None:
    """The rows without ``drop`` that hold just where integers complete them; None where none are found.

    Law: a point of integers fulfils the result if and only if integer values of ``drop`` complete it to a
    point of ``rows``. None where two pairs of bounds with other coefficients than 1 hold two of the variables,
    and where a remainder has more than one value.

    Examples
    --------
    >>> k, p, q = (Affine.variable(v) for v in "kpq")
    >>> project_exactly([Row("ge", k - p), Row("ge", q - 2 * k)], ["k"])
    (-2*p + q >= 0,)
    >>> project_exactly([Row("ge", 3 * k - p), Row("ge", q - 2 * k)], ["k"])
    (-p + 3*floor(q/2) >= 0,)
    >>> project_exactly([Row("mod", k - 1, 2), Row("ge", k - p), Row("ge", q - k)], ["k"])
    (q - 2*floor(p/2) - 1 >= 0,)
    """
    current = normalise_rows(rows)
    remaining = set(drop)
    while current is not None and remaining:
        found = _without_one(current, remaining)
        if found is None:
            return None
        variable, current = found
        remaining.remove(variable)
    return (FALSE,) if current is None else current


def _without_one(rows: Sequence[Row], remaining: set[Variable]) -> tuple[Variable, tuple[Row, ...] | None] | None:
    """One variable and the rows without it, with as little rounding as can be; None where none can go."""
    systems = {v: _plain(rows, v) for v in sorted(remaining)}
    plain = {v: system for v, system in systems.items() if system is not None}
    for v, system in plain.items():
        if not _inexact(system, v):
            return v, eliminate(system, v)
    for v, system in plain.items():
        if _bounds_see_no_other(system, v, remaining - {v}):
            passed = [row for row in system if not row.form.coefficient(v)]
            return v, normalise_rows([*passed, *_rounded(system, v)])
    return None


def _plain(rows: Sequence[Row], variable: Variable) -> list[Row] | None:
    """Rows that hold for some ``variable`` where ``rows`` do, with it in inequalities and equations only.

    A congruence ``v = f mod m`` is solved as ``v = f + m*t``, with ``t`` under the same name.
    """
    own = frozenset([variable])
    result: list[Row] = []
    for row in rows:
        written = unfolded(row, own)
        if written is None or any(variable in part.form.hidden() for part in written):
            return None
        result += written
    for row in result:
        c = row.form.coefficient(variable)
        if c and row.kind == "mod":
            if abs(c) != 1:
                return None
            value = (row.form - Affine({variable: c})) * -c + Affine({variable: row.modulus})
            others = [other.substitute({variable: value}) for other in result if other is not row]
            return _plain(others, variable)
    for row in result:
        c = row.form.coefficient(variable)
        if row.kind == "eq" and abs(c) > 1:  # the others agree with this one about the value
            return [Row("mod", row.form - Affine({variable: c}), abs(c)), *result]
    return result


def _pairs(rows: Sequence[Row], variable: Variable) -> Iterable[tuple[tuple[int, Affine], tuple[int, Affine]]]:
    """The bounds ``a*v + f >= 0`` with the bounds ``g - b*v >= 0``, as ``(a, f)`` and ``(b, g)``."""
    held = [(row.form.coefficient(variable), row.form) for row in rows]
    lows = [(c, form - Affine({variable: c})) for c, form in held if c > 0]
    highs = [(-c, form - Affine({variable: c})) for c, form in held if c < 0]
    return product(lows, highs)


def _inexact(rows: Sequence[Row], variable: Variable) -> bool:
    """Whether the real shadow may hold more than the integers do; equations substitute the variable."""
    if any(row.kind == "eq" and row.form.coefficient(variable) for row in rows):
        return False
    return any(a > 1 and b > 1 for (a, _), (b, _) in _pairs(rows, variable))


def _bounds_see_no_other(rows: Sequence[Row], variable: Variable, others: set[Variable]) -> bool:
    """Whether the pairs that have to be rounded hold none of the other variables, which rounding would hide."""
    return all(
        others.isdisjoint(low.atoms() | high.atoms())
        for (a, low), (b, high) in _pairs(rows, variable)
        if a > 1 and b > 1
    )


def _rounded(rows: Sequence[Row], variable: Variable) -> Iterable[Row]:
    """Each pair of bounds joined: rounded where the real shadow is not exact."""
    for (a, low), (b, high) in _pairs(rows, variable):
        if a > 1 and b > 1:
            yield Row("ge", quotient(high, b) + quotient(low, a))
        else:
            yield Row("ge", a * high + b * low)
