"""Maxima and minima in conditions: cases that do not overlap where a sum has to be solved for what they hide.

In a case the maximum is the form that it is there, in the summand too: under a sum over ``i`` the
equation ``p == Min(i, 11)`` becomes ``p == i`` with ``i <= 11``, and ``p == 11`` with ``i >= 12``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sympy_tensordiff.errors import UnsupportedError

from .affine import Affine, Quotient, Row, Variable
from .data import compounds_in, is_opaque
from .extrema import PositivePart, parts_in, pieces, split_clamps
from .implication import implied, is_empty, maximum, minimum
from .products import SymbolicQuotient, quotients_in
from .rows import Rows, atoms_in

HIDING_LIMIT = 6
"""Each maximum or minimum that hides an index doubles the cases; more of them in one system are refused."""


def hides(rows: Sequence[Row], variables: frozenset[int]) -> bool:
    """Whether a maximum or minimum in ``rows`` holds one of the variables."""
    return bool(_hiding(rows, variables))


def _hiding(rows: Sequence[Row], variables: frozenset[int]) -> list[PositivePart]:
    """The clamps that contain one of the variables outside of indices of data, which are not solved for."""
    parts = parts_in(row.form for row in rows)
    held = (part for part in parts if not part.atoms().isdisjoint(variables))
    return [part for part in held if not is_opaque(Affine({part: 1}), variables)]


def cases_of_clamps(
    names: Sequence[str], variables: frozenset[int], rows: Rows
) -> list[tuple[Rows, dict[Variable, Affine]]] | None:
    """The rows without the first maximum or minimum that hides one of the variables, as cases; None without one.

    Returns
    -------
    list of (rows, mapping) or None
        The mapping tells what the maximum is in the case. Cases without a point are left out.
    """
    if not hides(rows, variables):
        return None
    rows = tuple(part for row in rows for part in split_clamps(row, variables))
    kept = [row for row in rows if not (row.form.compounds() and implied(row, ()))]
    hiding = _hiding(kept, variables)
    if not hiding:
        return [(tuple(kept), {})]
    if len(hiding) > HIDING_LIMIT:
        names = ", ".join(sorted({names[v] for part in hiding for v in part.atoms() & variables}))
        raise UnsupportedError(
            f"an index equation hides {names} in {len(hiding)} maxima and minima; at most {HIDING_LIMIT} are solved "
            "for: split the sum or the tensor, so that each part has fewer of them"
        )
    part = hiding[0]
    found = []
    for condition, value in pieces(part, tie_is_zero=_more_is_known(part, kept, variables)):
        mapping: dict[Variable, Affine] = {part: value}
        case = (*(row.substitute(mapping) for row in kept), condition)
        if not is_empty(case):
            found.append((case, mapping))
    return found


def systems_without_clamps(names: Sequence[str], variables: frozenset[int], rows: Rows) -> Iterator[Rows]:
    """Systems with the points of ``rows``, each of them once, in which no maximum or minimum hides a variable."""
    waiting = [rows]
    while waiting:
        system = waiting.pop()
        cases = cases_of_clamps(names, variables, system)
        if cases is None:
            yield system
        else:
            waiting += [case for case, _ in reversed(cases)]


def _more_is_known(part: PositivePart, rows: Sequence[Row], variables: frozenset[int]) -> bool:
    """Whether the rows say more of the variables where the part is 0: that case is to hold the tie.

    So that a clamped index has its tie where it is not clamped, and the pieces at the ends are as small as possible.
    """

    def known(value: Affine) -> int:
        forms = (row.form.substitute({part: value}) for row in rows if row.kind != "ge")
        return sum(len(form.atoms() & variables) for form in forms)

    return known(Affine()) > known(part.form)


def decide_clamps(form: Affine, facts: Rows) -> Affine:
    """The form with those maxima and minima decided that ``facts`` decide.

    >>> from .extrema import least
    >>> i, n = Affine.variable("i"), Affine.variable("n")
    >>> decide_clamps(least([i, n - 1]), (Row("ge", n - i - 1),))
    i
    """
    for part in parts_in((form,)):
        for sign, value in ((1, part.form), (-1, Affine())):
            if implied(Row("ge", sign * part.form), facts):
                return decide_clamps(form.substitute({part: value}), facts)
    return form


def decide_clamps_of_rows(rows: Rows, facts: Rows) -> Rows:
    """Rows with those maxima and minima decided that ``facts`` and the other rows decide."""
    result = list(rows)
    for n, row in enumerate(rows):
        if parts_in((row.form,)):
            others = (*facts, *result[:n], *result[n + 1 :])
            result[n] = _decided_bound(row._replace(form=decide_clamps(row.form, others)), others)
    variables = atoms_in(result)
    return tuple(part for row in result for part in split_clamps(row, variables))


def _decided_bound(row: Row, facts: Rows) -> Row:
    """``k <= max(f, g)`` as ``k <= g`` where ``k >= f + 1`` is known: a greater one is needed to be a bound at all.

    A row that adds a maximum, and holds it nowhere else, follows from the one with any of its forms in place of it, so
    it may decide itself.
    """
    for part, c in row.form.terms if row.kind == "ge" else ():
        if isinstance(part, PositivePart) and c > 0 and part not in compounds_in([row.form - Affine({part: c})]):
            for sign, value in ((1, part.form), (-1, Affine())):
                if implied(Row("ge", sign * part.form), (*facts, row)):
                    return _decided_bound(row.substitute({part: value}), facts)
    return row


def gist(form: Affine, facts: Rows) -> Affine:
    """The form without the quotients, maxima and minima whose value the ``facts`` tell.

    >>> r, M = Affine.variable("r"), Affine.variable("M")
    >>> from sympy_tensordiff.integer.products import quotient_by, times
    >>> digit = (Row("ge", r), Row("ge", M - 1 - r))
    >>> gist(r - times(M, quotient_by(r, M)), digit)
    r
    """
    if not form.compounds():
        return form
    form = decide_clamps(form, facts)
    known: dict[Variable, Affine] = {}
    for found in quotients_in(form):
        value = _value(found, facts)
        if value is not None:
            known[found] = Affine.of(value)
    return gist(form.substitute(known), facts) if known else form


def _value(found: Quotient | SymbolicQuotient, facts: Rows) -> int | None:
    if isinstance(found, SymbolicQuotient):
        for value in (0, -1):
            rest = found.form - value * found.divisor
            if all(implied(row, facts) for row in (Row("ge", rest), Row("ge", found.divisor - 1 - rest))):
                return value
        return None
    low, high = minimum(found.form, facts), maximum(found.form, facts)
    if low is None or high is None or low // found.divisor != high // found.divisor:
        return None
    return int(low // found.divisor)
