"""Inequalities as loop bounds: floors of loop variables eliminated, symbolic coefficients divided by.

``2*floor(j/3) >= k`` is not a bound of a loop over ``j``, but the equivalent ``j >= 3*ceiling(k/2)`` is. Rows that
multiply an index by a symbol, ``M*i <= r``, bound this index, and outer loop variables.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import permutations
from typing import TypeAlias

from sympy_tensordiff.errors import LoopBoundError

from .affine import Affine, Constraint, Quotient, Variable, quotient
from .extrema import split_clamps
from .implication import is_implied, without_redundant
from .indirect import data_entries
from .products import SymbolicQuotient, quotient_by, quotients_in, slope, times
from .rows import normalise_rows
from .system import definitions


def eliminate_floors(row: Constraint, loops: frozenset[Variable]) -> list[Constraint] | None:
    """Return ``row`` as inequalities in which no floor contains a variable in ``loops``: ``i >= 2*k`` for
    ``floor(i/2) >= k``. None if it cannot be written so.

    ``c*floor(f/d) + r >= 0`` is ``f + d*floor(r/c) >= 0`` for positive ``c``, and
    ``r - c*floor(f/d) >= 0`` is ``d*floor(r/c) + d - 1 - f >= 0``.
    """
    result: list[Constraint] = []
    waiting = [row]
    while waiting:
        row = waiting.pop()
        floors = [
            (q, c)
            for q, c in row.form.terms
            if isinstance(q, (Quotient, SymbolicQuotient)) and not loops.isdisjoint(q.atoms())
        ]
        if not floors:
            result.append(row)
        elif row.kind == "eq":
            waiting += (Constraint("ge", -row.form), Constraint("ge", row.form))
        else:
            q, c = min(floors, key=lambda item: abs(item[1]))
            rest = row.form - Affine({q: c})
            share = quotient(rest, abs(c))
            rounded = share.compounds().difference(rest.compounds())
            if row.kind == "mod" or any(not loops.isdisjoint(r.atoms()) for r in rounded):
                return None
            share = times(share, Affine.of(q.divisor))
            waiting.append(Constraint("ge", q.form + share if c > 0 else share + (q.divisor - 1) - q.form))
    return result


def rows_without_quotients(rows: Sequence[Constraint], loops: frozenset[Variable]) -> list[Constraint]:
    """Return ``rows`` with floors and subtracted maxima that contain variables in ``loops`` rewritten as inequalities,
    where possible: ``i - max(0, j) >= 0`` becomes ``i - j >= 0`` and ``i >= 0``.

    A multiple of a floor next to another loop variable stays: it bounds that one, or is left to its own loop. With
    tensor entries, which may only be read where other rows hold, it raises LoopBoundError.
    """
    result: list[Constraint] = []
    for row in (part for given in rows for part in split_clamps(given, loops)):
        written = eliminate_floors(row, loops)
        if written is None and data_entries([row.form]):
            raise _no_bound(row)
        result += [row] if written is None else written
    return result


def system_without_quotients(
    rows: tuple[Constraint, ...], variable: Variable, known: Sequence[Constraint]
) -> tuple[Constraint, ...]:
    """Return the constraints ``rows`` with floors of ``variable`` rewritten as inequalities, from which the bounds of a
    loop over ``variable`` can be read. Raise `LoopBoundError` if that is impossible.

    ``known`` are constraints that hold.
    """
    result: list[Constraint] = []
    for row in rows:
        written = eliminate_floors(row, frozenset([variable]))
        if written is None:
            raise _no_bound(row)
        result += written
    return rows if result == list(rows) else without_redundant(result, known)


def _no_bound(row: Constraint) -> LoopBoundError:
    """Return the error for the constraint ``row`` that no loop bound can express, because of a floor in it."""
    return LoopBoundError(
        "no bounds of a loop express {}, a multiple of a rounded quotient of one index together with an index: split "
        "the sum by the remainder, e.g. write i = 2*k + l with l = 0, 1",
        row,
    )


def innermost_bound(row: Constraint, variables: Sequence[Variable]) -> Constraint | None:
    """Return a bound, implied by ``row``, of the innermost of ``variables`` that ``row`` contains. It is ``row`` itself
    or, if that variable is inside of floors from which it cannot be taken, a weaker constraint without them. None if
    there is none.

    >>> i = Affine.variable("i")
    >>> innermost_bound(Constraint("ge", 5 * quotient(i, 3) - 2 * quotient(i, 2) - 9), "i")
    4*i - 48 >= 0
    """
    innermost = next((v for v in reversed(variables) if v in row.form.atoms()), None)
    if innermost is None or eliminate_floors(row, frozenset([innermost])) is not None:
        return row
    form = _upper_estimate(row.form, frozenset([innermost])) if row.kind == "ge" else Affine()
    return None if innermost in form.hidden() or form.is_constant else Constraint("ge", form)


def affine_in(rows: Iterable[Constraint], variables: frozenset[Variable]) -> list[Constraint]:
    """Return those of ``rows`` that are linear in ``variables``, after rewriting floors of these variables as
    inequalities where that is possible. The other constraints are left out.
    """
    return [row for row in _without_floors_in_lowest_terms(rows, variables) if row.form.hidden().isdisjoint(variables)]


def relax_to_affine(rows: Iterable[Constraint], variables: frozenset[Variable]) -> list[Constraint]:
    """Return constraints that are linear in ``variables`` and follow from ``rows``: each floor of the variables is
    replaced by a linear bound of it.

    The result has all points of the rows and perhaps more: enough for a projection.
    """
    return affine_in(
        (part for row in _without_floors_in_lowest_terms(rows, variables) for part in floors_relaxed(row, variables)),
        variables,
    )


def _without_floors_in_lowest_terms(rows: Iterable[Constraint], variables: frozenset[Variable]) -> Sequence[Constraint]:
    """Rewrite floors of ``variables`` in ``rows`` as inequalities where that is possible, and return the constraints in
    lowest terms. Congruences that contain ``variables`` are left out.
    """
    plain = [row for row in rows if row.kind != "mod" or row.form.atoms().isdisjoint(variables)]
    parts = [part for row in plain for part in eliminate_floors(row, variables) or [row]]
    # In lowest terms, a quotient by a symbol has become a product with it.
    reduced = normalise_rows(parts)
    return parts if reduced is None else reduced


def floors_relaxed(row: Constraint, variables: frozenset[Variable]) -> list[Constraint]:
    """Return ``[row]`` if it has no floors of ``variables``; else inequalities without these floors that follow from
    `row`.

    >>> i, j = (Affine.variable(v) for v in "ij")
    >>> floors_relaxed(Constraint("ge", i - 3 * quotient(i, 3) - j), frozenset("i"))
    [-3*j + 6 >= 0]
    """
    if row.kind == "mod" or row.form.hidden().isdisjoint(variables):
        return [row]
    return [
        Constraint("ge", _upper_estimate(form, variables))
        for form in ((row.form,) if row.kind == "ge" else (row.form, -row.form))
    ]


def _upper_estimate(form: Affine, variables: frozenset[Variable]) -> Affine:
    """Return a form without floors of ``variables`` that is not negative wherever ``form`` is not, such as ``i - 2``
    for ``floor(i/2) - 1``: it is at least a positive multiple of ``form``.

    A quotient by a symbol is eliminated if the symbol multiplies it, as in a remainder.
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
            return _upper_estimate(rest + c * (q.form if c > 0 else q.form - (divisor - 1)), variables)
    return form


BoundForms: TypeAlias = list[tuple[Affine, int]]
"""Forms and their divisors, as in `nests.Bounds`."""


def divided_bounds(variable: Variable, row: Constraint, known: Sequence[Constraint]) -> tuple[BoundForms, BoundForms]:
    """Return ``(lower bounds, upper bounds)`` of ``variable``, as pairs (form, divisor), from an inequality ``row`` in
    which a symbol multiplies it: ``M*i + r >= 0`` gives ``i >= -floor(r/M)``. Raise LoopBoundError if ``known`` does
    not imply the sign of the symbol.
    """
    parts = slope(row.form, variable)
    for sign in (1, -1) if parts is not None else ():
        divisor, rest = (part * sign for part in parts or ())
        if _is_positive(divisor, known):
            lows = [(-quotient_by(rest, divisor), 1)] if sign > 0 or row.kind == "eq" else []
            highs = [(quotient_by(-rest, divisor), 1)] if sign < 0 or row.kind == "eq" else []
            return lows, highs
    raise LoopBoundError(
        "the condition {1} gives no bounds of a loop over {0}: the sign of its coefficient is not known, or {0} occurs "
        "in it twice; make the coefficient an extent, and add an index with the coefficient 1",
        variable,
        row,
    )


def positive_divisors(
    variable: Variable, rows: Sequence[Constraint], known: Sequence[Constraint]
) -> tuple[Constraint, ...]:
    """Return the guards ``M >= 1`` to test before the loop over ``variable``, one for each symbolic divisor M of its
    bounds. Only divisors whose sign follows from ``rows`` and ``known`` together, but not from ``known`` alone, need a
    guard.

    These guards are tested outside of the loop: if the loop has no points, a divisor may be 0.
    """
    result: dict[Constraint, None] = {}
    for row in rows if any(variable in row.form.hidden() for row in rows) else ():
        parts = slope(row.form, variable) if variable in row.form.hidden() else None
        signed = (parts[0], -parts[0]) if parts is not None and not parts[0].is_constant else ()
        if not any(_is_positive(divisor, known) for divisor in signed):
            result.update(
                {Constraint("ge", divisor - 1): None for divisor in signed if _is_positive(divisor, (*rows, *known))}
            )
    return tuple(result)


def times_divisors(rows: Iterable[Constraint]) -> tuple[Constraint, ...]:
    """Return those of ``rows`` that contain ``floor(f/M)`` with a symbolic divisor M, each multiplied by M. They then
    contain ``M*floor(f/M)``, which is bounded by ``f``.

    >>> p, M, i = (Affine.variable(v) for v in "pMi")
    >>> times_divisors([Constraint("ge", i - quotient_by(p, M)), Constraint("ge", i)])
    (M*i - M*floor((p)/(M)) >= 0,)
    """
    return tuple(
        Constraint(row.kind, times(row.form, divisor))
        for row in rows
        if row.kind != "mod"
        for divisor in dict.fromkeys(v.divisor for v, _ in row.form.terms if isinstance(v, SymbolicQuotient))
    )


def symbolic_divisors(forms: Iterable[Affine]) -> list[Affine]:
    """Return the divisors M, which are not numbers, of all quotients ``floor(f/M)`` in ``forms``, nested ones included.

    >>> p, M, N = (Affine.variable(v) for v in "pMN")
    >>> symbolic_divisors([quotient_by(2 * quotient_by(p, N), 2 * M - 1) + 3])
    [2*M - 1, N]
    """
    compounds = definitions(compound for form in forms for compound in form.compounds())
    return sorted({part.divisor for part in compounds if isinstance(part, SymbolicQuotient)})


def bounds_by_multiples(
    rows: Sequence[Constraint], variable: Variable, outer: Sequence[Variable], known: Sequence[Constraint]
) -> list[Constraint]:
    """Eliminate ``variable`` from the inequalities ``rows`` in which its coefficient is symbolic, and return the bounds
    on the ``outer`` loop variables that follow. For the variable ``i``, ``r >= M*i`` and ``i >= s`` give ``r >= M*s``
    if ``known`` implies ``M > 0``.
    """
    linear = [parts for row in rows if row.kind == "ge" and (parts := slope(row.form, variable)) is not None]
    forms = []
    for (a, low), (b, high) in permutations(linear, 2):
        if a.is_constant and b.is_constant:
            continue
        if a == -b:
            forms.append(low + high)
        elif _is_positive(a, known) and _is_positive(-b, known):
            forms.append(times(-b, low) + times(a, high))
    return [Constraint("ge", form) for form in forms if _bounds_innermost(form, outer, known)]


def may_miss(rows: Sequence[Constraint], variable: Variable, known: Sequence[Constraint]) -> bool:
    """Return whether the loop over ``variable`` i, with bounds ``r <= M*i <= s`` in ``rows``, may be empty although
    ``r <= s``, because no multiple of M is between r and s. ``known`` are constraints that hold.

    >>> p, M, i = (Affine.variable(v) for v in "pMi")
    >>> rest, some = p - times(M, i), [Constraint("ge", M - 1)]
    >>> may_miss([Constraint("ge", rest), Constraint("ge", M - 1 - rest)], "i", some)
    False
    >>> may_miss([Constraint("ge", rest), Constraint("ge", 9 - rest)], "i", some)
    True
    """
    linear = [parts for row in rows if (parts := slope(row.form, variable)) is not None]
    return any(
        a == -b and _is_positive(a, known) and not is_implied(Constraint("ge", low + high - a + 1), known)
        for (a, low), (b, high) in permutations(linear, 2)
    )


def _bounds_innermost(form: Affine, variables: Sequence[Variable], known: Sequence[Constraint]) -> bool:
    """Return whether ``form >= 0`` is a lower or upper bound of the innermost loop variable in it: the last of
    ``variables`` that it contains. The constraints ``known`` hold.
    """
    innermost = next((v for v in reversed(variables) if v in form.atoms()), None)
    parts = None if innermost is None else slope(form, innermost)
    return parts is not None and (_is_positive(parts[0], known) or _is_positive(-parts[0], known))


def _is_positive(form: Affine, known: Sequence[Constraint]) -> bool:
    """Return whether ``known`` imply ``form >= 1``."""
    return is_implied(Constraint("ge", form - 1), known)
