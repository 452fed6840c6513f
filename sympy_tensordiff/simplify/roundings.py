"""Rounded quotients that have one value under what is known: ``floor(r/M)`` is 0 where ``0 <= r < M``."""

from __future__ import annotations

from sympy_tensordiff.integer.affine import Affine, Quotient, Row, Variable
from sympy_tensordiff.integer.polyhedron import implied, maximum, minimum
from sympy_tensordiff.integer.products import SymbolicQuotient, rounded
from sympy_tensordiff.simplify.clamps import decided

Facts = tuple[Row, ...]


def settled(form: Affine, facts: Facts) -> Affine:
    """The form without the quotients, maxima and minima whose value the ``facts`` tell.

    >>> r, M = Affine.variable("r"), Affine.variable("M")
    >>> from sympy_tensordiff.integer.products import quotient_by, times
    >>> digit = (Row("ge", r), Row("ge", M - 1 - r))
    >>> settled(r - times(M, quotient_by(r, M)), digit)
    r
    """
    if not form.compounds():
        return form
    form = decided(form, facts)
    known: dict[Variable, Affine] = {}
    for found in rounded(form):
        value = _value(found, facts)
        if value is not None:
            known[found] = Affine.of(value)
    return settled(form.substitute(known), facts) if known else form


def _value(found: Quotient | SymbolicQuotient, facts: Facts) -> int | None:
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
