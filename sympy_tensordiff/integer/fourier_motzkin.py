"""Fourier-Motzkin elimination (Urban and van der Smagt, section 4.2, eqs. (27) to (34)).

Exact over the rationals. Over the integers a projection contains every point that has a pre-image,
and perhaps some that have none (the paper calls the result tight; it is so only where one of each
pair of coefficients is a unit). `constraints_on_union` bounds the union of several systems.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import product

from .affine import Affine, Constraint, Variable
from .extrema import maximum_of
from .implication import FALSE, complexity, merge_parallel, without_redundant


def eliminate(rows: Iterable[Constraint], variable: Variable) -> tuple[Constraint, ...] | None:
    """Return the constraints on the other variables that ``rows`` imply, without ``variable`` (Fourier-Motzkin); None
    if ``rows`` contradict each other.

    Law: a point satisfies the result if and only if a rational value of ``variable`` completes it to a point of
    ``rows`` (eqs. (30), (31)), up to the integer tightening of each row. An equation with a unit coefficient is
    substituted, another one scaled; else each lower bound is combined with each upper bound. Rows without the variable
    stay, congruences among them too.

    Raise `ValueError` if a congruence, a quotient or a product contains the variable.

    Examples
    --------
    >>> from sympy_tensordiff.integer.affine import Affine
    >>> j, k, p = (Affine.variable(v) for v in "jkp")
    >>> eliminate([Constraint("ge", k), Constraint("ge", 4 - k), Constraint("ge", p - k),
    ...            Constraint("ge", 2 - p + k)], "k")
    (p >= 0, -p + 6 >= 0)
    >>> eliminate([Constraint("eq", k - 2 * j), Constraint("ge", k - 3)], "k")
    (j - 2 >= 0,)
    >>> eliminate([Constraint("ge", k - 1), Constraint("ge", -k)], "k") is None
    True
    """
    merged = merge_parallel(rows)
    if merged is None:
        return None
    others: list[Constraint] = []
    involved: list[tuple[int, Constraint]] = []
    for row in merged:
        coefficient = row.form.coefficient(variable)
        _check_is_affine(row, variable, coefficient)
        if coefficient:
            involved.append((coefficient, row))
        else:
            others.append(row)
    equations = [(abs(c), position) for position, (c, row) in enumerate(involved) if row.kind == "eq"]
    if equations:
        others += _substitute_equation(involved, min(equations)[1])
    else:
        lows = [(c, row.form) for c, row in involved if c > 0]
        highs = [(-c, row.form) for c, row in involved if c < 0]
        others += (Constraint("ge", b * low + a * high) for (a, low), (b, high) in product(lows, highs))
    return merge_parallel(others)


def project(
    rows: Iterable[Constraint], drop: Iterable[Variable], facts: Sequence[Constraint] = (), max_rows: int | None = None
) -> tuple[Constraint, ...] | None:
    """Return constraints without the variables in ``drop`` that the constraints ``rows`` imply: their projection on the
    other variables. None if ``rows`` contradict each other.

    Constraints that ``facts`` and the others imply may be left out.

    Law: as `eliminate`, for all variables together. Before the number of rows grows, and after it has grown, rows
    implied by the others and by ``facts`` (which must not contain the variables) are removed, so that it stays near
    the number of faces. If more than ``max_rows`` remain, only the simplest stay; rows with one of the variables in a
    congruence, a quotient or a product are left out. In both cases the result contains the projection.

    Examples
    --------
    >>> from sympy_tensordiff.integer.affine import Affine
    >>> i, k, n = (Affine.variable(v) for v in "ikn")
    >>> project([Constraint("ge", i), Constraint("ge", k - i), Constraint("ge", n - k - 1)], ["i", "k"])
    (n - 1 >= 0,)
    """
    current: tuple[Constraint, ...] | None = merge_parallel(rows)
    remaining = list(dict.fromkeys(drop))
    irredundant = False
    while current is not None and remaining:
        system = current = _with_affine_occurrences(current, remaining)
        variable = min(remaining, key=lambda v: _elimination_cost(system, v))
        if not irredundant and grows(system, variable):
            current = without_redundant(system, facts)
            irredundant = True
            continue
        remaining.remove(variable)
        current = eliminate(system, variable)
        irredundant = irredundant or (current is not None and len(current) > len(system))
        if current is not None and irredundant:
            current = simplest(current, facts, max_rows)
    return None if current is not None and FALSE in current else current


def project_exactly(rows: Iterable[Constraint], drop: Iterable[Variable]) -> tuple[Constraint, ...] | None:
    """Eliminate the variables ``drop`` from ``rows`` exactly: return the constraints on the other variables that hold
    just where some integers for ``drop`` satisfy all ``rows``. None if elimination may not be exact.

    Examples
    --------
    >>> from sympy_tensordiff.integer.affine import Affine
    >>> k, p, q = (Affine.variable(v) for v in "kpq")
    >>> project_exactly([Constraint("ge", k - p), Constraint("ge", q - 2 * k)], ["k"])
    (-2*p + q >= 0,)
    >>> project_exactly([Constraint("ge", 3 * k - p), Constraint("ge", q - 2 * k)], ["k"]) is None
    True
    """
    current = merge_parallel(rows)
    remaining = set(drop)
    while current is not None and remaining:
        system = current
        affine = [v for v in sorted(remaining) if len(_with_affine_occurrences(system, [v])) == len(system)]
        variable = next((v for v in affine if not _elimination_cost(system, v)[0]), None)
        if variable is None:
            return None
        remaining.remove(variable)
        current = eliminate(system, variable)
    return (FALSE,) if current is None else current


def grows(rows: Collection[Constraint], variable: Variable) -> bool:
    """Return whether eliminating ``variable`` from ``rows`` may give a system of more constraints than ``rows``."""
    return _elimination_cost(rows, variable)[1] > 0


def simplest(rows: Sequence[Constraint], facts: Sequence[Constraint], max_rows: int | None) -> tuple[Constraint, ...]:
    """Return ``rows`` without those that ``facts`` and the other rows imply. If ``max_rows`` is a number, return at
    most that many of them, the simplest.
    """
    irredundant = without_redundant(rows, facts)
    if max_rows is None:
        return irredundant
    simple = set(sorted(irredundant, key=complexity)[:max_rows])
    return tuple(row for row in irredundant if row in simple)


def _with_affine_occurrences(rows: Iterable[Constraint], variables: Collection[Variable]) -> tuple[Constraint, ...]:
    """Return the constraints of ``rows`` that contain ``variables`` only linearly, not in congruences or inside of
    floors and other nonlinear terms.
    """
    return tuple(r for r in rows if (r.form.atoms() if r.kind == "mod" else r.form.hidden()).isdisjoint(variables))


def _elimination_cost(rows: Collection[Constraint], variable: Variable) -> tuple[int, int]:
    """Return a sort key that is least for the variable to eliminate first: the number of pairs of its bounds whose
    combination is not exact over the integers, then the number of constraints that its elimination adds.
    """
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


def _substitute_equation(involved: Sequence[tuple[int, Constraint]], position: int) -> Iterable[Constraint]:
    """Eliminate a variable by the equation at ``position`` of ``involved``, a list of pairs ``(coefficient of the
    variable, constraint)``: yield all other constraints, with the variable substituted.
    """
    pivot, equation = involved[position]
    size, sign = abs(pivot), 1 if pivot > 0 else -1
    for n, (coefficient, row) in enumerate(involved):
        if n != position:
            yield Constraint(row.kind, size * row.form - (sign * coefficient) * equation.form)


def _check_is_affine(row: Constraint, variable: Variable, coefficient: int) -> None:
    """Raise ValueError if ``row`` depends on ``variable`` in a congruence, or inside of a floor or another nonlinear
    term. ``coefficient`` is that of the variable in ``row``.
    """
    if coefficient and row.kind == "mod":
        raise ValueError(f"cannot eliminate {variable!r} from the congruence {row!r}")
    if variable in row.form.hidden():
        raise ValueError(f"cannot eliminate {variable!r} from a quotient or a product in {row!r}")


def constraints_on_union(
    systems: Sequence[Sequence[Constraint]], variables: Iterable[Variable]
) -> tuple[Constraint, ...]:
    """Return constraints that hold at all points of all ``systems``, each a list of constraints: the constraints that
    all of them contain, and the weakest of their bounds on each of ``variables``.

    A variable that all systems bound is bounded by the greatest or least of these bounds.

    Examples
    --------
    >>> i, k, n = (Affine.variable(v) for v in "ikn")
    >>> constraints_on_union([[Constraint("ge", k), Constraint("ge", i - k)], [Constraint("ge", k),
    ...                                                                        Constraint("ge", n - k)]], ["k"])
    (k >= 0, -k + n + max(0, i - n) >= 0)
    """
    first, *others = systems
    result = [row for row in first if all(row in other for other in others)]
    for v in variables:
        for sign in (1, -1):
            if not any(_bounding_form(row, v, sign) for row in result):
                bounds = [_simplest_bounds(system, v, sign) for system in systems]
                slopes = set(bounds[0]).intersection(*bounds[1:])
                if slopes:
                    slope = min(slopes, key=abs)
                    result.append(Constraint("ge", Affine({v: slope}) + maximum_of(own[slope] for own in bounds)))
    return tuple(result)


def _bounding_form(row: Constraint, variable: Variable, sign: int) -> Affine | None:
    """Return the form f of ``f >= 0``, if ``row`` gives such a bound of ``variable``: a lower bound for ``sign`` 1, an
    upper bound for -1. An equation gives both. None if there is none.
    """
    if row.kind == "mod" or variable in row.form.hidden():
        return None
    form = -row.form if row.kind == "eq" and row.form.coefficient(variable) * sign < 0 else row.form
    return form if form.coefficient(variable) * sign > 0 else None


def _simplest_bounds(rows: Iterable[Constraint], variable: Variable, sign: int) -> dict[int, Affine]:
    """Return the lower (``sign`` 1) or upper bounds (-1) of ``variable`` in ``rows``, as a dictionary from coefficients
    c to forms r for the bounds ``c*variable + r >= 0``. Of several bounds with one coefficient, it has the simplest.
    """
    forms = [form for row in rows if (form := _bounding_form(row, variable, sign)) is not None]
    forms.sort(key=lambda form: complexity(Constraint("ge", form)), reverse=True)
    return {c: form - Affine({variable: c}) for form in forms if (c := form.coefficient(variable))}
