"""The equations over the variables of a sum, solved over the integers.

``A v + c == beta`` is solved as ``v = I beta + K z``, and the sum runs over ``z``. What cannot be met for some ``beta``
becomes a condition on the outside: one congruence per invariant factor greater than 1, which eq. (46) of Urban & van
der Smagt 2017 drops, one equation per row of the cokernel. Order of the work: unit pivots first, since they keep the
ranges as the user wrote them; a row whose coefficients have a common divisor gives a congruence and is divided by it;
the Smith normal form solves what is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import gcd
from typing import Protocol

from . import smith
from .affine import Affine, Compound, Quotient, Row, Variable, quotient
from .data import is_opaque, selected_in
from .lattice import dot, negated, shortened
from .products import SymbolicQuotient, quotient_by, quotients_in, times
from .rows import linear, normalise_rows, partition, remainders, substitute_all

Solution = tuple[list[int], dict[Variable, Affine], tuple[Row, ...]]


class Names(Protocol):
    """What names variables and makes new ones: a graph."""

    names: list[str]

    def fresh(self, name: str) -> int:
        """A new variable."""


RESIDUES_LIMIT = 16
"""A condition on a remainder that allows so many values is a sum for each of them, in steps, without a test."""


def solve_equations(names: Names, variables: Sequence[int], rows: Iterable[Row]) -> Solution | None:
    """All equations and congruences over ``variables`` solved.

    Returns
    -------
    (kept, mapping, rows) or None
        ``kept`` are the variables that still run (new ones among them), ``mapping`` gives the
        others in terms of those, ``rows`` are what is left: only inequalities hold a kept
        variable, equations and congruences are conditions on the outside. None: no point at all.
    """
    kept = list(variables)
    mapping: dict[Variable, Affine] = {}
    current = normalise_rows(rows)
    while current is not None:
        step = _solving_step(names, kept, current)
        if step is None:
            return kept, mapping, current
        new, current, kept = step
        mapping = {v: form.substitute(new) for v, form in mapping.items()} | new
        current = normalise_rows(substitute_all(current, new))
    return None


Rounded = Quotient | SymbolicQuotient
Step = tuple[dict[Variable, Affine], tuple[Row, ...], list[int]]


def _solving_step(names: Names, kept: list[int], rows: tuple[Row, ...]) -> Step | None:
    """One substitution, the rows it is to be made in, and the variables after it; None: done."""
    inner = partition(rows, kept)[1]
    for row in inner:
        if row.kind == "mod" and not is_opaque(row.form, kept):  # form == modulus * t
            t = names.fresh(_name(names, kept, row.form))
            return {}, _replaced(rows, row, Row("eq", row.form - Affine({t: row.modulus}))), [*kept, t]
    for form in _equations(inner):
        for v in kept:
            if abs(c := form.coefficient(v)) == 1 and v not in form.hidden():
                value = Affine({v: 1}) - form * c
                return {v: value}, rows, [w for w in kept if w != v]
    for row in () if linear(inner) else inner:
        tested = selected_in(row.form)  # for each of their values the row is tested, whatever is rounded in it
        for found in sorted(quotients_in(row.form), key=_size, reverse=True):
            if not found.atoms().intersection(kept) <= tested:
                t = names.fresh(_name(names, kept, found.form))
                digits = _digits(names, kept, row.form, found, t)
                if digits is not None:
                    mapping, definition, new = digits
                    rows = tuple(other for row in rows for other in _of_quotient(row, found, t))
                    return mapping, (*rows, *definition), [*(v for v in kept if v not in mapping), *new]
                return {found: Affine.variable(t)}, (*rows, *found.definition()), [*kept, t]
    # An equation that multiplies one of the indices by a symbol waits for the sum around it to bring in a unit pivot.
    equations = _linear(inner, kept)
    for row in equations:
        divided = _divided(row, kept)
        if divided is not None:
            return {}, _replaced(rows, row, *divided), kept
    return _smith_step(names, kept, rows, equations) if equations else None


def _size(found: Rounded) -> int:
    """The divisor of a quotient by a number; of digits those in the highest place are split off first."""
    return found.divisor if isinstance(found, Quotient) else 0


def _digits(
    names: Names, kept: Sequence[int], form: Affine, found: Rounded, t: int
) -> tuple[dict[Variable, Affine], tuple[Row, ...], list[int]] | None:
    """``p = M*t + j`` with ``0 <= j < M`` in place of ``t = floor(p/M)``.

    None where nothing solves for ``p``; and for a number ``M`` unless the form holds ``p`` twice and
    both digits are visible in it then: a ``floor(p/2)`` alone leaves the range ``2*t .. 2*t + 1`` of ``p``.
    """
    divisor = Affine.of(found.divisor)
    for v in kept:
        if abs(c := found.form.coefficient(v)) == 1 and v not in found.form.hidden() | divisor.atoms():
            j = names.fresh(names.names[v])
            rest = found.form - Affine({v: c})
            value = (times(divisor, Affine.variable(t)) + Affine.variable(j) - rest) * c
            mapping: dict[Variable, Affine] = {found: Affine.variable(t), v: value}
            if isinstance(found, SymbolicQuotient) or (
                _count(form, v) > 1 and t not in form.substitute(mapping).hidden()
            ):
                definition = (Row("ge", Affine.variable(j)), Row("ge", divisor - 1 - Affine.variable(j)))
                return mapping, definition, [t, j]
    return None


def _count(form: Affine, variable: int) -> int:
    """How many terms of a form hold a variable."""
    return sum(variable in (v.atoms() if isinstance(v, Compound) else (v,)) for v, _ in form.terms)


def _of_quotient(row: Row, found: Rounded, t: int) -> tuple[Row, ...]:
    """``p >= M*s`` as ``t >= s`` and ``p < M*s`` as ``t < s``, where ``t = floor(p/M)``.

    Other rows as they are, and beside a bound of ``p`` by a number the bound of ``t`` that follows.
    """
    divisor = Affine.of(found.divisor)
    for sign, shift in ((1, 0), (-1, 1)) if row.kind == "ge" else ():
        rest = row.form - sign * found.form + shift
        share = quotient_by(rest, divisor)
        if found.form.atoms().isdisjoint(rest.atoms()) and times(share, divisor) == rest:
            return (Row("ge", share + Affine({t: sign}) - shift),)
        if rest.is_constant and divisor.is_constant:
            last = divisor.constant - 1 if sign > 0 else -1
            return row, Row("ge", quotient_by(rest + last, divisor) + Affine({t: sign}))
    return (row,)


def _linear(rows: Sequence[Row], kept: Sequence[int]) -> list[Row]:
    """The equations that are linear in the variables, but for data that is selected by others than they solve for."""
    found: list[Row] = []
    unknowns: frozenset[Variable] = frozenset()
    selecting: frozenset[Variable] = frozenset()
    for row in rows:
        more = frozenset() if linear((row,)) else selected_in(row.form)
        own = frozenset(v for v in row.form.variables() if v in kept)
        is_linear = row.kind == "eq" and own and row.form.hidden().intersection(kept) <= more
        if is_linear and (unknowns | own).isdisjoint(selecting | more):
            found.append(row)
            unknowns, selecting = unknowns | own, selecting | more
    return found


def _equations(rows: Sequence[Row]) -> Iterable[Affine]:
    """The equations, and each inequality whose opposite stands beside it."""
    forms = {row.form for row in rows if row.kind == "ge"}
    for row in rows:
        if row.kind == "eq" or (row.kind == "ge" and -row.form in forms):
            yield row.form


def _replaced(rows: tuple[Row, ...], old: Row, *new: Row) -> tuple[Row, ...]:
    return tuple(r for row in rows for r in (new if row is old else (row,)))


def _name(names: Names, kept: Sequence[int], form: Affine) -> str:
    """A new variable is called like one that it helps to replace."""
    return next((names.names[v] for v in sorted(form.atoms()) if v in kept), "z")


def _divided(row: Row, kept: Sequence[int]) -> tuple[Row, Row] | None:
    """``g*a + rest == 0`` as ``rest mod g == 0`` and ``a + rest/g == 0``."""
    inner = {v: c for v, c in row.form.terms if v in kept}
    divisor = gcd(*inner.values())
    if divisor == 1:
        return None
    rest = row.form - Affine(inner)
    form = Affine({v: c // divisor for v, c in inner.items()}) + _exact(rest, divisor)
    return Row("mod", rest, divisor), Row("eq", form)


def _exact(form: Affine, divisor: int) -> Affine:
    """``form / divisor`` where that is an integer, as a floor without sign and constant inside."""
    if form.terms and form.terms[0][1] < 0:
        return -_exact(-form, divisor)
    return quotient(form + -form.constant % divisor, divisor)


def _smith_step(names: Names, kept: list[int], rows: tuple[Row, ...], equations: Sequence[Row]) -> Step:
    """All remaining equations at once: ``v = sum_r column_r (U_r b)/alpha_r + K z``."""
    unknowns = [v for v in kept if any(row.form.coefficient(v) for row in equations)]
    matrix = [[row.form.coefficient(v) for v in unknowns] for row in equations]
    right = [Affine({v: c for v, c in row.form.terms if v in unknowns}) - row.form for row in equations]
    solution = smith.solve(matrix, len(unknowns))

    def combine(row: Sequence[int]) -> Affine:
        return sum((c * b for c, b in zip(row, right, strict=True)), Affine())

    values = [Affine() for _ in unknowns]
    for row, factor, column in solution.particular:
        part = _exact(combine(row), factor)
        values = [value + c * part for value, c in zip(values, column, strict=True)]
    values, kernel = _near_zero(values, solution.kernel)
    new = [names.fresh(names.names[v]) for v, _ in zip(unknowns, kernel, strict=False)]
    for z, vector in zip(new, kernel, strict=True):
        values = [value + Affine({z: c}) for value, c in zip(values, vector, strict=True)]
    conditions = [Row("mod", combine(row), modulus) for row, modulus in solution.congruences]
    conditions += [Row("eq", combine(row)) for row in solution.equations]
    rest = tuple(row for row in rows if row not in equations) + tuple(conditions)
    others = [v for v in kept if v not in unknowns]
    return dict(zip(unknowns, values, strict=True)), rest, [*others, *new]


def _near_zero(values: Sequence[Affine], kernel: Sequence[Sequence[int]]) -> tuple[list[Affine], list[list[int]]]:
    """The same solutions, in variables that count up from about 0 where the parameters do.

    The multiples of each parameter are shortened by the kernel, a vector of which is turned where the variable would
    have to fall as the parameters grow: ``3*i + 2*k == p`` is ``i = p - 2*z``, ``k = 3*z - p``.
    """
    basis = [list(vector) for vector in kernel]
    held = sorted({v for value in values for v in value.variables()})
    columns = [shortened([value.coefficient(v) for value in values], basis) for v in held]
    constants = shortened([value.constant for value in values], basis)
    moved = [
        Affine({v: column[n] for v, column in zip(held, columns, strict=True)}, constant)
        for n, constant in enumerate(constants)
    ]
    growth = [sum(column[n] for column in columns) for n in range(len(values))]
    turned = [negated(n) if (dot(n, growth), dot(n, constants)) > (0, 0) else n for n in basis]
    return moved, turned


def residues(variables: frozenset[int], rows: tuple[Row, ...]) -> list[tuple[Row, ...]] | None:
    """The rows with one congruence per remainder in place of a row that allows some; None without such a row.

    An equation may take the variables from the loops, so that nothing has to be split. One with data is only tested.
    """
    solved = (row.form for row in rows if row.kind == "eq" and not is_opaque(row.form, variables))
    free = variables.difference(*(form.atoms() for form in solved))
    for row in rows:
        if row.kind == "ge" and not row.form.atoms().isdisjoint(free) and not is_opaque(row.form, variables):
            found = remainders("ge", row.form)
            if found is not None and len(found[2]) <= RESIDUES_LIMIT:
                form, modulus, values = found
                others = tuple(other for other in rows if other is not row)
                return [(*others, Row("mod", form - value, modulus)) for value in values]
    return None
