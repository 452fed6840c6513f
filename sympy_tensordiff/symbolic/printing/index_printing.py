"""Index expressions arranged for printing: ``p - k``, ``(p + 1)/2`` inside of a floor, remainders as ``Mod``.

SymPy sorts the terms of a sum by its own order and distributes fractions over them; here they are rearranged in an
unevaluated expression.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from math import lcm
from typing import Any

from sympy import Abs, Add, Integer, Max, Min, Mod, Mul, Pow, Rational, ceiling, floor

from sympy_tensordiff.errors import IndexExpressionError
from sympy_tensordiff.integer.affine import Affine
from sympy_tensordiff.integer.extrema import PositivePart
from sympy_tensordiff.integer.indirect import IndirectIndex
from sympy_tensordiff.integer.products import IndexProduct
from sympy_tensordiff.integer.remainders import remainders_of
from sympy_tensordiff.symbolic.index_notation.indices import data_of, parse


def show_index(printer: Any, index: Any, **how: Any) -> Any:
    """Return the index or bound ``index`` as ``printer`` prints it, with its terms in an order that reads well: ``p -
    k``, not ``-k + p``.

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
        # In LaTeX SymPy brackets every term that has a remainder anywhere, also where that has brackets of its own.
        with with_methods(printer, _needs_add_brackets=lambda term: term.is_Add or isinstance(term, Mod)):
            return printer._print(arranged(index), **how)
    finally:
        printer._settings["order"] = order


@contextmanager
def with_methods(printer: Any, **methods: Callable[..., Any]) -> Iterator[None]:
    """Context manager in which ``printer`` has the additional ``methods``, by name. A method that the printer object
    itself already has is not replaced.
    """
    given = {name: method for name, method in methods.items() if name not in vars(printer)}
    vars(printer).update(given)
    try:
        yield
    finally:
        for name in given:
            delattr(printer, name)


@lru_cache(maxsize=1 << 10)
def arranged(index: Any) -> Any:
    """Return ``index`` as an unevaluated expression with its terms in an order that reads well: ``p - k``, not ``-k +
    p``.
    """
    if index.is_Add:
        return Add(*_in_reading_order(_with_remainders(index)), evaluate=False)
    if isinstance(index, floor | ceiling):
        return type(index)(_fraction(index.args[0]), evaluate=False)
    if isinstance(index, Mod):  # Mod(p - 1, N) with a positive N is Mod(N + p - 1, N) to SymPy
        above, below = index.args
        index = Mod(Add(*(term for term in Add.make_args(above) if term != below)), below, evaluate=False)
    if isinstance(index, Abs | Max | Min | Mod):
        return type(index)(*map(arranged, index.args), evaluate=False)
    if index.is_Mul and index.args[0].is_Integer:
        return _times(*index.as_coeff_Mul())
    if index.is_Mul and not all(factor.is_Atom for factor in index.args):
        return Mul(*map(arranged, index.args), evaluate=False)
    return index


def _in_reading_order(total: Any) -> list[Any]:
    """Return the terms of ``total`` in reading order: negative ones after positive ones, a number last unless all
    others are negative.
    """
    parts = [term.as_coeff_Mul() for term in (total.as_ordered_terms() if total.is_Add else [total])]
    parts.sort(key=lambda part: (part[1] == 1, bool(part[0].is_negative)))
    if parts[0][0].is_negative and parts[-1][0].is_positive:
        parts.insert(0, parts.pop())
    return [_times(*part) for part in parts]


def _times(coefficient: Any, factor: Any) -> Any:
    """Return ``coefficient*factor`` with the terms of the factor in reading order."""
    if factor.is_Atom or coefficient == 1:
        return coefficient * arranged(factor)
    return Mul(coefficient, *Mul.make_args(arranged(factor)), evaluate=False)


def _fraction(argument: Any) -> Any:
    """Return the argument of a floor as one fraction: ``(p + 1)/2`` for ``p/2 + 1/2``."""
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
    """Return ``1/factor``, unevaluated for a sum or an integer."""
    return Pow(arranged(factor), -1, evaluate=False) if factor.is_Add or factor.is_Integer else 1 / factor


def _with_remainders(index: Any) -> Any:
    """Return ``index`` with ``m*f - m*d*floor(f/d)`` written as ``m*Mod(f, d)``; unchanged if it contains no such
    terms.

    ``f`` may contain quotients; terms with extrema or remainders are left as they are.
    """
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


def _expression(form: Affine, atoms: Mapping[Any, Any]) -> Any:
    """Return an affine form as a SymPy expression; ``atoms`` maps the variables of the form to symbols, and names of
    integer tensors to the tensors.
    """
    terms = [Integer(form.constant)]
    for slot, c in form.terms:
        terms.append(c * _variable(slot, atoms))
    return Add(*terms)


def _variable(variable: Any, atoms: Mapping[Any, Any]) -> Any:
    """Return ``variable``, a variable of affine forms, as a SymPy expression: a symbol, an entry of an integer tensor,
    a product, a maximum with 0 or a floor quotient. ``atoms`` has the symbols of numbered variables, and the tensors by
    name.
    """
    if isinstance(variable, int):
        return atoms[variable]
    if isinstance(variable, IndirectIndex):
        return atoms[variable.tensor][tuple(_expression(form, atoms) for form in variable.index)]
    if isinstance(variable, IndexProduct):
        return Mul(*(_variable(factor, atoms) for factor in variable.factors))
    if isinstance(variable, PositivePart):
        return Max(0, _expression(variable.form, atoms))
    divisor = _expression(Affine.of(variable.divisor), atoms)
    return floor(_expression(variable.form, atoms) / divisor)
