"""Inequalities over loop variables as bounds of loops: without rounded quotients, and without symbols as factors.

A loop over ``j`` takes no bound from ``2*floor(j/3) >= k``, but the same from ``j >= 3*ceiling(k/2)``. Rows that
multiply an index by symbols, ``M*i <= r``, say something of this index, and of those outside of its loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import permutations
from typing import TypeAlias

from sympy_tensordiff.errors import LoopBoundError

from .affine import Affine, Quotient, Row, Variable, quotient
from .data import data_entries
from .extrema import split_clamps
from .implication import implied, without_redundant
from .products import SymbolicQuotient, quotient_by, quotients_in, slope, times
from .rows import normalise_rows
from .system import definitions


def without_quotients(row: Row, loops: frozenset[Variable]) -> list[Row] | None:
    """A row without quotients of loop variables, as inequalities; None where none express it.

    ``c*floor(f/d) + r >= 0`` is ``f + d*floor(r/c) >= 0`` for positive ``c``, and
    ``r - c*floor(f/d) >= 0`` is ``d*floor(r/c) + d - 1 - f >= 0``.
    """
    result: list[Row] = []
    waiting = [row]
    while waiting:
        row = waiting.pop()
        found = [
            (q, c)
            for q, c in row.form.terms
            if isinstance(q, (Quotient, SymbolicQuotient)) and not loops.isdisjoint(q.atoms())
        ]
        if not found:
            result.append(row)
        elif row.kind == "eq":
            waiting += (Row("ge", -row.form), Row("ge", row.form))
        else:
            q, c = min(found, key=lambda item: abs(item[1]))
            rest = row.form - Affine({q: c})
            share = quotient(rest, abs(c))
            rounded = share.compounds().difference(rest.compounds())
            if row.kind == "mod" or any(not loops.isdisjoint(r.atoms()) for r in rounded):
                return None
            share = times(share, Affine.of(q.divisor))
            waiting.append(Row("ge", q.form + share if c > 0 else share + (q.divisor - 1) - q.form))
    return result


def rows_without_quotients(rows: Sequence[Row], loops: frozenset[Variable]) -> list[Row]:
    """The rows, with quotients, and maxima that are subtracted, of loop variables written out as inequalities.

    A multiple of a quotient beside another loop variable stays: it is a bound of that one, or waits for its own loop.
    Not so with data, which may only be read where other rows hold.
    """
    result: list[Row] = []
    for row in (part for given in rows for part in split_clamps(given, loops)):
        written = without_quotients(row, loops)
        if written is None and data_entries([row.form]):
            raise _no_bound(row)
        result += [row] if written is None else written
    return result


def system_without_quotients(rows: tuple[Row, ...], variable: Variable, known: Sequence[Row]) -> tuple[Row, ...]:
    """The rows for the loop over ``variable`` and those around it: no quotient of them holds that."""
    result: list[Row] = []
    for row in rows:
        written = without_quotients(row, frozenset([variable]))
        if written is None:
            raise _no_bound(row)
        result += written
    return rows if result == list(rows) else without_redundant(result, known)


def _no_bound(row: Row) -> LoopBoundError:
    return LoopBoundError(
        "no bounds of a loop express {}, a multiple of a rounded quotient of one index beside an index: split the sum "
        "by the remainder, e.g. write i = 2*k + l with l = 0, 1",
        row,
    )


def expressible(row: Row, variables: Sequence[Variable]) -> Row | None:
    """A bound of the innermost variable of a row: the row itself, or a weaker one that follows; None if neither.

    >>> i = Affine.variable("i")
    >>> expressible(Row("ge", 5 * quotient(i, 3) - 2 * quotient(i, 2) - 9), "i")
    4*i - 48 >= 0
    """
    innermost = next((v for v in reversed(variables) if v in row.form.atoms()), None)
    if innermost is None or without_quotients(row, frozenset([innermost])) is not None:
        return row
    form = _rounded_up(row.form, frozenset([innermost])) if row.kind == "ge" else Affine()
    return None if innermost in form.hidden() or form.is_constant else Row("ge", form)


def affine_in(rows: Iterable[Row], variables: frozenset[Variable]) -> list[Row]:
    """What the rows say of variables by coefficients alone: nothing of congruences, quotients and products with one."""
    return [row for row in _in_lowest_terms(rows, variables) if row.form.hidden().isdisjoint(variables)]


def affine_relaxation(rows: Iterable[Row], variables: frozenset[Variable]) -> list[Row]:
    """As `affine_in`, and of a quotient how far it is from what is divided: enough for a projection."""
    return affine_in(
        (part for row in _in_lowest_terms(rows, variables) for part in relaxation(row, variables)), variables
    )


def _in_lowest_terms(rows: Iterable[Row], variables: frozenset[Variable]) -> Sequence[Row]:
    plain = [row for row in rows if row.kind != "mod" or row.form.atoms().isdisjoint(variables)]
    parts = [part for row in plain for part in without_quotients(row, variables) or [row]]
    # There a quotient by a symbol is a product with it.
    reduced = normalise_rows(parts)
    return parts if reduced is None else reduced


def relaxation(row: Row, variables: frozenset[Variable]) -> list[Row]:
    """The row, or what follows from it without quotients that hold some of the variables.

    >>> i, j = (Affine.variable(v) for v in "ij")
    >>> relaxation(Row("ge", i - 3 * quotient(i, 3) - j), frozenset("i"))
    [-3*j + 6 >= 0]
    """
    if row.kind == "mod" or row.form.hidden().isdisjoint(variables):
        return [row]
    return [
        Row("ge", _rounded_up(form, variables)) for form in ((row.form,) if row.kind == "ge" else (row.form, -row.form))
    ]


def _rounded_up(form: Affine, variables: frozenset[Variable]) -> Affine:
    """A multiple of a form, or more, without quotients that hold one of the variables.

    A quotient by a symbol goes where the symbol multiplies it, as in a remainder.
    """
    for q in sorted(quotients_in(form)):
        if q.atoms().isdisjoint(variables):
            continue
        divisor = Affine.of(q.divisor)
        multiple = times(divisor, Affine.variable(q))
        term, size = multiple.terms[0]
        scaled = form * divisor.constant if divisor.is_constant else form
        c = scaled.coefficient(term) // size
        rest = scaled - c * multiple
        if q not in quotients_in(rest):
            return _rounded_up(rest + c * (q.form if c > 0 else q.form - (divisor - 1)), variables)
    return form


Limits: TypeAlias = list[tuple[Affine, int]]
"""Forms and their divisors, as in `nests.Bounds`."""


def divided_bounds(variable: Variable, row: Row, known: Sequence[Row]) -> tuple[Limits, Limits]:
    """``M*i + r >= 0`` as ``i >= -floor(r/M)``, ``r - M*i >= 0`` as ``i <= floor(r/M)``; ``M >= 1`` has to be known."""
    parts = slope(row.form, variable)
    for sign in (1, -1) if parts is not None else ():
        divisor, rest = (part * sign for part in parts or ())
        if _is_positive(divisor, known):
            low = [(-quotient_by(rest, divisor), 1)] if sign > 0 or row.kind == "eq" else []
            high = [(quotient_by(-rest, divisor), 1)] if sign < 0 or row.kind == "eq" else []
            return low, high
    raise LoopBoundError(
        "the condition {1} gives no bounds of a loop over {0}: the sign of its coefficient is not known, or {0} occurs "
        "in it twice; make the coefficient an extent, and add an index with the coefficient 1",
        variable,
        row,
    )


def positive_divisors(variable: Variable, rows: Sequence[Row], known: Sequence[Row]) -> tuple[Row, ...]:
    """The divisors of `divided_bounds` whose sign only the rows of the loop decide, as conditions ``divisor >= 1``.

    They are tested outside of the loop: where the loop has no points, a divisor may be 0.
    """
    found: dict[Row, None] = {}
    for row in rows if any(variable in row.form.hidden() for row in rows) else ():
        parts = slope(row.form, variable) if variable in row.form.hidden() else None
        signed = (parts[0], -parts[0]) if parts is not None and not parts[0].is_constant else ()
        if not any(_is_positive(divisor, known) for divisor in signed):
            found.update({Row("ge", divisor - 1): None for divisor in signed if _is_positive(divisor, (*rows, *known))})
    return tuple(found)


def multiplied(rows: Iterable[Row]) -> tuple[Row, ...]:
    """The rows times what a quotient by symbols in them divides by, which is positive.

    >>> p, M, i = (Affine.variable(v) for v in "pMi")
    >>> multiplied([Row("ge", i - quotient_by(p, M)), Row("ge", i)])
    (M*i - M*floor((p)/(M)) >= 0,)
    """
    return tuple(
        Row(row.kind, times(row.form, divisor))
        for row in rows
        if row.kind != "mod"
        for divisor in dict.fromkeys(v.divisor for v, _ in row.form.terms if isinstance(v, SymbolicQuotient))
    )


def divided_by(forms: Iterable[Affine]) -> list[Affine]:
    """What quotients by symbols in forms, and inside of these quotients, divide by.

    >>> p, M, N = (Affine.variable(v) for v in "pMN")
    >>> divided_by([quotient_by(2 * quotient_by(p, N), 2 * M - 1) + 3])
    [2*M - 1, N]
    """
    found = definitions(compound for form in forms for compound in form.compounds())
    return sorted({part.divisor for part in found if isinstance(part, SymbolicQuotient)})


def of_multiples(rows: Sequence[Row], variable: Variable, outer: Sequence[Variable], known: Sequence[Row]) -> list[Row]:
    """The bounds of outer loops by rows that multiply the variable by a symbol: of ``r >= M*i`` and ``i >= s``."""
    held = [parts for row in rows if row.kind == "ge" and (parts := slope(row.form, variable)) is not None]
    found = []
    for (a, low), (b, high) in permutations(held, 2):
        if a.is_constant and b.is_constant:
            continue
        if a == -b:
            found.append(low + high)
        elif _is_positive(a, known) and _is_positive(-b, known):
            found.append(times(-b, low) + times(a, high))
    return [Row("ge", form) for form in found if _bounds_innermost(form, outer, known)]


def may_miss(rows: Sequence[Row], variable: Variable, known: Sequence[Row]) -> bool:
    """Whether two of the rows, ``r <= M*i <= s``, may have no ``i`` between them: ``s - r >= M - 1`` is not known.

    >>> p, M, i = (Affine.variable(v) for v in "pMi")
    >>> rest, some = p - times(M, i), [Row("ge", M - 1)]
    >>> may_miss([Row("ge", rest), Row("ge", M - 1 - rest)], "i", some)
    False
    >>> may_miss([Row("ge", rest), Row("ge", 9 - rest)], "i", some)
    True
    """
    held = [parts for row in rows if (parts := slope(row.form, variable)) is not None]
    return any(
        a == -b and _is_positive(a, known) and not implied(Row("ge", low + high - a + 1), known)
        for (a, low), (b, high) in permutations(held, 2)
    )


def _bounds_innermost(form: Affine, variables: Sequence[Variable], known: Sequence[Row]) -> bool:
    """Whether ``form >= 0`` bounds the innermost of the variables in it."""
    innermost = next((v for v in reversed(variables) if v in form.atoms()), None)
    parts = None if innermost is None else slope(form, innermost)
    return parts is not None and (_is_positive(parts[0], known) or _is_positive(-parts[0], known))


def _is_positive(form: Affine, known: Sequence[Row]) -> bool:
    return implied(Row("ge", form - 1), known)
