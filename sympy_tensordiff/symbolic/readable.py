"""Index expressions as a person writes them: ``p - k``, ``(p + 1)/2`` inside of a floor, remainders as ``Mod``.

SymPy sorts the terms of a sum by its own order and distributes fractions over them; here they are
arranged anew for printing, in an expression that nothing evaluates.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm
from typing import Any

from sympy import Add, Integer, Max, Min, Mod, Mul, Rational, ceiling, floor

from sympy_tensordiff.errors import IndexExpressionError
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.symbolic.indices import parse


def show_index(printer: Any, index: Any) -> Any:
    """An index or a bound, printed by ``printer`` with its terms where a person expects them.

    >>> from sympy import StrPrinter, floor, Symbol
    >>> k, p = Symbol("k", integer=True), Symbol("p", integer=True)
    >>> show_index(StrPrinter(), 1 - k + p), show_index(StrPrinter(), floor((p + 1)/2) - 2)
    ('p - k + 1', 'floor((p + 1)/2) - 2')
    >>> show_index(StrPrinter(), p - 4*floor(p/4))
    'Mod(p, 4)'
    """
    if index.is_Atom:
        return printer._print(index)
    order = printer._settings.get("order")
    printer._settings["order"] = "none"
    try:
        return printer._print(arranged(index))
    finally:
        printer._settings["order"] = order


def arranged(index: Any) -> Any:
    """The expression with its parts in their places, not evaluated."""
    if index.is_Add:
        return Add(*_ordered(_with_remainders(index)), evaluate=False)
    if isinstance(index, floor | ceiling):
        return type(index)(_fraction(index.args[0]), evaluate=False)
    if isinstance(index, Max | Min | Mod):
        return type(index)(*map(arranged, index.args), evaluate=False)
    return index


def _ordered(total: Any) -> list[Any]:
    """The terms: negative ones behind positive ones, a number last unless all others are negative."""
    parts = [term.as_coeff_Mul() for term in (total.as_ordered_terms() if total.is_Add else [total])]
    parts.sort(key=lambda part: (part[1] == 1, bool(part[0].is_negative)))
    if parts[0][0].is_negative and parts[-1][0].is_positive:
        parts.insert(0, parts.pop())
    return [_times(*part) for part in parts]


def _times(coefficient: Any, factor: Any) -> Any:
    """``coefficient*factor`` with the factor arranged."""
    return coefficient * factor if factor.is_Atom else Mul(coefficient, arranged(factor), evaluate=coefficient == 1)


def _fraction(argument: Any) -> Any:
    """``p/2 + 1/2`` as ``(p + 1)/2``."""
    coefficients = argument.as_coefficients_dict().values()
    denominator = lcm(*(int(c.q) for c in coefficients if c.is_Rational))
    if denominator == 1 or not argument.is_Add:
        return arranged(argument)
    numerator = Add(*(term * denominator for term in argument.args))
    return Mul(Rational(1, denominator), arranged(numerator), evaluate=False)


def _with_remainders(index: Any) -> Any:
    """``m*f - m*d*floor(f/d)`` as ``m*Mod(f, d)``."""
    try:
        form, atoms = parse(index)
    except IndexExpressionError:
        return index
    remainders = []
    for quotient in sorted(form.quotients()):
        times, rest = divmod(-form.coefficient(quotient), quotient.divisor)
        if rest == 0 and all(form.coefficient(v) == times * c for v, c in quotient.form.terms):
            form = form - times * quotient.form - Affine({quotient: form.coefficient(quotient)})
            remainders.append(times * Mod(_expression(quotient.form, atoms), quotient.divisor))
    return Add(_expression(form, atoms), *remainders) if remainders else index


def _expression(form: Affine, atoms: Sequence[Any]) -> Any:
    """A form over slots as a SymPy expression."""
    terms = [Integer(form.constant)]
    for slot, c in form.terms:
        inner = atoms[slot] if isinstance(slot, int) else floor(_expression(slot.form, atoms) / slot.divisor)
        terms.append(c * inner)
    return Add(*terms)
