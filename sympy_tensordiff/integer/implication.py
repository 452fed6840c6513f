"""Consequences of constraints over the integers: emptiness, implication, redundancy, ranges of forms.

All answers are sound over the integers: "empty" and "implied" are proofs. They are exact for the
rational points that are left after the equations are solved over the integers and every
inequality is tightened; where only deeper integer reasoning would decide, the answer is "no".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import TypeAlias

from .affine import Affine, Compound, Constraint, Variable
from .extrema import cases, positive_parts_in
from .indirect import partition_data
from .rows import linear, normalise
from .simplex import Dictionary
from .system import Direction, System, definitions, system

FALSE = Constraint("ge", Affine(None, -1))
"""The constraint that never holds."""

_Terms: TypeAlias = tuple[tuple[Variable, int], ...]
_KIND_RANK = {"eq": 0, "mod": 1, "ge": 2}


def is_empty(rows: Sequence[Constraint], facts: Sequence[Constraint] = ()) -> bool:
    """Return whether ``rows`` and ``facts`` provably have no common integer point.

    Law: True is always right; False says that a rational point is left after tightening. It is
    the contradiction that the paper looks for in eq. (34), found by the simplex method. The
    definitions of quotients are known and need not be among the rows.

    Examples
    --------
    >>> i, p = Affine.variable("i"), Affine.variable("p")
    >>> is_empty([Constraint("ge", i), Constraint("ge", p - i), Constraint("ge", -p - 1)])
    True
    >>> is_empty([Constraint("eq", 2 * i - p)], [Constraint("mod", p + 1, 2)])
    True
    """
    return _is_empty_by_cases((*rows, *facts))


def is_implied(row: Constraint, rows: Sequence[Constraint]) -> bool:
    """Return whether ``row`` provably holds at all integer points of ``rows`` (an empty system implies all).

    Examples
    --------
    >>> i, p = Affine.variable("i"), Affine.variable("p")
    >>> is_implied(Constraint("ge", p), [Constraint("ge", i), Constraint("ge", p - 2 * i)])
    True
    >>> is_implied(Constraint("mod", p, 4), [Constraint("eq", p - 2 * i), Constraint("mod", i, 2)])
    True
    >>> is_implied(Constraint("ge", p - 1), [Constraint("ge", p), Constraint("mod", p + 1, 2)])
    True
    """
    reduced = normalise(row)
    if reduced is True:
        return True
    if reduced is False:
        return _is_empty_by_cases(tuple(rows))
    if _is_implied_by_definitions(reduced, rows):
        return True
    if linear((reduced, *rows)) or not positive_parts_in(r.form for r in (reduced, *rows)):
        return False
    if reduced.kind == "eq":
        return all(is_implied(Constraint("ge", form), rows) for form in (reduced.form, -reduced.form))
    # The row comes first, so that its own positive parts are split if there are too many for all.
    return _is_empty_by_cases((reduced.negation(), *rows))


def without_implied(rows: Iterable[Constraint], known: Sequence[Constraint]) -> list[Constraint]:
    """Return ``rows`` without the constraints that the constraints ``known`` provably imply. The other constraints in
    ``rows`` are not used for this.
    """
    return [row for row in rows if not is_implied(row, known)]


def _is_empty_by_cases(rows: tuple[Constraint, ...]) -> bool:
    """Return whether ``rows`` provably have no integer point. If that cannot be proved directly, each maximum and
    minimum in them is split into its two cases.
    """
    if system(rows).is_empty:
        return True
    if linear(rows) or not positive_parts_in(row.form for row in rows):
        return False
    return all(system(case).is_empty for case in cases(rows))


def _is_implied_by_definitions(reduced: Constraint, rows: Sequence[Constraint]) -> bool:
    """Return whether ``rows`` imply the constraint ``reduced`` (in lowest terms), given the definitions of maxima,
    floors and other nonlinear terms, but without splitting maxima into cases.
    """
    if _is_stated_or_weaker(reduced, rows):
        return True
    known = _system_with(reduced.form, rows)
    if known.is_empty:
        return True
    if reduced.kind == "ge":
        return known.implies_nonnegative(reduced.form)
    if reduced.kind == "mod":
        return known.implies_congruence(reduced.form, reduced.modulus)
    return known.implies_nonnegative(reduced.form) and known.implies_nonnegative(-reduced.form)


def _is_stated_or_weaker(row: Constraint, rows: Sequence[Constraint]) -> bool:
    """Return whether ``row`` is one of ``rows``, or follows from one with a smaller constant: ``i >= 0`` from ``i >=
    2``.
    """
    kind, (terms, constant), _ = row
    if kind != "ge":
        return row in rows
    return any(other.form.terms == terms and other.form.constant <= constant and other.kind != "mod" for other in rows)


def minimum(form: Affine, rows: Sequence[Constraint]) -> Fraction | None:
    """Return the least value of ``form`` over the rational points of ``rows``, after tightening these for integers.
    None if it is unbounded or there is no point.

    Law: no integer point of ``rows`` has a smaller value.

    Examples
    --------
    >>> i = Affine.variable("i")
    >>> box = [Constraint("ge", 2 * i - 1), Constraint("ge", 6 - i)]
    >>> minimum(3 * i, box), maximum(3 * i, box), maximum(i, box[:1])
    (Fraction(3, 1), Fraction(18, 1), None)
    """
    known = _system_with(form, rows)
    return None if known.is_empty else known.minimum(form)


def maximum(form: Affine, rows: Sequence[Constraint]) -> Fraction | None:
    """Return the greatest value of ``form``: ``-minimum(-form, rows)``; None if unbounded or provably empty."""
    value = minimum(-form, rows)
    return None if value is None else -value


def remove_redundant(rows: Sequence[Constraint], facts: Sequence[Constraint] = ()) -> tuple[Constraint, ...]:
    """Return the constraints that ``facts`` and the other rows do not imply, in lowest terms and in order.

    Law: under ``facts`` the result has exactly the integer points of ``rows``, and no row of it is
    `is_implied` by ``facts`` and the rest of it. If there are several such results, the simple rows stay:
    those with more variables, then larger coefficients, then later in order are tried first. If rows
    and facts provably contradict each other, the result is ``(FALSE,)``.

    Examples
    --------
    >>> i, p = Affine.variable("i"), Affine.variable("p")
    >>> remove_redundant([Constraint("ge", i + p), Constraint("ge", i), Constraint("ge", p + 2),
    ...                   Constraint("ge", 4 - i)], [Constraint("ge", p)])
    (i >= 0, -i + 4 >= 0)
    >>> remove_redundant([Constraint("ge", i - p), Constraint("ge", p - i), Constraint("ge", i - 2),
    ...                   Constraint("ge", 1 - p)])
    (-1 >= 0,)
    >>> remove_redundant([Constraint("ge", 17 - p), Constraint("mod", p, 2)])
    (-p + 16 >= 0, (p) mod 2 == 0)
    """
    merged = _tightened(merge_parallel(rows), facts)
    if not merged:
        return () if merged is not None else (FALSE,)
    whole = system((*merged, *facts))
    extrema = not linear(merged) and bool(positive_parts_in(row.form for row in merged))
    if whole.is_empty or (extrema and _is_empty_by_cases((*merged, *facts))):
        return (FALSE,)
    remaining = dict.fromkeys(merged)
    # Inequalities derived from a row would remain in the dictionary when the row is dropped.
    pruning = None if whole.has_implicit_equality or whole.has_derived or extrema else _RedundancyElimination(whole)
    for row in sorted(reversed(merged), key=complexity, reverse=True):
        if pruning is not None and row.kind == "ge":
            redundant = pruning.drop_if_redundant(row.form)
        else:
            redundant = is_implied(row, (*facts, *(other for other in remaining if other is not row)))
        if redundant:
            del remaining[row]
    return tuple(remaining)


def without_redundant(rows: Sequence[Constraint], facts: Sequence[Constraint] = ()) -> tuple[Constraint, ...]:
    """Return ``rows`` without those that ``facts`` and the other rows imply. Rows that contain entries of integer
    arrays, as ``idx[i] >= 2``, are not used to leave out rows without such entries.

    >>> from .indirect import IndirectIndex
    >>> i, entry = Affine.variable("i"), Affine.variable(IndirectIndex("idx", (Affine.variable("i") - 3,)))
    >>> rows = [Constraint("ge", i - 3), Constraint("ge", i - 3 - entry), Constraint("ge", entry)]
    >>> remove_redundant(rows), without_redundant(rows)
    ((i - idx[i - 3] - 3 >= 0, idx[i - 3] >= 0), (i - 3 >= 0, i - idx[i - 3] - 3 >= 0, idx[i - 3] >= 0))
    """
    plain, data = (rows, ()) if linear(rows) else partition_data(rows)
    irredundant = remove_redundant(plain, facts)
    return irredundant + remove_redundant(data, (*facts, *irredundant)) if data else irredundant


def merge_parallel(rows: Iterable[Constraint]) -> tuple[Constraint, ...] | None:
    """Return the rows in lowest terms; of those that differ in the constant only, the strongest. None if two contradict
    each other.

    Opposite inequalities that meet become an equation, and an equation replaces the inequalities along it.

    Examples
    --------
    >>> i = Affine.variable("i")
    >>> merge_parallel([Constraint("ge", 2 * i - 3), Constraint("ge", i), Constraint("ge", 9 - i),
    ...                 Constraint("ge", 2 - i)])
    (i - 2 == 0,)
    """
    strongest: dict[_Terms, Affine] = {}
    congruences: dict[Constraint, None] = {}
    for row in rows:
        reduced = normalise(row)
        if reduced is False:
            return None
        if reduced is True:
            continue
        if reduced.kind == "mod":
            congruences[reduced] = None
            continue
        # An equation is two opposite inequalities here.
        for form in (reduced.form,) if reduced.kind == "ge" else (reduced.form, -reduced.form):
            known = strongest.get(form.terms)
            if known is None or form.constant < known.constant:
                strongest[form.terms] = form
    result: list[Constraint] = []
    for terms, form in strongest.items():
        opposite = strongest.get(tuple([(v, -c) for v, c in terms]))
        width = 1 if opposite is None else form.constant + opposite.constant
        if width < 0:
            return None
        if width > 0:
            result.append(Constraint("ge", form))
        elif terms[0][1] > 0:
            result.append(Constraint("eq", form))
    return (*result, *congruences)


def _tightened(rows: tuple[Constraint, ...] | None, facts: Sequence[Constraint]) -> tuple[Constraint, ...] | None:
    """Return ``rows`` with the constants of inequalities rounded to the next value that the equations and congruences
    in ``rows`` and ``facts`` allow: ``i >= 4`` for ``i >= 3`` and even i. None if these have no solution.
    """
    equations = tuple(row for row in (*(rows or ()), *facts) if row.kind != "ge")
    if not rows or not equations:
        return rows
    known = system(equations)
    if known.is_empty:
        return None
    tightened = tuple(Constraint("ge", row.form - known.excess(row.form)) if row.kind == "ge" else row for row in rows)
    return rows if tightened == rows else merge_parallel(tightened)


def _system_with(form: Affine, rows: Sequence[Constraint]) -> System:
    """Return the `System` of the constraints ``rows``. If ``form`` contains floors or other nonlinear terms that
    ``rows`` do not contain, the constraints that define these terms are added.
    """
    known = system(tuple(rows))
    if known.is_empty:
        return known
    compounds = [v for v, _ in form.terms if isinstance(v, Compound)]
    # A product that only derived rows contain has a column, but none of its own rows.
    stated = {v for row in rows for v, _ in row.form.terms} if compounds else ()
    missing = [v for v in compounds if v not in stated]
    if not missing:
        return known
    return system(tuple(rows), tuple(definitions(missing)))


def complexity(row: Constraint) -> tuple[int, int, int]:
    """Return a sort key that puts simpler constraints first: equations before congruences before inequalities, and
    short ones first among those of one kind.

    Redundant rows are removed from the end of this order, so that the simpler ones stay.
    """
    return (_KIND_RANK[row.kind], *_notation_size(row.form))


def _notation_size(form: Affine) -> tuple[int, int]:
    """Return the number of terms of a form, and the sum of the absolute values of their coefficients. Both include the
    terms inside of floors and other compounds.
    """
    count, total = 0, 0
    for v, c in form.terms:
        count += 1
        total += abs(c)
        for form in v.forms() if isinstance(v, Compound) else ():
            inner_count, inner_total = _notation_size(form)
            count += inner_count
            total += inner_total
    return count, total


class _RedundancyElimination:
    """Removes redundant inequalities from a system, one after the other. It keeps the simplex tableau of the remaining
    ones, so that each test starts from the last.
    """

    def __init__(self, whole: System) -> None:
        self.whole = whole
        self.multiplicity = whole.multiplicity.copy()
        self.places: dict[Direction, int] = {terms: r for r, terms in enumerate(whole.inequalities)}
        self.dictionary: Dictionary | None = None

    def drop_if_redundant(self, form: Affine) -> bool:
        """Drop the inequality ``form >= 0`` if the other ones imply it, and return whether it was dropped."""
        inequality = self.whole.tightened(form)
        assert inequality is not None
        terms, constant = inequality
        if self.whole.inequalities.get(terms) != constant:
            return True  # a constant, or weaker than a parallel row
        if self.multiplicity[terms] > 1:
            self.multiplicity[terms] -= 1
            return True
        if all(self.whole.only_in_box[i] for i, c in enumerate(terms) if c):
            return False
        dictionary = self.dictionary or self.whole.dictionary()
        value, rest = dictionary.without(self.places[terms], -1)
        if value is None or value <= -1:
            return False
        self.dictionary = rest
        return True
