"""The integer set library decides what the algebra of index systems answers: `Question`, `verdict`.

A system of constraints becomes a set of isl, whose dimensions are its variables. Floors, congruences, maxima and minima
are written in isl's own notation. Products of variables and entries of tensors have none: a question with one of
them is not judged.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import islpy as isl

from sympy_tensordiff.integer.affine import Affine, Constraint, Quotient, Variable
from sympy_tensordiff.integer.extrema import PositivePart
from sympy_tensordiff.integer.nests import Bounds
from sympy_tensordiff.integer.rows import atoms_in

from .report import WrongAnswerError

MAX_OPERATIONS = 2_000_000
"""isl gives up a question after so many of its steps: a second or two."""

CONTEXT = isl.Context()
CONTEXT.set_max_operations(MAX_OPERATIONS)

Rows = Sequence[Constraint]


class UnjudgedError(Exception):
    """A question that cannot be written for isl, or that isl gives up."""


class Question(NamedTuple):
    """A call of a function of `sympy_tensordiff.integer`, and its result.

    Attributes
    ----------
    function : str
        The name of the function, a key of `VERDICTS`.
    arguments : tuple
    keywords : dict
    answer : object
    """

    function: str
    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any]
    answer: Any


def verdict(question: Question) -> str:
    """Return the verdict on an answer, such as "is_empty: both prove it" or "project: isl knows more".

    Raises
    ------
    WrongAnswerError
        The answer contradicts isl.
    """
    judge = VERDICTS[question.function]
    try:
        return f"{question.function}: {judge(question.answer, *question.arguments, **question.keywords)}"
    except UnjudgedError as error:
        return f"{question.function}: not judged, {error}"
    except isl.Error as error:
        if "operations" not in str(error) and "quota" not in str(error):
            raise
        return f"{question.function}: not judged, isl gives up"


class Space:
    """The variables of a question, as the dimensions of a set of isl."""

    def __init__(self, parts: Iterable[Affine | Constraint], more: Iterable[Variable] = ()) -> None:
        variables = sorted({*atoms_in(parts), *more}, key=lambda v: (str(type(v)), v))
        self.names = {v: f"v{number}" for number, v in enumerate(variables)}
        CONTEXT.reset_operations()

    def form(self, form: Affine) -> str:
        """Return a form in isl's notation."""
        terms = [f"{c}*{self._variable(v)}" for v, c in form.terms]
        return " + ".join([*terms, str(form.constant)])

    def _variable(self, v: Variable) -> str:
        if isinstance(v, Quotient):
            return f"floor(({self.form(v.form)})/{v.divisor})"
        if isinstance(v, PositivePart):
            return f"max(0, {self.form(v.form)})"
        if v not in self.names:
            raise UnjudgedError(f"it has a {type(v).__name__}")
        return self.names[v]

    def row(self, row: Constraint) -> str:
        """Return a constraint in isl's notation."""
        text = self.form(row.form)
        return {"ge": f"{text} >= 0", "eq": f"{text} = 0", "mod": f"({text}) mod {row.modulus} = 0"}[row.kind]

    def set(self, rows: Rows) -> isl.Set:
        """Return the integer points of ``rows``."""
        return self._read(map(self.row, rows), ", ".join(self.names.values()))

    def _read(self, conditions: Iterable[str], names: str) -> isl.Set:
        found = _read(names, "0 = 0")
        for condition in conditions:
            found = found.intersect(_read(names, condition))
        return found

    def range_of(self, form: Affine, rows: Rows) -> tuple[Any, Any]:
        """Return the least and the greatest value of ``form``; None where it is unbounded."""
        names = ", ".join(["f", *self.names.values()])
        values = self._read([*map(self.row, rows), f"f = {self.form(form)}"], names)
        least, most = values.dim_min_val(0), values.dim_max_val(0)
        return tuple(int(str(v)) if v.is_int() else None for v in (least, most))

    def without(self, points: isl.Set, variables: Iterable[Variable]) -> isl.Set:
        """Return the projection of ``points`` along ``variables``, which stay as dimensions without a constraint."""
        names = list(self.names)
        for v in variables:
            points = points.eliminate(isl.dim_type.set, names.index(v), 1)
        return points


@functools.lru_cache(256)
def _read(names: str, condition: str) -> isl.Set:
    """Return the set of a condition: the questions about a system have it several times, and isl reads slowly."""
    return isl.Set.read_from_str(CONTEXT, f"{{ [{names}] : {condition} }}")


def expect(holds: bool, message: str, *details: object) -> None:
    """Raise `WrongAnswerError` where a law does not hold."""
    if not holds:
        raise WrongAnswerError(f"{message}: " + "; ".join(map(str, details)))


def _proof(ours: bool, theirs: bool, *details: object) -> str:
    """Return who proves a statement that isl decides."""
    expect(theirs or not ours, "isl disproves what is proved here", *details)
    return "both prove it" if ours else "only isl proves it" if theirs else "neither proves it"


def _is_empty(answer: bool, rows: Rows, facts: Rows = ()) -> str:
    space = Space([*rows, *facts])
    return _proof(answer, space.set([*rows, *facts]).is_empty(), rows, facts)


def _is_implied(answer: bool, row: Constraint, rows: Rows) -> str:
    space = Space([row, *rows])
    return _proof(answer, space.set(rows).is_subset(space.set([row])), row, rows)


def _minimum(answer: Fraction | None, form: Affine, rows: Rows) -> str:
    space = Space([form, *rows])
    if space.set(rows).is_empty():
        return "no point"
    least, _ = space.range_of(form, rows)
    expect(answer is None or (least is not None and answer <= least), "a smaller value", form, rows, answer, least)
    return "both know it" if answer == least else "isl knows more"


def _maximum(answer: Fraction | None, form: Affine, rows: Rows) -> str:
    return _minimum(None if answer is None else -answer, -form, rows)


def _project(
    answer: tuple[Constraint, ...] | None,
    rows: Rows,
    drop: Iterable[Variable],
    facts: Rows = (),
    max_rows: int | None = None,
) -> str:
    space = Space([*rows, *facts, *(answer or ())], drop := list(drop))
    known = space.set(facts)
    exact = space.without(space.set(rows), drop).intersect(known)
    if answer is None:
        expect(exact.is_empty(), "a projection is not empty", rows, drop, facts)
        return "both know it"
    expect(not atoms_in(answer) & set(drop), "a dropped variable is left", rows, drop, answer)
    expect(exact.is_subset(space.set(answer)), "a projection loses points", rows, drop, facts, answer)
    return "both know it" if space.set(answer).intersect(known).is_subset(exact) else "isl knows more"


def _project_exactly(answer: tuple[Constraint, ...] | None, rows: Rows, drop: Iterable[Variable]) -> str:
    if answer is None:
        return "no answer"
    space = Space([*rows, *answer], drop := list(drop))
    exact = space.without(space.set(rows), drop)
    expect(exact.is_equal(space.set(answer)), "an exact projection differs", rows, drop, answer)
    return "equal"


def _remove_redundant(answer: tuple[Constraint, ...], rows: Rows, facts: Rows = ()) -> str:
    space = Space([*rows, *facts])
    known, points = space.set(facts), space.set([*rows, *facts])
    expect(space.set(answer).intersect(known).is_equal(points), "the points of irredundant rows", rows, facts, answer)
    for number, row in enumerate(answer):
        others = space.set([*answer[:number], *answer[number + 1 :], *facts])
        if others.is_subset(space.set([row])) and not points.is_empty():
            return "isl removes more"
    return "equal"


def _constraints_on_union(
    answer: tuple[Constraint, ...], systems: Sequence[Rows], variables: Iterable[Variable]
) -> str:
    space = Space([row for rows in (*systems, answer) for row in rows])
    bound = space.set(answer)
    for rows in systems:
        expect(space.set(rows).is_subset(bound), "constraints on a union do not hold in it", systems, answer)
    return "implied"


def _count_points(answer: int, rows: Rows, variables: Sequence[Variable]) -> str:
    space = Space(rows, variables)
    count = int(str(space.set(rows).count_val()))
    expect(answer == count, "the number of points", rows, answer, count)
    return "equal"


def _bounds(
    answer: tuple[Sequence[Bounds], Rows],
    rows: Rows,
    variables: Sequence[Variable],
    facts: Rows = (),
    multiples: bool = False,
) -> str:
    nest, guards = answer
    outside = [row for row in facts if row.form.atoms().isdisjoint(variables)]
    space = Space([*rows, *facts, *guards], variables)
    loops = space.set([*guards, *outside, *bound_rows(nest)])
    points = space.set([*rows, *outside])
    expect(loops.is_equal(points), "the points of a nest", rows, variables, facts, answer)
    return "equal"


def bound_rows(nest: Sequence[Bounds]) -> list[Constraint]:
    """Return the inequalities that say that each loop variable is between its bounds."""
    rows = []
    for variable, lows, highs in nest:
        v = Affine.variable(variable)
        rows += [Constraint("ge", divisor * v - form) for form, divisor in lows]
        rows += [Constraint("ge", form - divisor * v) for form, divisor in highs]
    return rows


Solution = tuple[Sequence[int], Mapping[Variable, Affine], Rows]


def _solve_equations(
    answer: Solution | None, _names: object, variables: Sequence[int], rows: Iterable[Constraint]
) -> str:
    rows = tuple(rows)
    if answer is None:
        expect(Space(rows).set(rows).is_empty(), "equations have a solution", rows)
        return "both know it"
    remaining, mapping, solved = answer
    forms = [form for v, form in mapping.items() if v in variables]
    space = Space([*rows, *solved, *forms], [*variables, *remaining])
    new = [v for v in space.names if v not in variables and v in remaining]
    equations = [Constraint("eq", Affine({v: 1}) - form) for v, form in mapping.items() if v in variables]
    both = space.set([*solved, *equations])
    there = space.without(both, new)
    expect(there.is_equal(space.set(rows)), "the solutions of equations", rows, answer)
    # Each solution once: equal values of all other variables belong to equal values of the new ones.
    place = {v: number for number, v in enumerate(space.names)}
    retained = [v for v in space.names if v not in new]
    pairs = isl.Map.from_domain_and_range(both, both)
    for v in retained:
        pairs = pairs.equate(isl.dim_type.in_, place[v], isl.dim_type.out, place[v])
    same = pairs
    for v in new:
        same = same.equate(isl.dim_type.in_, place[v], isl.dim_type.out, place[v])
    expect(pairs.is_subset(same), "a solution occurs twice", rows, answer)
    return "equal"


VERDICTS = {
    "is_empty": _is_empty,
    "is_implied": _is_implied,
    "minimum": _minimum,
    "maximum": _maximum,
    "project": _project,
    "project_exactly": _project_exactly,
    "remove_redundant": _remove_redundant,
    "constraints_on_union": _constraints_on_union,
    "count_points": _count_points,
    "bounds": _bounds,
    "solve_equations": _solve_equations,
}
