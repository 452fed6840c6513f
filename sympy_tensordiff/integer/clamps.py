"""Maxima and minima (clamps) in constraints: split into disjoint cases where an index inside has to be solved for.

In each case the maximum is replaced by its value there, in the summand too: under a sum over ``i`` the
equation ``p == Min(i, 11)`` becomes ``p == i`` with ``i <= 11``, and ``p == 11`` with ``i >= 12``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sympy_tensordiff.errors import UnsupportedError

from .affine import Affine, Constraint, Quotient, Variable
from .extrema import PositivePart, cases_of_positive_part, positive_parts_in, split_clamps
from .implication import is_empty, is_implied, maximum, minimum
from .indirect import compounds_in, depends_only_indirectly
from .products import SymbolicQuotient, quotients_in
from .rows import Rows, atoms_in

MAX_SOLVED_CLAMPS = 6
"""The most maxima and minima over solved variables in one system, each of which doubles the cases; more are refused."""


def has_clamps_over(rows: Sequence[Constraint], variables: frozenset[int]) -> bool:
    """Return whether a maximum or minimum in ``rows`` depends on one of ``variables``, such as ``max(0, i - 1)`` on i.
    Indices of tensor entries do not count.
    """
    return bool(_clamps_over(rows, variables))


def _clamps_over(rows: Sequence[Constraint], variables: frozenset[int]) -> list[PositivePart]:
    """Return the terms ``max(0, form)`` in ``rows`` in which one of ``variables`` occurs, and not only in the index of
    an integer-tensor entry such as ``p[i]``.
    """
    parts = positive_parts_in(row.form for row in rows)
    found = (part for part in parts if not part.atoms().isdisjoint(variables))
    return [part for part in found if not depends_only_indirectly(Affine({part: 1}), variables)]


def split_first_clamp(
    names: Sequence[str], variables: frozenset[int], rows: Rows
) -> list[tuple[Rows, dict[Variable, Affine]]] | None:
    """Split the constraints ``rows`` into disjoint cases by the first maximum or minimum that contains one of
    ``variables``: ``max(0, i)`` gives the cases ``i >= 0`` and ``i < 0``. Return a list of pairs ``(constraints,
    {maximum: value})``; None if there is no maximum.

    ``names`` are used in error messages.

    An error is raised if there are too many maxima.

    The substitution maps the maximum to its value in that case. Cases without a point are left out.
    """
    if not has_clamps_over(rows, variables):
        return None
    rows = tuple(part for row in rows for part in split_clamps(row, variables))
    simplified = [row for row in rows if not (row.form.compounds() and is_implied(row, ()))]
    clamps = _clamps_over(simplified, variables)
    if not clamps:
        return [(tuple(simplified), {})]
    if len(clamps) > MAX_SOLVED_CLAMPS:
        names = ", ".join(sorted({names[v] for part in clamps for v in part.atoms() & variables}))
        raise UnsupportedError(
            f"an index equation hides {names} in {len(clamps)} maxima and minima; at most {MAX_SOLVED_CLAMPS} are "
            "solved for: split the sum or the tensor, so that each part has fewer of them"
        )
    part = clamps[0]
    found = []
    for condition, value in cases_of_positive_part(
        part, tie_is_zero=_is_zero_more_determined(part, simplified, variables)
    ):
        mapping: dict[Variable, Affine] = {part: value}
        case = (*(row.substitute(mapping) for row in simplified), condition)
        if not is_empty(case):
            found.append((case, mapping))
    return found


def split_all_clamps(names: Sequence[str], variables: frozenset[int], rows: Rows) -> Iterator[Rows]:
    """Split the constraints ``rows`` into cases without maxima and minima over ``variables``, and yield the constraints
    of each case. The cases are disjoint and have the integer points of ``rows``. ``names`` are names of variables for
    error messages.
    """
    waiting = [rows]
    while waiting:
        system = waiting.pop()
        cases = split_first_clamp(names, variables, system)
        if cases is None:
            yield system
        else:
            waiting += [case for case, _ in reversed(cases)]


def _is_zero_more_determined(part: PositivePart, rows: Sequence[Constraint], variables: frozenset[int]) -> bool:
    """Compare the cases ``max(0, form) = 0`` and ``max(0, form) = form`` of ``part``. Return whether the equations and
    congruences in ``rows`` contain more of ``variables`` in the first case, and so determine more of them.

    They then determine more variables, and `split_first_clamp` puts the tie ``form == 0`` into the case of 0: a clamped
    index has its tie where it is not clamped, and the cases at the ends are as small as possible.
    """

    def count_in_equations(value: Affine) -> int:
        """Return how often ``variables`` occur in the equations and congruences of ``rows`` if the maximum ``part`` has
        the value ``value``. A variable counts once for each row that contains it.
        """
        forms = (row.form.substitute({part: value}) for row in rows if row.kind != "ge")
        return sum(len(form.atoms() & variables) for form in forms)

    return count_in_equations(Affine()) > count_in_equations(part.form)


def decide_clamps(form: Affine, facts: Rows) -> Affine:
    """Return ``form`` with each maximum or minimum replaced by one of its operands, if ``facts`` imply that it is equal
    to this operand; others are unchanged.

    >>> from .extrema import minimum_of
    >>> i, n = Affine.variable("i"), Affine.variable("n")
    >>> decide_clamps(minimum_of([i, n - 1]), (Constraint("ge", n - i - 1),))
    i
    """
    for part in positive_parts_in((form,)):
        for sign, value in ((1, part.form), (-1, Affine())):
            if is_implied(Constraint("ge", sign * part.form), facts):
                return decide_clamps(form.substitute({part: value}), facts)
    return form


def decide_clamps_of_rows(rows: Rows, facts: Rows) -> Rows:
    """Return ``rows`` with maxima and minima replaced by one of their operands, where ``facts`` and the other rows
    decide which one it is. A row ``g >= max(0, f)`` becomes the rows ``g >= 0`` and ``g >= f``.
    """
    result = list(rows)
    for n, row in enumerate(rows):
        if positive_parts_in((row.form,)):
            others = (*facts, *result[:n], *result[n + 1 :])
            result[n] = _with_decided_bound(row._replace(form=decide_clamps(row.form, others)), others)
    variables = atoms_in(result)
    return tuple(part for row in result for part in split_clamps(row, variables))


def _with_decided_bound(row: Constraint, facts: Rows) -> Constraint:
    """Return the inequality ``row`` with each maximum replaced by its greater operand, if ``facts`` and the row itself
    imply which that is: ``k <= g`` for ``k <= max(f, g)`` if ``k > f`` is known.

    The row follows from the one with either operand in place of the maximum, so the row may be used to decide itself.
    The maximum must not occur in it elsewhere.
    """
    for part, c in row.form.terms if row.kind == "ge" else ():
        if isinstance(part, PositivePart) and c > 0 and part not in compounds_in([row.form - Affine({part: c})]):
            for sign, value in ((1, part.form), (-1, Affine())):
                if is_implied(Constraint("ge", sign * part.form), (*facts, row)):
                    return _with_decided_bound(row.substitute({part: value}), facts)
    return row


def gist(form: Affine, facts: Rows) -> Affine:
    """Return ``form`` simplified under ``facts``: each quotient, maximum and minimum whose value the facts determine is
    replaced by this value.

    >>> r, M = Affine.variable("r"), Affine.variable("M")
    >>> from sympy_tensordiff.integer.products import quotient_by, times
    >>> digit = (Constraint("ge", r), Constraint("ge", M - 1 - r))
    >>> gist(r - times(M, quotient_by(r, M)), digit)
    r
    """
    if not form.compounds():
        return form
    form = decide_clamps(form, facts)
    values: dict[Variable, Affine] = {}
    for found in quotients_in(form):
        value = _proven_value(found, facts)
        if value is not None:
            values[found] = Affine.of(value)
    return gist(form.substitute(values), facts) if values else form


def _proven_value(quotient: Quotient | SymbolicQuotient, facts: Rows) -> int | None:
    """Return the integer to which a quotient is proved to be equal by ``facts``, such as 0 for ``floor(i/n)`` and ``0
    <= i < n``; None if there is none.
    """
    if isinstance(quotient, SymbolicQuotient):
        for value in (0, -1):
            rest = quotient.form - value * quotient.divisor
            if all(
                is_implied(row, facts)
                for row in (Constraint("ge", rest), Constraint("ge", quotient.divisor - 1 - rest))
            ):
                return value
        return None
    low, high = minimum(quotient.form, facts), maximum(quotient.form, facts)
    if low is None or high is None or low // quotient.divisor != high // quotient.divisor:
        return None
    return int(low // quotient.divisor)
