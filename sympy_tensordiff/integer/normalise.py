"""Rows in lowest terms, tightened over the integers."""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd

from .affine import Affine, Quotient, Row
from .products import SymbolicQuotient, times


def normalise(row: Row) -> Row | bool:
    """The row in lowest terms, tightened over the integers; True or False where it is decided.

    ``2*i - 1 >= 0`` becomes ``i - 1 >= 0`` (the constant is floored), ``2*i == 3`` is False,
    ``2*i + 2 mod 4 == 0`` becomes ``i + 1 mod 2 == 0``, ``floor(i/2) >= 3`` becomes ``i >= 6``.

    >>> i = Affine.variable("i")
    >>> normalise(Row("ge", 2 * i - 1)), normalise(Row("eq", 2 * i - 3))
    (i - 1 >= 0, False)
    >>> normalise(Row("mod", 6 * i + 2, 4))
    (i + 1) mod 2 == 0
    """
    kind, form, modulus = row
    if kind == "mod":
        return _normalise_congruence(form, modulus)
    content = form.content()
    if content == 0:
        return form.constant >= 0 if kind == "ge" else form.constant == 0
    if kind == "ge":
        for v, c in reversed(form.terms):
            if isinstance(v, (Quotient, SymbolicQuotient)) and abs(c) == 1:
                return normalise(Row("ge", _without_quotient(form, v, c)))
        if content == 1:
            return row
        return Row("ge", form.divided(content))
    if form.constant % content:
        return False
    if form.terms[0][1] < 0:
        content = -content
    return Row("eq", form.divided(content)) if content != 1 else row


def _without_quotient(form: Affine, found: Quotient | SymbolicQuotient, sign: int) -> Affine:
    """``form >= 0`` without its quotient: floor(f/d) >= e is f >= d*e, floor(f/d) <= e is f < d*(e + 1)."""
    divisor, others = found.divisor, form - Affine({found: sign})
    rest = others * divisor if isinstance(divisor, int) else times(divisor, others)
    return rest + found.form if sign > 0 else rest + (divisor - 1) - found.form


def _normalise_congruence(form: Affine, modulus: int) -> Row | bool:
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
    return Row("mod", Affine(half, reduced.constant % modulus), modulus)


def normalise_rows(rows: Iterable[Row]) -> tuple[Row, ...] | None:
    """All rows normalised, without repetitions, in order; None where one of them is False."""
    result: dict[Row, None] = {}
    for row in rows:
        reduced = normalise(row)
        if reduced is False:
            return None
        if reduced is not True:
            result[reduced] = None
    return tuple(result)
