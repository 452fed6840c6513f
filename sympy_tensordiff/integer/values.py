"""Consequences of constraints and loop bounds for single variables: unique values, empty ranges, residues, points."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, permutations, product

from sympy_tensordiff.errors import LoopBoundError

from .affine import Affine, Constraint, Variable, quotient
from .extrema import cases, maximum_of, minimum_of
from .fourier_motzkin import project
from .implication import is_implied
from .nests import Bounds, bounds, order
from .products import quotient_by, quotients_in, slope, times
from .rows import Rows, atoms_in, linear, partition, unit_bounds_of
from .system import System

UniqueValue = tuple[dict[int, Affine], list[Constraint]]
"""The only value that a variable can have, and the guards under which it has it."""
ZERO = Affine()

MAX_LOOP_ORDERS = 24
"""The number of loop orders that are tried if the best one has no bounds."""

MAX_PROJECTED_ROWS = 16
"""The most rows of a projection that is only used to find the value of one variable."""


def nest_in_some_order(
    rows: Sequence[Constraint], variables: Sequence[int], facts: Rows
) -> tuple[tuple[Bounds, ...], tuple[Constraint, ...]]:
    """Return ``(loops, guards)``: the bounds of a loop nest over ``variables`` in the range ``rows``, in the first good
    order of loops that has bounds, and its guards. Raise LoopBoundError if no order has bounds.

    ``facts`` are known constraints.

    Orders are tried with bounds by symbolic multiples last. If none has bounds, the first LoopBoundError is raised.
    """
    orders = (order(rows, variables, facts), *islice(permutations(variables), MAX_LOOP_ORDERS))
    errors: list[LoopBoundError] = []
    for multiples, loop_order in product((False, True), orders):
        try:
            return bounds(rows, loop_order, facts, multiples=multiples)
        except LoopBoundError as error:
            errors.append(error)
    raise errors[0]


def bound_rows(limits: Iterable[Bounds]) -> list[Constraint]:
    """Return the constraints that each loop variable is within its bounds in ``limits``."""
    rows = []
    for variable, lows, highs in limits:
        rows += [Constraint("ge", Affine({variable: divisor}) - form) for form, divisor in lows]
        rows += [Constraint("ge", form - Affine({variable: divisor})) for form, divisor in highs]
    return rows


def tighten_by_congruences(rows: Rows) -> Rows:
    """Return ``rows`` with the constants of inequalities rounded to values that their congruences allow: ``p <= 12``
    for ``p < 14`` and even p.
    """
    result = []
    for row in rows:
        for other in rows:
            if row.kind == "ge" and other.kind == "mod":
                for sign in (1, -1):
                    rest = row.form - sign * other.form
                    if all(c % other.modulus == 0 for _, c in rest.terms):
                        row = Constraint("ge", row.form - rest.constant % other.modulus)
        result.append(row)
    return tuple(result)


def without_exact_floors(form: Affine, rows: Rows) -> Affine:
    """Return ``form`` without floors of quotients that the congruences in ``rows`` determine exactly: if p is odd,
    ``floor(p/2)`` is ``(p - 1)/2``, and ``2*floor(p/2) + 1`` becomes ``p``.
    """
    for floor in form.quotients():
        c, d = form.coefficient(floor), floor.divisor
        if c % d:
            continue
        for row in rows:
            for sign in (1, -1):
                rest = floor.form - sign * row.form
                if row.kind == "mod" and row.modulus % d == 0 and all(b % d == 0 for _, b in rest.terms):
                    exact = floor.form - rest.constant % d
                    return without_exact_floors(form + (c // d) * exact - Affine({floor: c}), rows)
    return form


def remove_exact_floors(rows: Rows, known: Rows) -> Rows:
    """Return ``rows`` with the floors in inequalities replaced by exact quotients, where the congruences in ``known``
    determine the remainder: ``2*floor(p/2)`` is ``p`` if p is even.
    """
    if linear(rows):
        return rows
    return tuple(Constraint("ge", without_exact_floors(row.form, known)) if row.kind == "ge" else row for row in rows)


def unique_value(variables: Sequence[int], rows: Rows, facts: Rows = ()) -> UniqueValue | None:
    """Return ``({v: value}, guards)`` for one of ``variables`` that can have only one value under the constraints
    ``rows`` and ``facts``: ``floor((p + 2)/3)`` for ``p <= 3*v <= p + 2``. None if there is no such variable.

    The rows can hold only where the constraints ``guards`` do.

    ``l <= c*v <= h`` with ``0 <= h - l < c`` holds at most for ``v = floor(h/c)``, and there if
    ``c*floor(h/c) >= l``. The coefficient may be symbolic, as in ``M*v``.
    """
    for v in variables:
        value = _value_between(v, variables, rows, facts)
        if value is not None:
            return {v: value[0]}, [Constraint("ge", value[1])]
    for v in variables if len(variables) > 1 else ():
        # The ranges of the other variables may narrow this one; all rows stay.
        if any(v in row.form.hidden() or abs(row.form.coefficient(v)) > 1 for row in rows):
            narrowed = _projection_on(v, variables, rows)
            value = _value_between(v, variables, narrowed, (*rows, *facts)) if narrowed else None
            if value is not None:
                return {v: value[0]}, []
    return None


def _value_between(v: int, variables: Sequence[int], rows: Rows, facts: Rows) -> tuple[Affine, Affine] | None:
    """Solve constraints ``l <= c*v <= h`` in ``rows`` for ``v``, if ``h - l < c`` allows at most one solution. Return
    ``(value, form)``: ``v`` is ``value`` where ``form >= 0``, and there is no solution elsewhere. None if no
    constraints are of this kind.

    `facts` are known constraints.
    """
    by_coefficient: dict[Affine, list[Affine]] = {}
    for row in rows:
        if row.kind != "ge" or v not in row.form.atoms():
            continue
        parts = row.form.split(v) if linear([row]) else slope(row.form, v)
        if parts is not None:
            by_coefficient.setdefault(parts[0], []).append(parts[1])
    for c, lows in by_coefficient.items():
        for low, high in product(lows, by_coefficient.get(-c, ()) if not c.is_constant or c.constant > 0 else ()):
            if _is_less(high + low, c, (*rows, *facts)):
                value = quotient_by(high, c)
                exists = high + low == c - 1 and sum(v in row.form.atoms() for row in rows) == 2
                rounded = () if exists or linear([value]) else quotients_in(value)
                if all(floor.atoms().isdisjoint(variables) for floor in rounded):
                    return value, ZERO if exists else times(value, c) + low
    return None


def _projection_on(v: int, variables: Sequence[int], rows: Rows) -> Rows:
    """Return the constraints on ``v`` that follow from the inequalities ``rows``, after elimination of all other
    variables in ``variables``.

    Rows that contain another variable in a compound are left out. Returns nothing if several variables are to be
    eliminated and the rows do not determine ``v``: projecting many variables takes long.
    """
    others = frozenset(variables) - {v}
    projected = [row for row in rows if row.kind == "ge" and row.form.hidden().isdisjoint(others)]
    if (
        len(others) > 1
        and not any(v in row.form.hidden() for row in projected)
        and not _is_unique(v, variables, projected)
    ):
        return ()
    for other in sorted(others):
        projected = list(project(projected, [other], max_rows=MAX_PROJECTED_ROWS) or ())
    return tuple(projected)


def _is_unique(v: int, variables: Sequence[int], rows: Sequence[Constraint]) -> bool:
    """Return whether the constraints ``rows`` determine ``v``: for given values of the variables that are not in
    ``variables``, it has at most one value.

    The pairs of points are the same cached system for all ``v``.
    """
    second = {w: Affine({-1 - w: 1}) for w in variables}
    return is_implied(Constraint("ge", second[v] - Affine({v: 1})), (*rows, *(row.substitute(second) for row in rows)))


def unique_value_by_equation(variables: Sequence[int], rows: Rows, facts: Rows) -> UniqueValue | None:
    """Return ``({variable: value}, guards)`` for one of ``variables`` that an equation in ``rows`` determines: ``i =
    p/n`` for ``n*i == p``, with the guard that p is a multiple of n. None without such an equation.

    ``M*v == r`` holds at most for ``v = floor(r/M)``, and there if ``M*floor(r/M) == r``. A term
    between 0 and ``M - 1`` is removed from the dividend: ``M*v == p - j`` gives ``floor(p/M)``.
    """
    for row in rows if any(row.kind == "eq" for row in rows) else ():
        for v in variables:
            parts = slope(row.form, v) if row.kind == "eq" else None
            for sign in (1, -1) if parts is not None and not parts[0].is_constant else ():
                factor, rest = (part * sign for part in parts or ())
                if is_implied(Constraint("ge", factor - 1), (*rows, *facts)):
                    value = quotient_by(-_without_remainder_term(rest, factor, (*rows, *facts)), factor)
                    if all(quotient.atoms().isdisjoint(variables) for quotient in quotients_in(value)):
                        return {v: value}, [Constraint("eq", times(value, factor) + rest)]
    return None


def _without_remainder_term(rest: Affine, factor: Affine, known: Rows) -> Affine:
    """Drop from ``rest``, in the equation ``factor*i + rest == 0``, the first term ``v`` with the coefficient 1 for
    which ``known`` implies ``0 <= v < factor``; return ``rest`` unchanged if there is none. So ``M*i + v - p == 0``
    gives ``i == floor(p/M)``.
    """
    for v, c in rest.terms:
        remainder = Affine({v: 1})
        if c == 1 and all(is_implied(Constraint("ge", form), known) for form in (remainder, factor - 1 - remainder)):
            return rest - remainder
    return rest


def _is_less(width: Affine, coefficient: Affine, known: Rows) -> bool:
    """Return whether ``width < coefficient`` and ``0 < coefficient`` provably hold under the constraints ``known``."""
    if coefficient.is_constant:
        return width.is_constant and width.constant < coefficient.constant > 0
    return all(is_implied(Constraint("ge", form), known) for form in (coefficient - 1, coefficient - 1 - width))


def are_ranges_nonempty(limits: Sequence[Bounds], facts: Rows) -> bool:
    """Return whether the nested ranges ``limits`` are proved to be nonempty: each contains an integer for all values of
    the outer indices, under the constraints ``facts``. False if this is unknown.
    """
    known = facts
    for limit in limits:
        for low, c in limit.lows:
            for high, d in limit.highs:
                if not is_implied(Constraint("ge", c * high - d * low - (c - 1) * (d - 1)), known):
                    return False
        known = (*known, *bound_rows([limit]))
    return True


MAX_COUNTED_BOUNDS = 4
"""The most bounds of a range whose length is written as a form; with more, the loop is simpler."""


def length_of_range(limit: Bounds) -> Affine | None:
    """Return the number of values of a loop with the bounds ``limit`` as a form, 0 or negative if it is empty. None if
    there are more than `MAX_COUNTED_BOUNDS` bounds.
    """
    if len(limit.lows) + len(limit.highs) > MAX_COUNTED_BOUNDS:
        return None
    last = minimum_of(quotient(form, divisor) for form, divisor in limit.highs)
    return last - maximum_of(-quotient(-form, divisor) for form, divisor in limit.lows) + 1


def has_point(rows: Rows, variables: Sequence[int], known: Rows) -> bool:
    """Return whether the nested ranges ``rows`` of ``variables`` are proved to contain a point under the constraints
    ``known``: each one is nonempty for all values of the outer ones. False if that is unknown.
    """
    open_variables = set(variables)
    while open_variables:
        for v in sorted(open_variables):
            others = open_variables - {v}
            own = [row for row in rows if row.form.coefficient(v) and row.form.atoms().isdisjoint(others)]
            lows, highs = unit_bounds_of(v, own)
            if lows and highs and len(lows) + len(highs) == len(own):
                around = partition(rows, open_variables)[0]
                if all(is_implied(Constraint("ge", high - low), (*known, *around)) for low in lows for high in highs):
                    open_variables.remove(v)
                    break
        else:
            return False
    return True


def least_slack_point(row: Constraint, bound: Sequence[int], context: Rows) -> dict[int, Affine]:
    """Return the values of the ``bound`` variables (given innermost first) at which the inequality ``row`` is hardest
    to satisfy: ``{j: n}`` for ``n - j - 1 >= 0`` if ``context``, the known constraints, contains ``j <= n``.

    A variable whose relevant bound is not a single form is left out.

    >>> i, j, n = (Affine.variable(v) for v in "ijn")
    >>> triangle = [Constraint("ge", j), Constraint("ge", i - j), Constraint("ge", i), Constraint("ge", n - i)]
    >>> least_slack_point(Constraint("ge", n - j - 1), ["j", "i"], triangle)
    {'j': n, 'i': n}
    """
    form, values = row.form, dict[int, Affine]()
    for v in bound:
        c = form.coefficient(v)
        ends = unit_bounds_of(v, context)[c < 0] if c else []
        if len(ends) == 1:
            extreme = {v: ends[0]}
            values = {u: value.substitute(extreme) for u, value in values.items()} | extreme
            form = form.substitute(extreme)
    return values


def at_least_slack(row: Constraint, bound: Sequence[int], context: Rows) -> Constraint | None:
    """Return the inequality ``row`` at those values of the ``bound`` variables at which it is hardest to satisfy under
    the constraints ``context``: if it holds there, it holds for all their values. None if these values are unknown.
    """
    worst = row.substitute(least_slack_point(row, bound, context))
    return None if worst.form.atoms() & frozenset(bound) else worst


def find_point(
    rows: Sequence[Constraint], variables: Sequence[Variable], limit: int | None = None
) -> dict[Variable, int] | None:
    """Return an integer point that satisfies ``rows``, which contain only ``variables``; None if there is none. The
    search stops after ``limit`` steps, if given, with an error.

    Raise `ValueError` if the rows contain another variable, if the search may not end because the system is unbounded,
    or after ``limit`` steps.

    Examples
    --------
    >>> i, j = Affine.variable("i"), Affine.variable("j")
    >>> find_point([Constraint("eq", 3 * i - 2 * j - 1), Constraint("ge", i - 2), Constraint("ge", 9 - j)], ["i", "j"])
    {'i': 5, 'j': 7}
    """
    for case in cases(rows, limit=None):
        point = _find_point_of_case(case, variables, limit)
        if point is not None:
            return point
    return None


def _find_point_of_case(
    rows: Sequence[Constraint], variables: Sequence[Variable], limit: int | None
) -> dict[Variable, int] | None:
    """Return an integer point of ``rows``, which contain no maxima and minima; None if there is none. Raise ValueError
    after ``limit`` steps.
    """
    solved = _numeric_system(rows, variables)
    if solved.is_empty:
        return None
    corner = solved.rational_point()
    if all(value.denominator == 1 for value in corner):
        return _variables_from_columns(solved, variables, [value.numerator for value in corner])
    return next(_enumerate_points(solved, variables, limit), None)


def _numeric_system(rows: Sequence[Constraint], variables: Sequence[Variable]) -> System:
    """Return the `System` of ``rows``; raise ValueError if they contain a variable that is not one of ``variables``."""
    other = atoms_in(rows) - frozenset(variables)
    if other:
        raise ValueError(f"no values given for {sorted(map(str, other))}")
    return System(tuple(rows))


def _variables_from_columns(
    solved: System, variables: Sequence[Variable], columns: Sequence[int]
) -> dict[Variable, int]:
    """Return a dictionary from ``variables`` to their values at one point of the system ``solved``. The point is given
    by ``columns``, the values of the system's independent integers. A variable that no constraint contains is 0.
    """
    values = (*columns, 1)
    return {v: sum(c * values[i] for i, c in solved.images.get(v, ())) for v in variables}


def _enumerate_points(
    solved: System, variables: Sequence[Variable], limit: int | None = None
) -> Iterator[dict[Variable, int]]:
    """Yield the integer points of the system ``solved``, each as a dictionary of the values of ``variables``. Raise
    ValueError if there are infinitely many, or if more than ``limit`` steps are needed (None: no limit).
    """
    if solved.is_empty:
        return
    if not solved.images.keys() >= set(variables):
        raise ValueError("the system is unbounded: a variable is in no row")
    system = [
        Constraint("ge", Affine(dict(enumerate(terms)), constant)) for terms, constant in solved.inequalities.items()
    ]
    columns = range(solved.width)
    try:
        nest, _ = bounds(system, order(system, columns))
    except ValueError:
        raise ValueError("the system is unbounded") from None
    for values in points_of_nest(nest, limit=limit):
        yield _variables_from_columns(solved, variables, [values[column] for column in columns])


def points_of_nest(
    nest: Sequence[Bounds], known: Mapping[Variable, int] | None = None, limit: int | None = None
) -> Iterator[dict[Variable, int]]:
    """Yield the points of the loop nest ``nest`` in order, as dictionaries from variables to values. Raise `ValueError`
    after ``limit`` steps.

    It is the same dictionary each time, with changed values. ``known`` has the values of the variables that the nest
    does not bind.
    """
    values = dict(known or {})
    if not nest:
        yield values
        return
    stack = [iter(nest[0].range(values))]
    steps = 0
    while stack:
        steps += 1
        if limit is not None and steps > limit:
            raise ValueError(f"no point was found in {limit} steps")
        depth = len(stack) - 1
        for value in stack[-1]:
            values[nest[depth].variable] = value
            if depth + 1 < len(nest):
                stack.append(iter(nest[depth + 1].range(values)))
                break
            yield values
        else:
            stack.pop()
