"""Conjunctions of constraints: their variables, ranges as constraints and back, and their normal form."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from math import gcd
from typing import TypeAlias, TypeVar

from .affine import Affine, Compound, Constraint, Quotient, Variable
from .products import SymbolicQuotient, times

FormOrRow = TypeVar("FormOrRow", Affine, Constraint)
Rows: TypeAlias = tuple[Constraint, ...]
"""A conjunction of constraints."""


def atoms_in(forms_and_rows: Iterable[Affine | Constraint]) -> frozenset[Variable]:
    """Return all plain variables in the forms or constraints ``forms_and_rows``, also those inside of floors and other
    nonlinear terms.
    """
    found: set[Variable] = set()
    for part in forms_and_rows:
        for v, _ in (part.form if isinstance(part, Constraint) else part).terms:
            if isinstance(v, Compound):
                found |= v.atoms()
            else:
                found.add(v)
    return frozenset(found)


def linear(parts: Iterable[Affine | Constraint]) -> bool:
    """Return whether none of ``parts``, forms or constraints, contains a nonlinear term (`Compound`): no floor,
    maximum, product or tensor entry.

    >>> i = Affine.variable("i")
    >>> linear([Constraint("ge", i - 3)]), linear([i, i + Affine.variable(Quotient(i, 2))])
    (True, False)
    """
    # A compound is sorted after all plain variables.
    forms = (part.form if isinstance(part, Constraint) else part for part in parts)
    return not any(form.terms and isinstance(form.terms[-1][0], Compound) for form in forms)


def substitute_all(forms_or_rows: Iterable[FormOrRow], mapping: Mapping[Variable, Affine]) -> tuple[FormOrRow, ...]:
    """Return ``forms_or_rows`` with all variables of ``mapping`` replaced by its forms, at once: ``{i: j, j: i}``
    exchanges i and j.
    """
    return tuple([part.substitute(mapping) for part in forms_or_rows])


def partition(
    rows: Iterable[Constraint], variables: Collection[Variable]
) -> tuple[tuple[Constraint, ...], tuple[Constraint, ...]]:
    """Return the constraints of ``rows`` that contain none of ``variables``, and the constraints that contain some.

    >>> i, n = Affine.variable("i"), Affine.variable("n")
    >>> partition([Constraint("ge", n - i), Constraint("ge", n - 1)], "i")
    ((n - 1 >= 0,), (-i + n >= 0,))
    """
    parts: tuple[list[Constraint], list[Constraint]] = [], []
    for row in rows:
        parts[not row.form.atoms().isdisjoint(variables)].append(row)
    return tuple(parts[0]), tuple(parts[1])


def shape_rows(index: Iterable[Affine], shape: Iterable[Affine]) -> tuple[Constraint, ...]:
    """Return the constraints ``0 <= i`` and ``i <= n - 1`` for each entry i of ``index`` and the extent n of its axis.

    >>> i, n = Affine.variable("i"), Affine.variable("n")
    >>> shape_rows([i + 1], [n])
    (i + 1 >= 0, -i + n - 2 >= 0)
    """
    ends = zip(index, shape, strict=True)
    return tuple(
        [row for form, extent in ends for row in (Constraint("ge", form), Constraint("ge", extent - 1 - form))]
    )


def ranges(variables: Sequence[Variable], extents: Sequence[Affine]) -> tuple[Constraint, ...]:
    """Return the constraints ``0 <= variable <= extent - 1`` for ``variables`` and their ``extents``."""
    return shape_rows(map(Affine.variable, variables), extents)


def complement(rows: Sequence[Constraint]) -> Iterator[Rows]:
    """Yield disjoint systems of constraints whose union is the complement of the conjunction `rows`.

    >>> i = Affine.variable("i")
    >>> list(complement([Constraint("ge", i), Constraint("eq", i - 3)]))
    [(-i - 1 >= 0,), (i >= 0, i - 4 >= 0), (i >= 0, -i + 2 >= 0)]
    """
    for position, row in enumerate(rows):
        above_and_below = (Constraint("ge", row.form - 1), Constraint("ge", -row.form - 1))
        for opposite in above_and_below if row.kind == "eq" else (row.negation(),):
            yield (*rows[:position], opposite)


def range_rows(form: Affine, lows: Iterable[Affine], highs: Iterable[Affine]) -> list[Constraint]:
    """Return the constraints that ``form`` is at least each of ``lows`` and at most each of ``highs``."""
    return [Constraint("ge", form - bound) for bound in lows] + [Constraint("ge", bound - form) for bound in highs]


def positive_rows(forms: Iterable[Affine]) -> tuple[Constraint, ...]:
    """Return the constraints that all ``forms`` are at least 1."""
    return tuple([Constraint("ge", form - 1) for form in forms])


def unit_bounds_of(variable: Variable, rows: Iterable[Constraint]) -> tuple[list[Affine], list[Affine]]:
    """Return ``(lower bounds, upper bounds)`` of ``variable`` from those constraints of ``rows`` in which its
    coefficient is 1 or -1.

    >>> i, n = Affine.variable("i"), Affine.variable("n")
    >>> unit_bounds_of("i", [Constraint("ge", i - 1), Constraint("ge", n - i), Constraint("ge", 9 - 2 * i)])
    ([1], [n])
    """
    bounds: tuple[list[Affine], list[Affine]] = [], []
    for row in rows:
        c = row.form.coefficient(variable)
        if abs(c) == 1:
            bounds[c < 0].append(Affine({variable: 1}) - row.form * c)
    return bounds


Sides: TypeAlias = tuple[list[tuple[Affine, int]], list[tuple[Affine, int]]]
"""The lower and the upper bounds of a variable: forms with their divisors."""


def bounds_with_divisors(variable: Variable, forms: Iterable[Affine]) -> Sides:
    """Return ``(lower bounds, upper bounds)`` of a variable from the constraints ``form >= 0``. Each bound is a pair
    (form, divisor): ``2*i - p >= 0`` gives the lower bound ``(p, 2)`` of i, which means ``i >= p/2``.

    >>> i, p = Affine.variable("i"), Affine.variable("p")
    >>> bounds_with_divisors("i", [2 * i - p, 9 - i])
    ([(p, 2)], [(9, 1)])
    """
    sides: Sides = [], []
    for form in forms:
        c, rest = form.coefficient(variable), form.split(variable)[1]
        sides[c < 0].append((-rest, c) if c > 0 else (rest, -c))
    return sides


def rows_connected_to(rows: Rows, variables: frozenset[Variable], sizes: frozenset[Variable]) -> Rows:
    """Return the constraints in ``rows`` that are connected to ``variables``: they contain one of them, or a variable
    of another connected row. Variables in ``sizes`` do not connect; rows that contain only sizes are included.
    """
    known = set(variables - sizes)
    others = [row.form.atoms() - sizes for row in rows]
    left = [*range(len(rows))]
    grown = True
    while grown:
        waiting, left, grown = left, [], False
        for n in waiting:
            if others[n] and others[n].isdisjoint(known):
                left.append(n)
            else:
                known |= others[n]
                grown = True
    return tuple([row for n, row in enumerate(rows) if n not in left]) if left else rows


def bounds_a_loop(row: Constraint, variables: Sequence[Variable]) -> bool:
    """Return whether ``row`` can be a bound of one of the nested loops over ``variables`` (outermost first): it is an
    inequality that is linear in the innermost variable that it contains.
    """
    for n, v in enumerate(variables):
        if row.kind == "ge" and row.form.coefficient(v) and row.form.atoms().isdisjoint(variables[n + 1 :]):
            return v not in row.form.hidden()
    return False


def renaming_map(variables: Iterable[Variable], others: Iterable[Variable]) -> dict[Variable, Affine]:
    """Return the mapping from each of ``variables`` to the variable at the same position in ``others``."""
    return {v: Affine.variable(w) for v, w in zip(variables, others, strict=True)}


# Cached: most rows recur in other systems.
@lru_cache(maxsize=8192)
def normalise(row: Constraint) -> Constraint | bool:
    """Return the row in lowest terms, with its constant rounded: ``i >= 2`` for ``2*i >= 3``. True if it always holds,
    False if it never does.

    ``2*i - 1 >= 0`` becomes ``i - 1 >= 0`` (the constant is floored), ``2*i == 3`` is False,
    ``2*i + 2 mod 4 == 0`` becomes ``i + 1 mod 2 == 0``, ``floor(i/2) >= 3`` becomes ``i >= 6``, and a
    condition that allows one remainder only becomes a congruence. A row of the definition of a compound, such as the
    declared range of a tensor entry, is True.

    >>> i = Affine.variable("i")
    >>> normalise(Constraint("ge", 2 * i - 1)), normalise(Constraint("eq", 2 * i - 3))
    (i - 1 >= 0, False)
    >>> normalise(Constraint("mod", 6 * i + 2, 4))
    (i + 1) mod 2 == 0
    >>> remainder = i - 5 * Affine.variable(Quotient(i, 5))
    >>> normalise(Constraint("eq", remainder - 2)), normalise(Constraint("ge", remainder - 4))
    ((i + 3) mod 5 == 0, (i + 1) mod 5 == 0)
    """
    kind, form, modulus = row
    if kind == "mod":
        return _normalise_congruence(form, modulus)
    content = form.content()
    if content == 0:
        return form.constant >= 0 if kind == "ge" else form.constant == 0
    if kind == "ge":
        if content > 1:
            return normalise(Constraint("ge", form.divided(content)))
        for v, c in reversed(form.terms):
            if isinstance(v, (Quotient, SymbolicQuotient)) and abs(c) == 1:
                return normalise(Constraint("ge", _without_floor(form, v, c)))
        if any(isinstance(v, Compound) and row in v.definition() for v, _ in form.terms):
            return True
        one = _as_congruence("ge", form)
        return row if one is None else one
    if form.constant % content:
        return False
    one = _as_congruence("eq", form.divided(content))
    if one is not None:
        return one
    if form.terms[0][1] < 0:
        content = -content
    return Constraint("eq", form.divided(content)) if content != 1 else row


def _without_floor(form: Affine, quotient: Quotient | SymbolicQuotient, sign: int) -> Affine:
    """Return a form without its floor ``quotient`` that is >= 0 exactly where ``form`` is: ``f - d*e`` for
    ``floor(f/d) - e``. ``sign``, 1 or -1, is the coefficient of the quotient in ``form``.
    """
    divisor, others = quotient.divisor, form - Affine({quotient: sign})
    rest = others * divisor if isinstance(divisor, int) else times(divisor, others)
    return rest + quotient.form if sign > 0 else rest + (divisor - 1) - quotient.form


def _as_congruence(kind: str, form: Affine) -> Constraint | bool | None:
    """Return the condition ``form >= 0`` or ``form == 0`` (``kind`` "ge" or "eq") on a single remainder as a
    congruence, such as ``p mod 2 == 0``; True or False if it is always or never true; None for other conditions.
    """
    found = remainders(kind, form)
    if found is None:
        return None
    dividend, divisor, values = found
    if len(values) == 1:
        return _normalise_congruence(dividend - values[0], divisor)
    return bool(values) if len(values) in (0, divisor) else None


def remainders(kind: str, form: Affine) -> tuple[Affine, int, range] | None:
    """Return ``(f, m, values)`` if ``form >= 0`` (``kind`` "ge") or ``form == 0`` ("eq") is a condition on a single
    remainder: it is true if and only if ``f mod m`` is in the range `values`. None for other conditions.

    The form is in lowest terms, so it differs from the remainder ``f - m*floor(f/m)`` or its negative by a number.

    >>> i = Affine.variable("i")
    >>> remainders("ge", i - 4 * Affine.variable(Quotient(i, 4)) - 1)
    (i, 4, range(1, 4))
    """
    for v, c in form.terms if form.quotients() else ():
        if isinstance(v, Quotient) and abs(c) == v.divisor:
            sign = -1 if c > 0 else 1
            rest = form - sign * (v.form - v.divisor * Affine.variable(v))
            if rest.is_constant:
                # sign*remainder + rest >= 0, or == 0
                edge = -sign * rest.constant
                least, most = (edge, edge) if kind == "eq" else (edge, v.divisor) if sign > 0 else (0, edge)
                return v.form, v.divisor, range(max(least, 0), min(most + 1, v.divisor))
    return None


def _normalise_congruence(form: Affine, modulus: int) -> Constraint | bool:
    """Return ``form mod modulus == 0`` with least coefficients; True if it always holds, False if it never does."""
    terms = {v: c % modulus for v, c in form.terms}
    constant = form.constant % modulus
    common = gcd(modulus, *terms.values())
    if constant % common:
        return False
    modulus //= common
    if modulus == 1:
        return True
    reduced = Affine({v: c // common for v, c in terms.items()}, constant // common)
    if 2 * reduced.terms[0][1] > modulus:
        reduced = -reduced
    half = {v: c % modulus - (modulus if 2 * (c % modulus) > modulus else 0) for v, c in reduced.terms}
    return Constraint("mod", Affine(half, reduced.constant % modulus), modulus)


def normalise_rows(rows: Iterable[Constraint]) -> tuple[Constraint, ...] | None:
    """Return all rows in lowest terms, each once. None if one of them never holds."""
    result: dict[Constraint, None] = {}
    for row in rows:
        reduced = normalise(row)
        if reduced is False:
            return None
        if reduced is not True:
            result[reduced] = None
    return tuple(result)
