"""Fourier-Motzkin elimination (Urban and van der Smagt, section 4.2, eqs. (27) to (34)).

Exact over the rationals. Over the integers a projection holds every point that has a pre-image,
and perhaps some that have none (the paper calls the result tight; it is so only where one of each
pair of coefficients is a unit).

`common_rows` tells what holds of all points of several projections.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import product

from .affine import Affine, Row, Variable
from .extrema import greatest
from .implication import FALSE, complexity, merge_parallel, without_redundant


def eliminate(rows: Iterable[Row], variable: Variable) -> tuple[Row, ...] | None:
    """The rows on the other variables that follow from ``rows``; None where they contradict.

    Law: a point fulfils the result if and only if a rational value of ``variable`` completes it to
    a point of ``rows`` (eqs. (30), (31)), up to the integer tightening of each row. An equation
    with a unit coefficient is substituted, another one scaled; else each lower bound meets each
    upper bound. Rows without the variable pass, congruences among them too.

    Raises
    ------
    ValueError
        If a congruence, a quotient or a product holds the variable.

    Examples
    --------
    >>> from sympy_tensordiff.integer.affine import Affine
    >>> j, k, p = (Affine.variable(v) for v in "jkp")
    >>> eliminate([Row("ge", k), Row("ge", 4 - k), Row("ge", p - k), Row("ge", 2 - p + k)], "k")
    (p >= 0, -p + 6 >= 0)
    >>> eliminate([Row("eq", k - 2 * j), Row("ge", k - 3)], "k")
    (j - 2 >= 0,)
    >>> eliminate([Row("ge", k - 1), Row("ge", -k)], "k") is None
    True
    """
    merged = merge_parallel(rows)
    if merged is None:
        return None
    passed: list[Row] = []
    held: list[tuple[int, Row]] = []
    for row in merged:
        coefficient = row.form.coefficient(variable)
        _refuse_hidden(row, variable, coefficient)
        if coefficient:
            held.append((coefficient, row))
        else:
            passed.append(row)
    equations = [(abs(c), position) for position, (c, row) in enumerate(held) if row.kind == "eq"]
    if equations:
        passed += _with_equation(held, min(equations)[1])
    else:
        lows = [(c, row.form) for c, row in held if c > 0]
        highs = [(-c, row.form) for c, row in held if c < 0]
        passed += (Row("ge", b * low + a * high) for (a, low), (b, high) in product(lows, highs))
    return merge_parallel(passed)


def project(
    rows: Iterable[Row], drop: Iterable[Variable], facts: Sequence[Row] = (), most: int | None = None
) -> tuple[Row, ...] | None:
    """All variables of ``drop`` eliminated, the cheapest first; None where the rows contradict.

    Law: as `eliminate`, for all variables together. Before the rows grow, and where they have grown, those implied
    by the others and ``facts`` (which must not hold the variables) are removed, so that the number of rows stays
    near the number of faces. Where they have grown to more than ``most``, only the simplest stay: all points fulfil
    the result, but it may hold others. So it is where a congruence, a quotient or a product holds one of the
    variables, at first or after others have gone: such rows are left out.

    Examples
    --------
    >>> from sympy_tensordiff.integer.affine import Affine
    >>> i, k, n = (Affine.variable(v) for v in "ikn")
    >>> project([Row("ge", i), Row("ge", k - i), Row("ge", n - k - 1)], ["i", "k"])
    (n - 1 >= 0,)
    """
    current: tuple[Row, ...] | None = merge_parallel(rows)
    remaining = list(dict.fromkeys(drop))
    irredundant = False
    while current is not None and remaining:
        system = current = _affine_in(current, remaining)
        variable = min(remaining, key=lambda v: _cost(system, v))
        if not irredundant and grows(system, variable):
            current = without_redundant(system, facts)
            irredundant = True
            continue
        remaining.remove(variable)
        current = eliminate(system, variable)
        irredundant = irredundant or (current is not None and len(current) > len(system))
        if current is not None and irredundant:
            current = simplest(current, facts, most)
    return None if current is not None and FALSE in current else current


def project_exactly(rows: Iterable[Row], drop: Iterable[Variable]) -> tuple[Row, ...] | None:
    """The rows without ``drop`` that hold just where integers complete them; None where elimination may lose some.

    Law: a point of integers fulfils the result if and only if integer values of ``drop`` complete it to a point of
    ``rows``.

    Examples
    --------
    >>> from sympy_tensordiff.integer.affine import Affine
    >>> k, p, q = (Affine.variable(v) for v in "kpq")
    >>> project_exactly([Row("ge", k - p), Row("ge", q - 2 * k)], ["k"])
    (-2*p + q >= 0,)
    >>> project_exactly([Row("ge", 3 * k - p), Row("ge", q - 2 * k)], ["k"]) is None
    True
    """
    current = merge_parallel(rows)
    remaining = set(drop)
    while current is not None and remaining:
        system = current
        affine = [v for v in sorted(remaining) if len(_affine_in(system, [v])) == len(system)]
        variable = next((v for v in affine if not _cost(system, v)[0]), None)
        if variable is None:
            return None
        remaining.remove(variable)
        current = eliminate(system, variable)
    return (FALSE,) if current is None else current


def grows(rows: Collection[Row], variable: Variable) -> bool:
    """Whether the elimination of a variable may leave more rows than there are."""
    return _cost(rows, variable)[1] > 0


def simplest(rows: Sequence[Row], facts: Sequence[Row], most: int | None) -> tuple[Row, ...]:
    """The rows without redundant ones, and without the hardest to read where there are more than ``most``."""
    kept = without_redundant(rows, facts)
    if most is None or len(kept) <= most:
        return kept
    simple = set(sorted(kept, key=complexity)[:most])
    return tuple(row for row in kept if row in simple)


def _affine_in(rows: Iterable[Row], variables: Collection[Variable]) -> tuple[Row, ...]:
    """The rows, in lowest terms, that show what they say of the variables by coefficients alone."""
    return tuple(r for r in rows if (r.form.atoms() if r.kind == "mod" else r.form.hidden()).isdisjoint(variables))


def _cost(rows: Collection[Row], variable: Variable) -> tuple[int, int]:
    """What the elimination of a variable costs: pairs that are inexact over the integers, rows gained."""
    lows: list[int] = []
    highs: list[int] = []
    equations: list[int] = []
    for row in rows:
        coefficient = row.form.coefficient(variable)
        if coefficient and row.kind == "eq":
            equations.append(abs(coefficient))
        elif coefficient > 0:
            lows.append(coefficient)
        elif coefficient < 0:
            highs.append(-coefficient)
    if equations:
        return (int(min(equations) > 1), -1)
    inexact = sum(a > 1 for a in lows) * sum(b > 1 for b in highs)
    return (inexact, len(lows) * len(highs) - len(lows) - len(highs))


def _with_equation(held: Sequence[tuple[int, Row]], chosen: int) -> Iterable[Row]:
    """The rows that hold a variable, with it eliminated by one equation among them."""
    pivot, equation = held[chosen]
    size, sign = abs(pivot), 1 if pivot > 0 else -1
    for position, (coefficient, row) in enumerate(held):
        if position != chosen:
            yield Row(row.kind, size * row.form - (sign * coefficient) * equation.form)


def _refuse_hidden(row: Row, variable: Variable, coefficient: int) -> None:
    """Raise where a row depends on the variable in a way that elimination cannot see."""
    if coefficient and row.kind == "mod":
        raise ValueError(f"cannot eliminate {variable!r} from the congruence {row!r}")
    if variable in row.form.hidden():
        raise ValueError(f"cannot eliminate {variable!r} from a quotient or a product in {row!r}")


def common_rows(systems: Sequence[Sequence[Row]], variables: Iterable[Variable]) -> tuple[Row, ...]:
    """Rows that hold wherever those of one of the systems do: common rows, and bounds that each system has of its own.

    A variable that all systems bound is bounded, by the greatest or least of these bounds.

    Examples
    --------
    >>> i, k, n = (Affine.variable(v) for v in "ikn")
    >>> common_rows([[Row("ge", k), Row("ge", i - k)], [Row("ge", k), Row("ge", n - k)]], ["k"])
    (k >= 0, -k + n + max(0, i - n) >= 0)
    """
    first, *others = systems
    found = [row for row in first if all(row in other for other in others)]
    for v in variables:
        for sign in (1, -1):
            if not any(_bounding(row, v, sign) for row in found):
                bounds = [_simplest_bounds(system, v, sign) for system in systems]
                slopes = set(bounds[0]).intersection(*bounds[1:])
                if slopes:
                    slope = min(slopes, key=abs)
                    found.append(Row("ge", Affine({v: slope}) + greatest(own[slope] for own in bounds)))
    return tuple(found)


def _bounding(row: Row, variable: Variable, sign: int) -> Affine | None:
    """The form of an inequality that bounds the variable from below (1) or above (-1); None where the row has none."""
    if row.kind == "mod" or variable in row.form.hidden():
        return None
    form = -row.form if row.kind == "eq" and row.form.coefficient(variable) * sign < 0 else row.form
    return form if form.coefficient(variable) * sign > 0 else None


def _simplest_bounds(rows: Iterable[Row], variable: Variable, sign: int) -> dict[int, Affine]:
    """Of each slope of the variable the simplest bound, without the variable."""
    forms = [form for row in rows if (form := _bounding(row, variable, sign)) is not None]
    forms.sort(key=lambda form: complexity(Row("ge", form)), reverse=True)
    return {c: form - Affine({variable: c}) for form in forms if (c := form.coefficient(variable))}
