"""Integer solutions of the equations of a sum, which eliminate variables.

``A v + c == beta`` is solved as ``v = I beta + K z``, and the sum runs over ``z``. The conditions on ``beta`` under
which there is a solution become guards of the sum: one congruence per invariant factor greater than 1, which eq. (46)
of Urban & van der Smagt 2017 drops, one equation per row of the cokernel. Unit pivots are used first, since they keep
the ranges as the user wrote them; a row whose coefficients have a common divisor gives a congruence and is divided by
it; the Smith normal form solves the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import gcd
from typing import NamedTuple, Protocol

from . import smith
from .affine import Affine, Compound, Constraint, Quotient, Variable, quotient
from .indirect import depends_only_indirectly, variables_in_indirect_indices
from .lattice import dot, negated, shortened
from .products import SymbolicQuotient, quotient_by, quotients_in, times
from .rows import linear, normalise_rows, partition, remainders, substitute_all


class Solution(NamedTuple):
    """The integer solutions of equations: the variables that ``remain``, the ``values`` of the others in terms of
    these, and the remaining constraints ``rows``, see `solve_equations`.
    """

    remain: list[int]
    values: dict[Variable, Affine]
    rows: tuple[Constraint, ...]


class VariableNames(Protocol):
    """The interface that the solver needs of a graph: the names of variables, and new variables."""

    names: list[str]

    def fresh(self, name: str) -> int:
        """Return a new variable with this name."""


MAX_RESIDUES = 16
"""A condition on a remainder that allows at most this many values becomes one strided loop for each, without a test."""


def solve_equations(names: VariableNames, variables: Sequence[int], rows: Iterable[Constraint]) -> Solution | None:
    """Solve the equations and congruences in ``rows`` for ``variables`` over the integers. Return a `Solution` with the
    remaining variables, the values of the others, and the remaining constraints; None if there is no solution.

    ``names`` makes new variables for the free ones.

    The remaining variables are those to sum over, new ones among them. Of the constraints, only inequalities contain a
    remaining variable, while equations and congruences are guards.
    """
    remaining = list(variables)
    mapping: dict[Variable, Affine] = {}
    current = normalise_rows(rows)
    while current is not None:
        step = _solving_step(names, remaining, current)
        if step is None:
            return Solution(remaining, mapping, current)
        new, current, remaining = step
        mapping = {v: form.substitute(new) for v, form in mapping.items()} | new
        current = normalise_rows(substitute_all(current, new))
    return None


FloorQuotient = Quotient | SymbolicQuotient


class Step(NamedTuple):
    """One step in solving equations: the ``substitution`` to make in the constraints ``rows``, and the ``variables``
    that remain unknown after it.
    """

    substitution: dict[Variable, Affine]
    rows: tuple[Constraint, ...]
    variables: list[int]


def _solving_step(names: VariableNames, retained: list[int], rows: tuple[Constraint, ...]) -> Step | None:
    """Make one step in solving ``rows`` for the variables ``retained``: eliminate one equation, congruence or floor
    quotient. Return it as a `Step`, whose substitution the caller applies to its rows; None if nothing is left to
    solve.

    ``names`` makes new variables.

    The caller has to apply the substitution to the rows; the variables are the remaining ones, new ones included.
    """
    inner = partition(rows, retained)[1]
    for row in inner:
        if row.kind == "mod" and not depends_only_indirectly(row.form, retained):  # form == modulus * t
            t = names.fresh(_name_of_new_variable(names, retained, row.form))
            return Step(
                {}, _replace_row(rows, row, Constraint("eq", row.form - Affine({t: row.modulus}))), [*retained, t]
            )
    for form in _forms_equal_to_zero(inner):
        for v in retained:
            if abs(c := form.coefficient(v)) == 1 and v not in form.hidden():
                value = Affine({v: 1}) - form * c
                return Step({v: value}, rows, [w for w in retained if w != v])
    for row in () if linear(inner) else inner:
        tested = variables_in_indirect_indices(
            row.form
        )  # the row is tested for each of their values, so its floors may stay
        for floor in sorted(quotients_in(row.form), key=_digit_order, reverse=True):
            if not floor.atoms().intersection(retained) <= tested:
                t = names.fresh(_name_of_new_variable(names, retained, floor.form))
                digits = _split_into_digits(names, retained, row.form, floor, t)
                if digits is not None:
                    mapping, definition, new = digits
                    rows = tuple(other for row in rows for other in _in_terms_of_quotient(row, floor, t))
                    return Step(mapping, (*rows, *definition), [*(v for v in retained if v not in mapping), *new])
                return Step({floor: Affine.variable(t)}, (*rows, *floor.definition()), [*retained, t])
    # An equation that multiplies an index by a symbol stays until an enclosing sum contributes a unit pivot.
    equations = _linear_equations(inner, retained)
    for row in equations:
        divided = _divide_by_content(row, retained)
        if divided is not None:
            return Step({}, _replace_row(rows, row, *divided), retained)
    return _smith_step(names, retained, rows, equations) if equations else None


def _digit_order(floor: FloorQuotient) -> int:
    """Return a sort key of the quotient ``floor``: its divisor, or 0 if it is symbolic. The quotient with the largest
    divisor is replaced first.
    """
    return floor.divisor if isinstance(floor, Quotient) else 0


def _split_into_digits(
    names: VariableNames, retained: Sequence[int], form: Affine, floor: FloorQuotient, t: int
) -> tuple[dict[Variable, Affine], tuple[Constraint, ...], list[int]] | None:
    """Eliminate ``floor``, a quotient ``floor(p/M)`` in ``form``, by writing ``p`` as ``M*t + j`` with a new variable
    j, so that ``floor`` is ``t``. Return ``(substitution, constraints, [t, j])``; None if ``form`` does not become
    simpler.

    The substitution solves this equation for a variable in ``retained``. None if no variable can be solved for; and for
    a number ``M`` unless the form contains ``p`` twice and both digits are visible in it then: a single ``floor(p/2)``
    leaves the range ``2*t .. 2*t + 1`` of ``p``.
    """
    divisor = Affine.of(floor.divisor)
    for v in retained:
        if abs(c := floor.form.coefficient(v)) == 1 and v not in floor.form.hidden() | divisor.atoms():
            j = names.fresh(names.names[v])
            rest = floor.form - Affine({v: c})
            value = (times(divisor, Affine.variable(t)) + Affine.variable(j) - rest) * c
            mapping: dict[Variable, Affine] = {floor: Affine.variable(t), v: value}
            if isinstance(floor, SymbolicQuotient) or (
                _number_of_occurrences(form, v) > 1 and t not in form.substitute(mapping).hidden()
            ):
                definition = (Constraint("ge", Affine.variable(j)), Constraint("ge", divisor - 1 - Affine.variable(j)))
                return mapping, definition, [t, j]
    return None


def _number_of_occurrences(form: Affine, variable: int) -> int:
    """Return how many terms of a form contain a variable."""
    return sum(variable in (v.atoms() if isinstance(v, Compound) else (v,)) for v, _ in form.terms)


def _in_terms_of_quotient(row: Constraint, floor: FloorQuotient, t: int) -> tuple[Constraint, ...]:
    """Rewrite ``row``, a bound ``p >= M*s`` or ``p < M*s``, as a bound ``t >= s`` or ``t < s`` of the quotient
    ``t = floor(p/M)``, which is ``floor``. Return the new constraints; other rows are returned unchanged.

    A bound of ``p`` by a number is kept, followed by the bound of ``t`` that it implies.
    """
    divisor = Affine.of(floor.divisor)
    for sign, shift in ((1, 0), (-1, 1)) if row.kind == "ge" else ():
        rest = row.form - sign * floor.form + shift
        share = quotient_by(rest, divisor)
        if floor.form.atoms().isdisjoint(rest.atoms()) and times(share, divisor) == rest:
            return (Constraint("ge", share + Affine({t: sign}) - shift),)
        if rest.is_constant and divisor.is_constant:
            last = divisor.constant - 1 if sign > 0 else -1
            return row, Constraint("ge", quotient_by(rest + last, divisor) + Affine({t: sign}))
    return (row,)


def _linear_equations(rows: Sequence[Constraint], retained: Sequence[int]) -> list[Constraint]:
    """Return those equations in ``rows`` that can be solved for variables in ``retained`` together: each is linear in
    these variables, and no variable to be solved for occurs in the index of a tensor entry.
    """
    result: list[Constraint] = []
    unknowns: frozenset[Variable] = frozenset()
    selecting: frozenset[Variable] = frozenset()
    for row in rows:
        more = frozenset() if linear((row,)) else variables_in_indirect_indices(row.form)
        own = frozenset(v for v in row.form.variables() if v in retained)
        is_linear = row.kind == "eq" and own and row.form.hidden().intersection(retained) <= more
        if is_linear and (unknowns | own).isdisjoint(selecting | more):
            result.append(row)
            unknowns, selecting = unknowns | own, selecting | more
    return result


def _forms_equal_to_zero(rows: Sequence[Constraint]) -> Iterable[Affine]:
    """Yield the forms that ``rows`` force to be 0: by an equation, or by two inequalities ``form >= 0`` and ``-form >=
    0``.
    """
    forms = {row.form for row in rows if row.kind == "ge"}
    for row in rows:
        if row.kind == "eq" or (row.kind == "ge" and -row.form in forms):
            yield row.form


def _replace_row(rows: tuple[Constraint, ...], old: Constraint, *new: Constraint) -> tuple[Constraint, ...]:
    """Return ``rows`` with the row ``old`` replaced by the rows ``new``."""
    return tuple(r for row in rows for r in (new if row is old else (row,)))


def _name_of_new_variable(names: VariableNames, retained: Sequence[int], form: Affine) -> str:
    """Return a name for a new variable: the name of the first variable in ``form`` that is also in ``retained``, or "z"
    if there is none.
    """
    return next((names.names[v] for v in sorted(form.atoms()) if v in retained), "z")


def _divide_by_content(row: Constraint, retained: Sequence[int]) -> tuple[Constraint, Constraint] | None:
    """Split the equation ``row`` into a congruence and a smaller equation, if a number divides all coefficients of the
    unknowns ``retained``: ``2*a + rest == 0`` gives ``rest mod 2 == 0`` and ``a + rest/2 == 0``. None if no number
    does.
    """
    inner = {v: c for v, c in row.form.terms if v in retained}
    divisor = gcd(*inner.values())
    if divisor == 1:
        return None
    rest = row.form - Affine(inner)
    form = Affine({v: c // divisor for v, c in inner.items()}) + _exact_quotient(rest, divisor)
    return Constraint("mod", rest, divisor), Constraint("eq", form)


def _exact_quotient(form: Affine, divisor: int) -> Affine:
    """Return ``form/divisor``, which is known to be an integer, as a form: a floor where a coefficient is not
    divisible.
    """
    if form.terms and form.terms[0][1] < 0:
        return -_exact_quotient(-form, divisor)
    return quotient(form + -form.constant % divisor, divisor)


def _smith_step(
    names: VariableNames, retained: list[int], rows: tuple[Constraint, ...], equations: Sequence[Constraint]
) -> Step:
    """Solve ``equations`` for the variables ``retained``, all at once, by the Smith normal form of their matrix. Return
    a `Step`: its rows contain the conditions for a solution, its variables the new ones, made by ``names``, for the
    free choices.
    """
    unknowns = [v for v in retained if any(row.form.coefficient(v) for row in equations)]
    matrix = [[row.form.coefficient(v) for v in unknowns] for row in equations]
    right = [Affine({v: c for v, c in row.form.terms if v in unknowns}) - row.form for row in equations]
    solution = smith.solve(matrix, len(unknowns))

    def times_right_sides(row: Sequence[int]) -> Affine:
        """Return the sum of ``row[n]*right[n]`` over n, where ``right`` has the right sides of the equations to be
        solved.
        """
        return sum((c * b for c, b in zip(row, right, strict=True)), Affine())

    values = [Affine() for _ in unknowns]
    for row, factor, column in solution.particular:
        part = _exact_quotient(times_right_sides(row), factor)
        values = [value + c * part for value, c in zip(values, column, strict=True)]
    values, kernel = _near_zero(values, solution.kernel)
    new = [names.fresh(names.names[v]) for v, _ in zip(unknowns, kernel, strict=False)]
    for z, vector in zip(new, kernel, strict=True):
        values = [value + Affine({z: c}) for value, c in zip(values, vector, strict=True)]
    conditions = [Constraint("mod", times_right_sides(row), modulus) for row, modulus in solution.congruences]
    conditions += [Constraint("eq", times_right_sides(row)) for row in solution.equations]
    rest = tuple(row for row in rows if row not in equations) + tuple(conditions)
    others = [v for v in retained if v not in unknowns]
    return Step(dict(zip(unknowns, values, strict=True)), rest, [*others, *new])


def _near_zero(values: Sequence[Affine], kernel: Sequence[Sequence[int]]) -> tuple[list[Affine], list[list[int]]]:
    """Change the formula ``values + kernel*z`` of all integer solutions of equations so that loops over z begin near 0.
    Return the new ``(values, kernel)``, with short values and some kernel vectors negated.

    The multiples of each parameter are shortened by the kernel. A kernel vector is negated if its variable would have
    to decrease as the parameters grow: ``3*i + 2*k == p`` is ``i = p - 2*z``, ``k = 3*z - p``.
    """
    basis = [list(vector) for vector in kernel]
    parameters = sorted({v for value in values for v in value.variables()})
    columns = [shortened([value.coefficient(v) for value in values], basis) for v in parameters]
    constants = shortened([value.constant for value in values], basis)
    moved = [
        Affine({v: column[n] for v, column in zip(parameters, columns, strict=True)}, constant)
        for n, constant in enumerate(constants)
    ]
    growth = [sum(column[n] for column in columns) for n in range(len(values))]
    turned = [negated(n) if (dot(n, growth), dot(n, constants)) > (0, 0) else n for n in basis]
    return moved, turned


def split_by_residue(variables: frozenset[int], rows: tuple[Constraint, ...]) -> list[tuple[Constraint, ...]] | None:
    """Split ``rows`` into several systems by the first inequality on a remainder in them: ``i mod 4 >= 2`` becomes
    ``i mod 4 == 2`` in one and ``i mod 4 == 3`` in the other. None if there is no such inequality over ``variables``.

    Variables that equations will eliminate are left out, since their rows need no split, and rows about tensor entries
    are only tested.
    """
    solved = (row.form for row in rows if row.kind == "eq" and not depends_only_indirectly(row.form, variables))
    free = variables.difference(*(form.atoms() for form in solved))
    for row in rows:
        if (
            row.kind == "ge"
            and not row.form.atoms().isdisjoint(free)
            and not depends_only_indirectly(row.form, variables)
        ):
            condition = remainders("ge", row.form)
            if condition is not None and len(condition[2]) <= MAX_RESIDUES:
                form, modulus, values = condition
                others = tuple(other for other in rows if other is not row)
                return [(*others, Constraint("mod", form - value, modulus)) for value in values]
    return None
