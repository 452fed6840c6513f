"""Index expressions as a person writes them: ``p - k``, ``(p + 1)/2`` inside of a floor, remainders as ``Mod``.

SymPy sorts the terms of a sum by its own order and distributes fractions over them; here they are
arranged anew for printing, in an expression that nothing evaluates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import lcm
from typing import Any

from sympy import Abs, Add, Integer, Max, Min, Mod, Mul, Pow, Rational, ceiling, floor

from sympy_tensordiff.errors import IndexExpressionError
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.integer.data import DataEntry
from sympy_tensordiff.integer.extrema import PositivePart
from sympy_tensordiff.integer.products import Product, divided, parts_by, rounded, times
from sympy_tensordiff.symbolic.indices import data_of, parse


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
    brackets = vars(printer).get("_needs_add_brackets")
    printer._settings["order"] = "none"
    # In LaTeX SymPy brackets every term that has a remainder anywhere, also where that has brackets of its own.
    printer._needs_add_brackets = lambda term: term.is_Add or isinstance(term, Mod)
    try:
        return printer._print(arranged(index))
    finally:
        printer._settings["order"] = order
        if brackets is None:
            del printer._needs_add_brackets
        else:
            printer._needs_add_brackets = brackets


def arranged(index: Any) -> Any:
    """The expression with its parts in their places, not evaluated."""
    if index.is_Add:
        return Add(*_ordered(_with_remainders(index)), evaluate=False)
    if isinstance(index, floor | ceiling):
        return type(index)(_fraction(index.args[0]), evaluate=False)
    if isinstance(index, Mod):  # Mod(p - 1, N) with a positive N is Mod(N + p - 1, N) to SymPy
        above, below = index.args
        index = Mod(Add(*(term for term in Add.make_args(above) if term != below)), below, evaluate=False)
    if isinstance(index, Abs | Max | Min | Mod):
        return type(index)(*map(arranged, index.args), evaluate=False)
    if index.is_Mul and index.args[0].is_Integer:
        return _times(*index.as_coeff_Mul())
    if index.is_Mul and any(factor.is_Add for factor in index.args):
        return Mul(*map(arranged, index.args), evaluate=False)
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
    if factor.is_Atom or coefficient == 1:
        return coefficient * arranged(factor)
    return Mul(coefficient, *Mul.make_args(arranged(factor)), evaluate=False)


def _fraction(argument: Any) -> Any:
    """``p/2 + 1/2`` as ``(p + 1)/2``, and the numerator of a quotient by symbols arranged."""
    if argument.is_Mul and any(factor.is_Pow and factor.exp.is_negative for factor in argument.args):
        above, below = argument.as_numer_denom()
        return Mul(arranged(above), *map(_inverse, Mul.make_args(below)), evaluate=False)
    coefficients = argument.as_coefficients_dict().values()
    denominator = lcm(*(int(c.q) for c in coefficients if c.is_Rational))
    if denominator == 1 or not argument.is_Add:
        return arranged(argument)
    numerator = Add(*(term * denominator for term in argument.args))
    return Mul(Rational(1, denominator), arranged(numerator), evaluate=False)


def _inverse(factor: Any) -> Any:
    return Pow(arranged(factor), -1, evaluate=False) if factor.is_Add or factor.is_Integer else 1 / factor


def _with_remainders(index: Any) -> Any:
    """``m*f - m*d*floor(f/d)`` as ``m*Mod(f, d)``, where ``f`` may be a quotient itself; extrema stay as they are."""
    written = [term for term in index.args if term.has(Mod, Max, Min, Abs)]
    rest = Add(*(term for term in index.args if term not in written))
    try:
        form, atoms = parse(rest)
    except IndexExpressionError:
        return index
    form, found = remainders_of(form)
    if not found:
        return index
    named = {**dict(enumerate(atoms)), **{tensor.name: tensor for tensor in data_of(rest)}}
    remainders = [
        _expression(part, named) * Mod(_expression(dividend, named), _expression(divisor, named), evaluate=False)
        for part, dividend, divisor in found
    ]
    return Add(_expression(form, named), *remainders, *written)


def remainders_of(form: Affine) -> tuple[Affine, list[tuple[Affine, Affine, Affine]]]:
    """A form as it is shown: without what `remainders_in` and `digits_in` find, and that."""
    if not form.compounds():
        return form, []
    form, remainders = remainders_in(form)
    form, digits = digits_in(form)
    return form, remainders + digits


def remainders_in(form: Affine) -> tuple[Affine, list[tuple[Affine, Affine, Affine]]]:
    """The form without its remainders, and their factors, dividends and divisors.

    >>> from sympy_tensordiff.integer.affine import quotient
    >>> p = Affine.variable("p")
    >>> remainders_in(2 * p + 1 - 8 * quotient(p, 4))
    (1, [(2, p, 4)])
    """
    found = sorted(dict.fromkeys(rounded(form)))
    remainders = []
    for quotient in found:
        for dividend, divisor in _quotients_of(quotient, found):
            if any(abs(part.constant) != 1 for part, _, _ in remainders_in(dividend)[1]):
                continue  # typed in again, Mod(2*Mod(i, 3), 3) is 2*Mod(i, 3) to SymPy
            multiple = times(divisor, Affine.variable(quotient))
            for part in parts_by(form, multiple):
                short = form + times(part, multiple - dividend)
                if len(short.terms) == len(form.terms) - len(multiple.terms) - len(dividend.terms):
                    if part in (Affine.of(1), Affine.of(-1)) and _ends_at(divisor, short, part):
                        # d - 1 - f mod d is (-f - 1) mod d
                        short, part = short + times(part, divisor - 1), -part
                        dividend = _least(-dividend - 1, divisor)
                    form = short
                    remainders.append((part, dividend, divisor))
    return form, remainders


def digits_in(form: Affine) -> tuple[Affine, list[tuple[Affine, Affine, Affine]]]:
    """The form with smaller coefficients, where remainders give these; beside it those remainders as `remainders_in`.

    Of ``a*p + c*floor(p/d)`` either ``p`` is split into its digits, or ``p - Mod(p, d)`` replaces ``d*floor(p/d)``
    where no other quotient of ``p`` has digits of its own.

    >>> from sympy_tensordiff.integer.affine import quotient
    >>> p = Affine.variable("p")
    >>> digits_in(4 * p - 6 * quotient(p, 2) - 3 * quotient(p, 4))
    (floor((p)/4), [(4, p, 2), (2, floor((p)/2), 2)])
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


def _expression(form: Affine, atoms: Mapping[Any, Any]) -> Any:
    """A form over slots as a SymPy expression; ``atoms`` are symbols by slot and tensors of integers by name."""
    terms = [Integer(form.constant)]
    for slot, c in form.terms:
        terms.append(c * _variable(slot, atoms))
    return Add(*terms)


def _variable(variable: Any, atoms: Mapping[Any, Any]) -> Any:
    """A slot, or a compound of some, as a SymPy expression."""
    if isinstance(variable, int):
        return atoms[variable]
    if isinstance(variable, DataEntry):
        return atoms[variable.tensor][tuple(_expression(form, atoms) for form in variable.index)]
    if isinstance(variable, Product):
        return Mul(*(_variable(factor, atoms) for factor in variable.factors))
    if isinstance(variable, PositivePart):
        return Max(0, _expression(variable.form, atoms))
    divisor = _expression(Affine.of(variable.divisor), atoms)
    return floor(_expression(variable.form, atoms) / divisor)
