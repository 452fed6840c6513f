"""Remainders in forms: ``f - d*floor(f/d)`` is written ``f mod d``, in whatever form the floor has been normalised."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .affine import Affine, Compound
from .products import IndexProduct, divide_with_rest, negated_partial_quotients, quotient_by, quotients_in, times

Remainder = tuple[Affine, Affine, Affine]
"""``(factor, dividend, divisor)`` for ``factor * (dividend mod divisor)``."""


def remainders_of(form: Affine) -> tuple[Affine, list[Remainder]]:
    """Write `form` with remainders, for printing. Return ``(rest, remainders)``: `form` is the rest plus all
    ``factor*Mod(dividend, divisor)``, given as triples ``(factor, dividend, divisor)``.
    """
    if not form.compounds():
        return form, []
    form, remainders = remainders_in(form)
    form, digits = digits_in(form)
    return form, remainders + digits


def remainders_in(form: Affine) -> tuple[Affine, list[Remainder]]:
    """Return ``(rest, remainders)`` with each ``f - m*floor(f/m)`` in ``form`` replaced by the remainder ``Mod(f, m)``;
    ``factor*Mod(f, m)`` is given as the triple ``(factor, f, m)``.

    >>> from sympy_tensordiff.integer.affine import quotient
    >>> p = Affine.variable("p")
    >>> remainders_in(2 * p + 1 - 8 * quotient(p, 4))
    (1, [(2, p, 4)])
    """
    # Outer ones first: the rest of Mod(Mod(i, 3), n) without the inner remainder has none.
    quotients = sorted(sorted(dict.fromkeys(quotients_in(form))), key=_nesting_depth, reverse=True)
    remainders = []
    for quotient in quotients:
        for dividend, divisor in _as_quotients(quotient, quotients):
            if not _is_kept_by_sympy(dividend):
                continue
            multiple = times(divisor, Affine.variable(quotient))
            for factor in negated_partial_quotients(form, multiple):
                rest = form + times(factor, multiple - dividend)
                if _has_absorbed(rest, form, dividend, multiple):
                    if factor in (Affine.of(1), Affine.of(-1)) and _is_complement(divisor, rest, factor):
                        # d - 1 - f mod d is (-f - 1) mod d
                        rest, factor = rest + times(factor, divisor - 1), -factor
                        dividend = _with_least_coefficients(-dividend - 1, divisor)
                    form = rest
                    remainders.append((factor, dividend, divisor))
        form, taken = _remainder_with_moved_terms(form, quotient)
        remainders += taken
    return form, remainders


def _nesting_depth(variable: Any) -> int:
    """Return the nesting depth of floors and other nonlinear terms in a variable; 0 for a symbol."""
    if not isinstance(variable, Compound):
        return 0
    return 1 + max((_nesting_depth(v) for form in variable.forms() for v in form.variables()), default=0)


def _is_kept_by_sympy(dividend: Affine) -> bool:
    """Return whether SymPy keeps the value of ``Mod(dividend, m)`` when it evaluates it. Version 1.14 wrongly turns
    ``Mod(2*Mod(i, 3), 3)`` into ``2*Mod(i, 3)``.
    """
    return all(abs(part.constant) == 1 for part, _, _ in remainders_in(dividend)[1])


def _has_absorbed(short: Affine, form: Affine, dividend: Affine, multiple: Affine) -> bool:
    """Return whether printing ``Mod`` makes ``form`` shorter. ``dividend - multiple`` is the remainder in it,
    ``multiple`` the divisor times the quotient, and ``short`` is ``form`` without this remainder.

    ``short`` must lack the terms of both, or those of ``multiple`` and at least two in all.
    """
    if len(short.terms) == len(form.terms) - len(multiple.terms) - len(dividend.terms):
        return True
    gone = dict(short.terms).keys().isdisjoint(multiple.variables())
    return gone and len(multiple.terms) > 1 and len(short.terms) + 1 < len(form.terms)


def _remainder_with_moved_terms(form: Affine, quotient: Any) -> tuple[Affine, list[Remainder]]:
    """Return ``(rest, [(1, f, m)])`` for a ``form`` equal to ``rest + Mod(f, m)``; ``(form, [])`` if there is none. The
    floor ``quotient`` in it is that of the remainder, perhaps in another notation than ``floor(f/m)``, such as
    ``floor((n + 2*p)/(2*n))``.

    >>> p, n = Affine.variable("p"), Affine.variable("n")
    >>> f = p + quotient_by(n, Affine.of(2))
    >>> quotient_by(f, n), remainders_in(f - times(n, quotient_by(f, n)) + n)
    (floor((n + 2*p)/(2*n)), (n, [(1, p + floor(n/2), n)]))
    """
    factor, rest = _split_factor(form, quotient)
    if factor == Affine():
        return form, []
    ratio, remaining = divide_with_rest(Affine.of(quotient.divisor), factor)
    if remaining != Affine() or not ratio.is_constant:
        return form, []
    sign = 1 if ratio.constant > 0 else -1
    divisor = factor * sign
    inside = quotient.atoms()
    own = Affine({v: c for v, c in rest.terms if Affine.variable(v).atoms() <= inside}, rest.constant)
    for dividend in (rest, own):
        # f mod d is f - d*floor(f/d), and f + d*floor((d - 1 - f)/d)
        for more in _differences_to_floor(dividend if sign < 0 else divisor - 1 - dividend, divisor, quotient):
            short = rest - dividend - sign * more.constant * divisor
            if more.is_constant and len(short.terms) < len(form.terms) and _is_kept_by_sympy(dividend):
                return short, [(Affine.of(1), divide_with_rest(dividend, divisor)[1], divisor)]
    return form, []


def _differences_to_floor(form: Affine, divisor: Affine, quotient: Any) -> tuple[Affine, Affine]:
    """Return two notations of the difference ``floor(form/divisor) - quotient``; if either is 0, the floors are equal.
    The second one writes each ``floor(a/b)`` as ``-floor((b - 1 - a)/b)``.
    """
    by = Affine.of(quotient.divisor)
    down = quotient_by(form, divisor) - Affine.variable(quotient)
    return down, quotient_by(by - 1 - quotient.form, by) - quotient_by(divisor - 1 - form, divisor)


def _split_factor(form: Affine, variable: Any) -> tuple[Affine, Affine]:
    """Split ``form`` into ``factor*variable + rest``; return the factor and the rest."""
    factor, rest = Affine(), Affine(None, form.constant)
    for v, c in form.terms:
        if v == variable:
            factor += c
        elif isinstance(v, IndexProduct) and variable in v.factors:
            factor += c * v.without(variable)
        else:
            rest += Affine({v: c})
    return factor, rest


def digits_in(form: Affine) -> tuple[Affine, list[Remainder]]:
    """Write sums of multiples of p and ``floor(p/d)`` in ``form`` with ``Mod(p, d)``, if that makes the form shorter.
    Return ``(rest, remainders)``, whose sum is ``form``; a remainder ``(factor, p, d)`` means ``factor*Mod(p, d)``.

    In ``a*p + c*floor(p/d)`` either ``p`` is split into its digits, or ``p - Mod(p, d)`` replaces ``d*floor(p/d)`` if
    there is no other quotient of ``p``.

    >>> from sympy_tensordiff.integer.affine import quotient
    >>> p = Affine.variable("p")
    >>> digits_in(4 * p - 6 * quotient(p, 2) - 3 * quotient(p, 4))
    (floor(p/4), [(4, p, 2), (2, floor(p/2), 2)])
    >>> digits_in(4 * quotient(p, 2) - p)
    (p, [(-2, p, 2)])
    """
    quotients = sorted(form.quotients())
    remainders = []
    for quotient in quotients:
        for dividend, divisor in _as_quotients(quotient, quotients):
            v, d = _as_variable(dividend), divisor.constant
            a, c = form.coefficient(v), form.coefficient(quotient)
            if v is None or not a or not c:
                continue
            size, split, joined = abs(a) + abs(c), abs(a) + abs(a * d + c), abs(a + c // d) + abs(c // d)
            alone = sum(other.form == quotient.form for other in quotients) == 1
            if alone and c % d == 0 and joined < size and joined <= split:
                form += Affine({v: c // d, quotient: -c})
                remainders.append((Affine.of(-(c // d)), dividend, divisor))
            elif split < size:
                form += Affine({v: -a, quotient: a * d})
                remainders.append((Affine.of(a), dividend, divisor))
    return form, remainders


def _as_variable(form: Affine) -> Any:
    """Return the variable if a form is a single variable; else None."""
    return form.terms[0][0] if len(form.terms) == 1 and form.terms[0][1] == 1 and not form.constant else None


def _is_complement(divisor: Affine, rest: Affine, factor: Affine) -> bool:
    """Return whether ``rest + factor*Mod(f, divisor)`` contains the difference ``divisor - 1 - Mod(f, divisor)``, which
    is the single remainder ``Mod(-f - 1, divisor)``. ``factor`` is 1 or -1.
    """
    if divisor.is_constant:
        return factor.constant < 0 and rest.constant == divisor.constant - 1
    left = rest + times(factor, divisor - 1)
    return left.constant == 0 and len(left.terms) == len(rest.terms) - len(divisor.terms)


def _with_least_coefficients(form: Affine, modulus: Affine) -> Affine:
    """Return ``form`` with its coefficients and its constant reduced modulo ``modulus``, to ``0 … modulus - 1``; only a
    coefficient -1 stays -1. Return ``form`` unchanged if ``modulus`` is not a number.
    """
    if not modulus.is_constant:
        return form
    d = modulus.constant
    return Affine({v: -1 if c == -1 else c % d for v, c in form.terms}, form.constant % d)


def _as_quotients(quotient: Any, others: Sequence[Any]) -> list[tuple[Affine, Affine]]:
    """Return all pairs ``(dividend, divisor)`` with ``floor(dividend/divisor)`` equal to ``quotient``: for
    ``floor(p/4)`` also ``(q, 2)`` if ``q = floor(p/2)`` is one of the quotients ``others``.
    """
    result = [(quotient.form, Affine.of(quotient.divisor))]
    for other in others:
        if other != quotient and other.form == quotient.form:
            ratio, rest = divide_with_rest(Affine.of(quotient.divisor), Affine.of(other.divisor))
            if rest == Affine():
                result.append((Affine.variable(other), ratio))
    return result
