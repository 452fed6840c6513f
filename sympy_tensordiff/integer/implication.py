"""What rows imply over the integers: emptiness, implied rows, redundancy, ranges of forms.

All answers are sound over the integers: "empty" and "implied" are proofs. They are exact for the
rational points that are left after the equations are solved over the integers and every
inequality is tightened; where only deeper integer reasoning would tell, the answer is "no".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import TypeAlias

from .affine import Affine, Compound, Row, Variable
from .data import partition_data
from .extrema import cases, parts_in
from .rows import linear, normalise
from .simplex import Dictionary
from .system import Direction, System, definitions, system

FALSE = Row("ge", Affine(None, -1))
"""The row that never holds."""

_Terms: TypeAlias = tuple[tuple[Variable, int], ...]
_KIND_RANK = {"eq": 0, "mod": 1, "ge": 2}


def is_empty(rows: Sequence[Row], facts: Sequence[Row] = ()) -> bool:
    """Whether no integer point fulfils ``rows`` and ``facts``, provably.

    Law: True is always right; False says that a rational point is left after tightening. It is
    the contradiction that the paper looks for in eq. (34), found by the simplex method. The
    definitions of quotients are known and need not be among the rows.

    Examples
    --------
    >>> i, p = Affine.variable("i"), Affine.variable("p")
    >>> is_empty([Row("ge", i), Row("ge", p - i), Row("ge", -p - 1)])
    True
    >>> is_empty([Row("eq", 2 * i - p)], [Row("mod", p + 1, 2)])
    True
    """
    return _is_empty((*rows, *facts))


def implied(row: Row, rows: Sequence[Row]) -> bool:
    """Whether ``row`` provably holds at all integer points of ``rows`` (an empty system implies all).

    Examples
    --------
    >>> i, p = Affine.variable("i"), Affine.variable("p")
    >>> implied(Row("ge", p), [Row("ge", i), Row("ge", p - 2 * i)])
    True
    >>> implied(Row("mod", p, 4), [Row("eq", p - 2 * i), Row("mod", i, 2)])
    True
    >>> implied(Row("ge", p - 1), [Row("ge", p), Row("mod", p + 1, 2)])
    True
    """
    reduced = normalise(row)
    if reduced is True:
        return True
    if reduced is False:
        return _is_empty(tuple(rows))
    if _follows(reduced, rows):
        return True
    if linear((reduced, *rows)) or not parts_in(r.form for r in (reduced, *rows)):
        return False
    if reduced.kind == "eq":
        return all(implied(Row("ge", form), rows) for form in (reduced.form, -reduced.form))
    # The row comes first, so that its own positive parts are decided where some have to be left.
    return _is_empty((reduced.negation(), *rows))


def unimplied(rows: Iterable[Row], known: Sequence[Row]) -> list[Row]:
    """The rows that do not provably follow from those that are known, each by itself."""
    return [row for row in rows if not implied(row, known)]


def _is_empty(rows: tuple[Row, ...]) -> bool:
    """As `is_empty`: by cases of the maxima and minima, where their definitions alone do not tell."""
    if system(rows).is_empty:
        return True
    if linear(rows) or not parts_in(row.form for row in rows):
        return False
    return all(system(case).is_empty for case in cases(rows))


def _follows(reduced: Row, rows: Sequence[Row]) -> bool:
    """As `implied`, for a row in lowest terms, where of maxima and minima the definitions alone are known."""
    if _is_stated(reduced, rows):
        return True
    known = _system_with(reduced.form, rows)
    if known.is_empty:
        return True
    if reduced.kind == "ge":
        return known.implies_nonnegative(reduced.form)
    if reduced.kind == "mod":
        return known.implies_congruence(reduced.form, reduced.modulus)
    return known.implies_nonnegative(reduced.form) and known.implies_nonnegative(-reduced.form)


def _is_stated(row: Row, rows: Sequence[Row]) -> bool:
    """Whether a row is one of the rows, or weaker than one along it: most are, and no system has to be made."""
    kind, (terms, constant), _ = row
    if kind != "ge":
        return row in rows
    return any(other.form.terms == terms and other.form.constant <= constant and other.kind != "mod" for other in rows)


def minimum(form: Affine, rows: Sequence[Row]) -> Fraction | None:
    """The least value of ``form`` over the rational points of the tightened system.

    Law: no integer point of ``rows`` has a smaller value. None where the form is unbounded below,
    and where the system is provably empty.

    Examples
    --------
    >>> i = Affine.variable("i")
    >>> box = [Row("ge", 2 * i - 1), Row("ge", 6 - i)]
    >>> minimum(3 * i, box), maximum(3 * i, box), maximum(i, box[:1])
    (Fraction(3, 1), Fraction(18, 1), None)
    """
    known = _system_with(form, rows)
    return None if known.is_empty else known.minimum(form)


def maximum(form: Affine, rows: Sequence[Row]) -> Fraction | None:
    """The greatest value of ``form``: ``-minimum(-form, rows)``, None as there."""
    value = minimum(-form, rows)
    return None if value is None else -value


def remove_redundant(rows: Sequence[Row], facts: Sequence[Row] = ()) -> tuple[Row, ...]:
    """The rows that ``facts`` and the other rows do not imply, in lowest terms and in order.

    Law: under ``facts`` the result has exactly the integer points of ``rows``, and no row of it is
    `implied` by ``facts`` and the rest of it. Of several choices the simple rows stay: those with
    more variables, then larger coefficients, then later in order are tried first. Where rows and
    facts are provably empty the result is ``(FALSE,)``.

    Examples
    --------
    >>> i, p = Affine.variable("i"), Affine.variable("p")
    >>> remove_redundant([Row("ge", i + p), Row("ge", i), Row("ge", p + 2), Row("ge", 4 - i)], [Row("ge", p)])
    (i >= 0, -i + 4 >= 0)
    >>> remove_redundant([Row("ge", i - p), Row("ge", p - i), Row("ge", i - 2), Row("ge", 1 - p)])
    (-1 >= 0,)
    >>> remove_redundant([Row("ge", 17 - p), Row("mod", p, 2)])
    (-p + 16 >= 0, (p) mod 2 == 0)
    """
    merged = _tightened(merge_parallel(rows), facts)
    if not merged:
        return () if merged is not None else (FALSE,)
    whole = system((*merged, *facts))
    extrema = not linear(merged) and bool(parts_in(row.form for row in merged))
    if whole.is_empty or (extrema and _is_empty((*merged, *facts))):
        return (FALSE,)
    kept = dict.fromkeys(merged)
    # What follows from a row would stay behind when the row is dropped.
    pruning = None if whole.has_met or whole.has_derived or extrema else _Pruning(whole)
    for row in sorted(reversed(merged), key=complexity, reverse=True):
        if pruning is not None and row.kind == "ge":
            redundant = pruning.drops(row.form)
        else:
            redundant = implied(row, (*facts, *(other for other in kept if other is not row)))
        if redundant:
            del kept[row]
    return tuple(kept)


def without_redundant(rows: Sequence[Row], facts: Sequence[Row] = ()) -> tuple[Row, ...]:
    """As `remove_redundant`, but no row with data makes one without data redundant: that may be the bound of a loop.

    >>> from .data import DataEntry
    >>> i, entry = Affine.variable("i"), Affine.variable(DataEntry("idx", (Affine.variable("i") - 3,)))
    >>> rows = [Row("ge", i - 3), Row("ge", i - 3 - entry), Row("ge", entry)]
    >>> remove_redundant(rows), without_redundant(rows)
    ((i - idx[i - 3] - 3 >= 0, idx[i - 3] >= 0), (i - 3 >= 0, i - idx[i - 3] - 3 >= 0, idx[i - 3] >= 0))
    """
    plain, data = (rows, ()) if linear(rows) else partition_data(rows)
    kept = remove_redundant(plain, facts)
    return kept + remove_redundant(data, (*facts, *kept)) if data else kept


def merge_parallel(rows: Iterable[Row]) -> tuple[Row, ...] | None:
    """The rows in lowest terms, one for each direction; None where two of them contradict.

    Of parallel inequalities the strongest stays, opposite ones that meet become an equation, and
    an equation replaces the inequalities along it.

    Examples
    --------
    >>> i = Affine.variable("i")
    >>> merge_parallel([Row("ge", 2 * i - 3), Row("ge", i), Row("ge", 9 - i), Row("ge", 2 - i)])
    (i - 2 == 0,)
    """
    strongest: dict[_Terms, Affine] = {}
    congruences: dict[Row, None] = {}
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
    result: list[Row] = []
    for terms, form in strongest.items():
        opposite = strongest.get(tuple([(v, -c) for v, c in terms]))
        room = 1 if opposite is None else form.constant + opposite.constant
        if room < 0:
            return None
        if room > 0:
            result.append(Row("ge", form))
        elif terms[0][1] > 0:
            result.append(Row("eq", form))
    return (*result, *congruences)


def _tightened(rows: tuple[Row, ...] | None, facts: Sequence[Row]) -> tuple[Row, ...] | None:
    """Inequalities moved to the nearest value that the equations and congruences allow; None as `merge_parallel`."""
    ties = tuple(row for row in (*(rows or ()), *facts) if row.kind != "ge")
    if not rows or not ties:
        return rows
    known = system(ties)
    if known.is_empty:
        return None
    tightened = tuple(Row("ge", row.form - known.excess(row.form)) if row.kind == "ge" else row for row in rows)
    return rows if tightened == rows else merge_parallel(tightened)


def _system_with(form: Affine, rows: Sequence[Row]) -> System:
    """The system of ``rows``, with the definitions of compounds that only ``form`` holds."""
    known = system(tuple(rows))
    if known.is_empty:
        return known
    compounds = [v for v, _ in form.terms if isinstance(v, Compound)]
    # A product that only follows from others has a column, and nothing that is known of it.
    stated = {v for row in rows for v, _ in row.form.terms} if compounds else ()
    missing = [v for v in compounds if v not in stated]
    if not missing:
        return known
    return system(tuple(rows), tuple(definitions(missing)))


def complexity(row: Row) -> tuple[int, int, int]:
    """How hard a row is to read; equations are the last to go."""
    return (_KIND_RANK[row.kind], *_weight(row.form))


def _weight(form: Affine) -> tuple[int, int]:
    """Number of variables and sum of the coefficients, those inside compounds included."""
    count, total = 0, 0
    for v, c in form.terms:
        count += 1
        total += abs(c)
        for form in v.forms() if isinstance(v, Compound) else ():
            inner_count, inner_total = _weight(form)
            count += inner_count
            total += inner_total
    return count, total


class _Pruning:
    """Inequalities of one system dropped one by one, in one simplex dictionary that loses their rows."""

    def __init__(self, whole: System) -> None:
        self.whole = whole
        self.shares = whole.shares.copy()
        self.places: dict[Direction, int] = {terms: r for r, terms in enumerate(whole.inequalities)}
        self.dictionary: Dictionary | None = None

    def drops(self, form: Affine) -> bool:
        """Whether the rows that are left imply ``form >= 0``, one of them; then it is dropped."""
        inequality = self.whole.tightened(form)
        assert inequality is not None
        terms, constant = inequality
        if self.whole.inequalities.get(terms) != constant:
            return True  # a constant, or weaker than a parallel row
        if self.shares[terms] > 1:
            self.shares[terms] -= 1
            return True
        if all(self.whole.loose[i] for i, c in enumerate(terms) if c):
            return False
        dictionary = self.dictionary or self.whole.dictionary()
        value, rest = dictionary.without(self.places[terms], -1)
        if value is None or value <= -1:
            return False
        self.dictionary = rest
        return True
