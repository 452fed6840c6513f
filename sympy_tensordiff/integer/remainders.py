"""Remainders in forms as one writes them: ``f - d*floor(f/d)`` is ``f mod d``, whatever the quotient has become."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .affine import Affine, Compound
from .products import Product, divided, parts_by, quotient_by, quotients_in, times

Remainder = tuple[Affine, Affine, Affine]
"""A factor, and the dividend and the divisor of the remainder that it multiplies."""


def remainders_of(form: Affine) -> tuple[Affine, list[Remainder]]:
    """A form as it is shown: without what `remainders_in` and `digits_in` find, and that."""
    if not form.compounds():
        return form, []
    form, remainders = remainders_in(form)
    form, digits = digits_in(form)
    return form, remainders + digits


def remainders_in(form: Affine) -> tuple[Affine, list[Remainder]]:
    """The form without its remainders, and these.

    >>> from sympy_tensordiff.integer.affine import quotient
    >>> p = Affine.variable("p")
    >>> remainders_in(2 * p + 1 - 8 * quotient(p, 4))
    (1, [(2, p, 4)])
    """
    # Outer ones first: what is left of Mod(Mod(i, 3), n) without the inner remainder has none.
    found = sorted(sorted(dict.fromkeys(quotients_in(form))), key=_depth, reverse=True)
    remainders = []
    for quotient in found:
        for dividend, divisor in _quotients_of(quotient, found):
            if not _can_be_typed(dividend):
                continue
            multiple = times(divisor, Affine.variable(quotient))
            for part in parts_by(form, multiple):
                short = form + times(part, multiple - dividend)
                if _is_shorter(short, form, dividend, multiple):
                    if part in (Affine.of(1), Affine.of(-1)) and _ends_at(divisor, short, part):
                        # d - 1 - f mod d is (-f - 1) mod d
                        short, part = short + times(part, divisor - 1), -part
                        dividend = _least(-dividend - 1, divisor)
                    form = short
                    remainders.append((part, dividend, divisor))
        form, taken = _of_rounded_terms(form, quotient)
        remainders += taken
    return form, remainders


def _depth(variable: Any) -> int:
    """How many compounds stand in one another."""
    if not isinstance(variable, Compound):
        return 0
    return 1 + max((_depth(v) for form in variable.forms() for v in form.variables()), default=0)


def _can_be_typed(dividend: Affine) -> bool:
    """Whether SymPy 1.14 takes a remainder of it for that: ``Mod(2*Mod(i, 3), 3)`` is ``2*Mod(i, 3)`` to it."""
    return all(abs(part.constant) == 1 for part, _, _ in remainders_in(dividend)[1])


def _is_shorter(short: Affine, form: Affine, dividend: Affine, multiple: Affine) -> bool:
    """Whether all terms of a remainder have left a form, or those of a quotient by a sum, and some others."""
    if len(short.terms) == len(form.terms) - len(multiple.terms) - len(dividend.terms):
        return True
    gone = dict(short.terms).keys().isdisjoint(multiple.variables())
    return gone and len(multiple.terms) > 1 and len(short.terms) + 1 < len(form.terms)


def _of_rounded_terms(form: Affine, quotient: Any) -> tuple[Affine, list[Remainder]]:
    """The remainder of ``f`` where SymPy has moved a rounded part of ``f`` into the quotient.

    >>> p, n = Affine.variable("p"), Affine.variable("n")
    >>> f = p + quotient_by(n, Affine.of(2))
    >>> quotient_by(f, n), remainders_in(f - times(n, quotient_by(f, n)) + n)
    (floor((n + 2*p)/(2*n)), (n, [(1, p + floor(n/2), n)]))
    """
    factor, rest = _factor_of(form, quotient)
    if factor == Affine():
        return form, []
    ratio, left = divided(Affine.of(quotient.divisor), factor)
    if left != Affine() or not ratio.is_constant:
        return form, []
    sign = 1 if ratio.constant > 0 else -1
    divisor = factor * sign
    inside = quotient.atoms()
    own = Affine({v: c for v, c in rest.terms if Affine.variable(v).atoms() <= inside}, rest.constant)
    for dividend in (rest, own):
        # f mod d is f - d*floor(f/d), and f + d*floor((d - 1 - f)/d)
        for more in _above(dividend if sign < 0 else divisor - 1 - dividend, divisor, quotient):
            short = rest - dividend - sign * more.constant * divisor
            if more.is_constant and len(short.terms) < len(form.terms) and _can_be_typed(dividend):
                return short, [(Affine.of(1), divided(dividend, divisor)[1], divisor)]
    return form, []


def _above(form: Affine, divisor: Affine, quotient: Any) -> tuple[Affine, Affine]:
    """``floor(form/divisor) - quotient`` twice: either rounded up as ``-floor((d - 1 - f)/d)`` takes in other terms."""
    by = Affine.of(quotient.divisor)
    down = quotient_by(form, divisor) - Affine.variable(quotient)
    return down, quotient_by(by - 1 - quotient.form, by) - quotient_by(divisor - 1 - form, divisor)


def _factor_of(form: Affine, variable: Any) -> tuple[Affine, Affine]:
    """What multiplies a compound in a form, and the other terms."""
    factor, rest = Affine(), Affine(None, form.constant)
    for v, c in form.terms:
        if v == variable:
            factor += c
        elif isinstance(v, Product) and variable in v.factors:
            factor += c * v.without(variable)
        else:
            rest += Affine({v: c})
    return factor, rest


def digits_in(form: Affine) -> tuple[Affine, list[Remainder]]:
    """The form with smaller coefficients, where remainders give these; beside it those remainders as `remainders_in`.

    Of ``a*p + c*floor(p/d)`` either ``p`` is split into its digits, or ``p - Mod(p, d)`` replaces ``d*floor(p/d)``
    where no other quotient of ``p`` has digits of its own.

    >>> from sympy_tensordiff.integer.affine import quotient
    >>> p = Affine.variable("p")
    >>> digits_in(4 * p - 6 * quotient(p, 2) - 3 * quotient(p, 4))
    (floor(p/4), [(4, p, 2), (2, floor(p/2), 2)])
    >>> digits_in(4 * quotient(p, 2) - p)
    (p, [(-2, p, 2)])
    """
    found = sorted(form.quotients())
    remainders = []
    for quotient in found:
        for dividend, by in _quotients_of(quotient, found):
            v, d = _only_variable(dividend), by.constant
            a, c = form.coefficient(v), form.coefficient(quotient)
            if v is None or not a or not c:
                continue
            size, split, joined = abs(a) + abs(c), abs(a) + abs(a * d + c), abs(a + c // d) + abs(c // d)
            alone = sum(other.form == quotient.form for other in found) == 1
            if alone and c % d == 0 and joined < size and joined <= split:
                form += Affine({v: c // d, quotient: -c})
                remainders.append((Affine.of(-(c // d)), dividend, by))
            elif split < size:
                form += Affine({v: -a, quotient: a * d})
                remainders.append((Affine.of(a), dividend, by))
    return form, remainders


def _only_variable(form: Affine) -> Any:
    """The variable of a form that is nothing else; None for others."""
    return form.terms[0][0] if len(form.terms) == 1 and form.terms[0][1] == 1 and not form.constant else None


def _ends_at(divisor: Affine, rest: Affine, part: Affine) -> bool:
    """Whether a remainder is subtracted from its largest value, or that from it where it is a symbol."""
    if divisor.is_constant:
        return part.constant < 0 and rest.constant == divisor.constant - 1
    left = rest + times(part, divisor - 1)
    return left.constant == 0 and len(left.terms) == len(rest.terms) - len(divisor.terms)


def _least(form: Affine, modulus: Affine) -> Affine:
    """The form of the same remainder with coefficients -1 or from 0 to ``modulus - 1``, where that is a number."""
    if not modulus.is_constant:
        return form
    d = modulus.constant
    return Affine({v: -1 if c == -1 else c % d for v, c in form.terms}, form.constant % d)


def _quotients_of(quotient: Any, others: Sequence[Any]) -> list[tuple[Affine, Affine]]:
    """Dividends and divisors whose quotient it is: ``floor(f/(d*e))`` is also that of ``floor(f/d)`` by ``e``."""
    result = [(quotient.form, Affine.of(quotient.divisor))]
    for other in others:
        if other != quotient and other.form == quotient.form:
            whole, rest = divided(Affine.of(quotient.divisor), Affine.of(other.divisor))
            if rest == Affine():
                result.append((Affine.variable(other), whole))
    return result
