"""What the rows and the bounds of variables say together: single values, empty ranges, residues, points."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, permutations, product

from sympy_tensordiff.errors import LoopBoundError

from .affine import Affine, Row, Variable, quotient
from .extrema import cases, greatest, least
from .fourier_motzkin import project
from .implication import implied
from .nests import Bounds, bounds, order
from .products import quotient_by, quotients_in, slope, times
from .rows import Rows, atoms_in, limits_of, linear, partition
from .system import System

Single = tuple[dict[int, Affine], list[Row]]
"""The only value that a variable can have, and the guards that go with it."""
ZERO = Affine()

MOST_ORDERS = 24
"""So many orders of loops are tried where the best one has no bounds."""

MOST = 16
"""A projection that is only asked for the value of one variable is held to so many rows."""


def nest_in_some_order(
    rows: Sequence[Row], variables: Sequence[int], facts: Rows
) -> tuple[tuple[Bounds, ...], tuple[Row, ...]]:
    """The loops in the best order, or in another one where there are no bounds in that; by multiples if need be."""
    orders = (order(rows, variables, facts), *islice(permutations(variables), MOST_ORDERS))
    refused: list[LoopBoundError] = []
    for multiples, chosen in product((False, True), orders):
        try:
            return bounds(rows, chosen, facts, multiples=multiples)
        except LoopBoundError as error:
            refused.append(error)
    raise refused[0]


def bound_rows(limits: Iterable[Bounds]) -> list[Row]:
    """The rows that say that each variable lies within its bounds."""
    rows = []
    for variable, lows, highs in limits:
        rows += [Row("ge", Affine({variable: divisor}) - form) for form, divisor in lows]
        rows += [Row("ge", form - Affine({variable: divisor})) for form, divisor in highs]
    return rows


def to_residues(rows: Rows) -> Rows:
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


def without_exact_floors(form: Affine, rows: Rows) -> Affine:
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


def exact_rows(rows: Rows, known: Rows) -> Rows:
    """Rows, the inequalities among them without floors that known congruences make exact."""
    if linear(rows):
        return rows
    return tuple(Row("ge", without_exact_floors(row.form, known)) if row.kind == "ge" else row for row in rows)


def single_value(variables: Sequence[int], rows: Rows, facts: Rows = ()) -> Single | None:
    """A variable whose range is provably shorter than 1: its value and the guard that goes with it.

    ``l <= c*v <= h`` with ``0 <= h - l < c`` holds at most for ``v = floor(h/c)``, and there if
    ``c*floor(h/c) >= l``. The coefficient may be symbolic, as in ``M*v``.
    """
    for v in variables:
        found = _value_between(v, variables, rows, facts)
        if found is not None:
            return {v: found[0]}, [Row("ge", found[1])]
    for v in variables if len(variables) > 1 else ():
        # The ranges of the other variables may narrow this one; all rows stay.
        if any(v in row.form.hidden() or abs(row.form.coefficient(v)) > 1 for row in rows):
            narrowed = _projected(v, variables, rows)
            found = _value_between(v, variables, narrowed, (*rows, *facts)) if narrowed else None
            if found is not None:
                return {v: found[0]}, []
    return None


def _value_between(v: int, variables: Sequence[int], rows: Rows, facts: Rows) -> tuple[Affine, Affine] | None:
    """``floor(h/c)`` and what has to be non-negative there, for two rows that allow at most one value of ``v``."""
    held: dict[Affine, list[Affine]] = {}
    for row in rows:
        if row.kind != "ge" or v not in row.form.atoms():
            continue
        parts = row.form.split(v) if linear([row]) else slope(row.form, v)
        if parts is not None:
            held.setdefault(parts[0], []).append(parts[1])
    for c, lows in held.items():
        for low, high in product(lows, held.get(-c, ()) if not c.is_constant or c.constant > 0 else ()):
            if _is_below(high + low, c, (*rows, *facts)):
                value = quotient_by(high, c)
                exists = high + low == c - 1 and sum(v in row.form.atoms() for row in rows) == 2
                rounded = () if exists or linear([value]) else quotients_in(value)
                if all(found.atoms().isdisjoint(variables) for found in rounded):
                    return value, ZERO if exists else times(value, c) + low
    return None


def _projected(v: int, variables: Sequence[int], rows: Rows) -> Rows:
    """What the rows say of one variable and of what is outside, without those that hide another variable.

    Nothing where they leave the variable several values: projecting many variables out takes long.
    """
    others = frozenset(variables) - {v}
    plain = [row for row in rows if row.kind == "ge" and row.form.hidden().isdisjoint(others)]
    if len(others) > 1 and not any(v in row.form.hidden() for row in plain) and not _is_one_value(v, variables, plain):
        return ()
    for other in sorted(others):
        plain = list(project(plain, [other], most=MOST) or ())
    return tuple(plain)


def _is_one_value(v: int, variables: Sequence[int], rows: Sequence[Row]) -> bool:
    """Whether two points that agree outside of ``variables`` provably have the same ``v``.

    The pairs of points are one system for all variables, so that it is solved once.
    """
    other = {w: Affine({-1 - w: 1}) for w in variables}
    return implied(Row("ge", other[v] - Affine({v: 1})), (*rows, *(row.substitute(other) for row in rows)))


def divided_value(variables: Sequence[int], rows: Rows, facts: Rows) -> Single | None:
    """A variable that an equation multiplies by a positive symbol: its value and the guard that goes with it.

    ``M*v == r`` holds at most for ``v = floor(r/M)``, and there if ``M*floor(r/M) == r``. A term
    between 0 and ``M - 1`` is left out of the quotient: ``M*v == p - j`` gives ``floor(p/M)``.
    """
    for row in rows if any(row.kind == "eq" for row in rows) else ():
        for v in variables:
            parts = slope(row.form, v) if row.kind == "eq" else None
            for sign in (1, -1) if parts is not None and not parts[0].is_constant else ():
                factor, rest = (part * sign for part in parts or ())
                if implied(Row("ge", factor - 1), (*rows, *facts)):
                    value = quotient_by(-_without_digit(rest, factor, (*rows, *facts)), factor)
                    if all(found.atoms().isdisjoint(variables) for found in quotients_in(value)):
                        return {v: value}, [Row("eq", times(value, factor) + rest)]
    return None


def _without_digit(rest: Affine, factor: Affine, known: Rows) -> Affine:
    """The form without a variable that is known to lie between 0 and ``factor - 1``."""
    for v, c in rest.terms:
        digit = Affine({v: 1})
        if c == 1 and all(implied(Row("ge", form), known) for form in (digit, factor - 1 - digit)):
            return rest - digit
    return rest


def _is_below(width: Affine, coefficient: Affine, known: Rows) -> bool:
    """Whether ``width < coefficient``, which is positive."""
    if coefficient.is_constant:
        return width.is_constant and width.constant < coefficient.constant > 0
    return all(implied(Row("ge", form), known) for form in (coefficient - 1, coefficient - 1 - width))


def never_empty(limits: Sequence[Bounds], facts: Rows) -> bool:
    """Whether every range provably holds an integer (sufficient: the dark shadow of each pair)."""
    known = facts
    for limit in limits:
        for low, c in limit.lows:
            for high, d in limit.highs:
                if not implied(Row("ge", c * high - d * low - (c - 1) * (d - 1)), known):
                    return False
        known = (*known, *bound_rows([limit]))
    return True


MOST_BOUNDS = 4
"""A number of values of more bounds is longer than the loop."""


def number_of_values(limit: Bounds) -> Affine | None:
    """The number of values of a variable, less than 1 where there are none; None where it has too many bounds."""
    if len(limit.lows) + len(limit.highs) > MOST_BOUNDS:
        return None
    last = least(quotient(form, divisor) for form, divisor in limit.highs)
    return last - greatest(-quotient(-form, divisor) for form, divisor in limit.lows) + 1


def is_nonempty(rows: Rows, variables: Sequence[int], known: Rows) -> bool:
    """Whether a sum over simple ranges provably has a point: each range, given those around it."""
    open_variables = set(variables)
    while open_variables:
        for v in sorted(open_variables):
            others = open_variables - {v}
            own = [row for row in rows if row.form.coefficient(v) and row.form.atoms().isdisjoint(others)]
            lows, highs = limits_of(v, own)
            if lows and highs and len(lows) + len(highs) == len(own):
                around = partition(rows, open_variables)[0]
                if all(implied(Row("ge", high - low), (*known, *around)) for low in lows for high in highs):
                    open_variables.remove(v)
                    break
        else:
            return False
    return True


def hardest(row: Row, bound: Sequence[int], context: Rows) -> dict[int, Affine]:
    """The values of bound variables, innermost first, at which a row is hardest to meet.

    A variable of which a bound is not a single form has none.

    >>> i, j, n = (Affine.variable(v) for v in "ijn")
    >>> triangle = [Row("ge", j), Row("ge", i - j), Row("ge", i), Row("ge", n - i)]
    >>> hardest(Row("ge", n - j - 1), ["j", "i"], triangle)
    {'j': n, 'i': n}
    """
    form, values = row.form, dict[int, Affine]()
    for v in bound:
        c = form.coefficient(v)
        ends = limits_of(v, context)[c < 0] if c else []
        if len(ends) == 1:
            last = {v: ends[0]}
            values = {u: value.substitute(last) for u, value in values.items()} | last
            form = form.substitute(last)
    return values


def at_extreme(row: Row, bound: Sequence[int], context: Rows) -> Row | None:
    """The row at its `hardest` values, so that it holds for the sizes alone; None where these are not all known."""
    worst = row.substitute(hardest(row, bound, context))
    return None if worst.form.atoms() & frozenset(bound) else worst


def find_point(
    rows: Sequence[Row], variables: Sequence[Variable], limit: int | None = None
) -> dict[Variable, int] | None:
    """An integer point of a numeric system, all of whose variables are given; None where there is none.

    The search gives up after ``limit`` steps.

    Raises
    ------
    ValueError
        If the rows hold another variable, the search would be endless in an unbounded system, or
        it takes more steps than the limit.

    Examples
    --------
    >>> i, j = Affine.variable("i"), Affine.variable("j")
    >>> find_point([Row("eq", 3 * i - 2 * j - 1), Row("ge", i - 2), Row("ge", 9 - j)], ["i", "j"])
    {'i': 5, 'j': 7}
    """
    for case in cases(rows, limit=None):
        point = _point(case, variables, limit)
        if point is not None:
            return point
    return None


def _point(rows: Sequence[Row], variables: Sequence[Variable], limit: int | None) -> dict[Variable, int] | None:
    """As `find_point`, for rows without maxima and minima."""
    solved = _numeric(rows, variables)
    if solved.is_empty:
        return None
    corner = solved.rational_point()
    if all(value.denominator == 1 for value in corner):
        return _original(solved, variables, [value.numerator for value in corner])
    return next(_points(solved, variables, limit), None)


def count_points(rows: Sequence[Row], variables: Sequence[Variable]) -> int:
    """The number of integer points of a numeric system, by enumeration.

    >>> z1, z2 = Affine.variable("z1"), Affine.variable("z2")
    >>> box = [Row("ge", 1 - z1), Row("ge", z1 + 1), Row("ge", z1 + z2), Row("ge", 4 - z1 - z2)]
    >>> count_points([*box, Row("ge", z2 + 1), Row("ge", 5 - z2)], ["z1", "z2"])  # fig. 4 of the paper
    15
    """
    systems = (_numeric(case, variables) for case in cases(rows, limit=None))
    return sum(1 for solved in systems for _ in _points(solved, variables))


def _numeric(rows: Sequence[Row], variables: Sequence[Variable]) -> System:
    """The system of rows that hold no other variables than the given ones."""
    other = atoms_in(rows) - frozenset(variables)
    if other:
        raise ValueError(f"no values given for {sorted(map(str, other))}")
    return System(tuple(rows))


def _original(solved: System, variables: Sequence[Variable], columns: Sequence[int]) -> dict[Variable, int]:
    """The given variables at a point of the columns; one that no row holds is 0."""
    values = (*columns, 1)
    return {v: sum(c * values[i] for i, c in solved.images.get(v, ())) for v in variables}


def _points(solved: System, variables: Sequence[Variable], limit: int | None = None) -> Iterator[dict[Variable, int]]:
    """All integer points, one by one: a nest over the columns that the equations leave free."""
    if solved.is_empty:
        return
    if not solved.images.keys() >= set(variables):
        raise ValueError("the system is unbounded: a variable is in no row")
    system = [Row("ge", Affine(dict(enumerate(terms)), constant)) for terms, constant in solved.inequalities.items()]
    columns = range(solved.width)
    try:
        nest, _ = bounds(system, order(system, columns))
    except ValueError:
        raise ValueError("the system is unbounded") from None
    for values in run(nest, limit=limit):
        yield _original(solved, variables, [values[column] for column in columns])


def run(
    nest: Sequence[Bounds], known: Mapping[Variable, int] | None = None, limit: int | None = None
) -> Iterator[dict[Variable, int]]:
    """The points of a nest, in order, where all else in it is ``known``; the yielded mapping is reused.

    Raises
    ------
    ValueError
        If it takes more steps than the limit to find one.
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
