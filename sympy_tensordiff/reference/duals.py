"""Numbers of the oracle: exact rationals, 30-digit floats, and sparse dual numbers over either.

A *plain* number is an ``int``, a ``Fraction`` or an ``mpf`` of `CONTEXT`; plain arithmetic stays exact as long as no
float takes part. A `Dual` is a number with its derivatives with respect to the entries it depends on; its value and its
derivatives may be `Dual` again, of a lower level, which gives second derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

import mpmath
from mpmath.libmp import from_int, from_rational, round_nearest

CONTEXT = mpmath.MPContext()
CONTEXT.dps = 30
_ROUNDING = CONTEXT.ldexp(1, 10 - CONTEXT.prec)

Number: TypeAlias = Any
# The indices of an entry to differentiate with respect to, () for a scalar.
Key: TypeAlias = tuple[int, ...]
EXACT = (int, Fraction)
# Tested at each addition: `isinstance` is slow for `Fraction`, an abstract number class.
_EXACT_TYPES = frozenset({int, bool, Fraction})


class Dual:
    """A dual number: a ``value`` together with its derivatives, for differentiation during evaluation. The dictionary
    ``parts`` has the derivative with respect to each entry of the variables; the number stands for ``value +
    sum(parts[key] * d(key))``.

    `parts` has the derivatives that are not structurally zero, by the entry to differentiate with respect to. A dual is
    a constant for duals of a higher `level`.
    """

    __slots__ = ("level", "parts", "value")

    def __init__(self, value: Number, parts: dict[Key, Number], level: int = 1) -> None:
        self.value = value
        self.parts = parts
        self.level = level

    def __repr__(self) -> str:
        return f"Dual({self.value!r}, {self.parts!r}, {self.level})"


def primal(number: Number) -> Number:
    """Return the plain value of ``number``, without derivatives."""
    while isinstance(number, Dual):
        number = number.value
    return number


def to_float(number: Number) -> Number:
    """Return `number` as a 30-digit float; NaN for a complex one, since tensors are real."""
    type_ = type(number)
    if type_ is CONTEXT.mpf:
        return number
    if type_ is Fraction:
        return CONTEXT.make_mpf(from_rational(number.numerator, number.denominator, CONTEXT.prec, round_nearest))
    if type_ is int:
        return CONTEXT.make_mpf(from_int(number, CONTEXT.prec, round_nearest))
    if isinstance(number, CONTEXT.mpc):
        return number.real if number.imag == 0 else CONTEXT.nan
    return CONTEXT.mpf(number)


def is_exact_zero(number: Number) -> bool:
    """Return whether ``number`` is an exact 0 without derivatives."""
    return type(number) in _EXACT_TYPES and not number


def compare(left: Number, right: Number) -> int:
    """Return -1, 0 or 1 if the value of ``left`` is less than, equal to or greater than that of ``right``.

    Floats that differ in their last digits only are equal: a maximum equals the term that it is, also where the
    factors of that term are multiplied in another order.
    """
    left, right = primal(left), primal(right)
    if not (type(left) in _EXACT_TYPES and type(right) in _EXACT_TYPES):
        left, right = to_float(left), to_float(right)
        if left != right and abs(left - right) <= _ROUNDING * abs(left):
            return 0
    return int(left > right) - int(left < right)


def apply_chain_rule(
    arguments: Sequence[Number],
    value: Callable[[Sequence[Number]], Number],
    slope: Callable[[int, Sequence[Number]], Number],
) -> Number:
    """Return ``value(arguments)`` with its derivatives by the chain rule, if any argument is a `Dual`.
    ``slope(n, arguments)`` returns the partial derivative with respect to argument ``n``.

    ``value`` and ``slope(n, ...)``, the partial derivative with respect to argument ``n``, are called with the
    arguments one level down.
    """
    level = 0
    for argument in arguments:
        if isinstance(argument, Dual) and argument.level > level:
            level = argument.level
    if level == 0:
        return value(arguments)
    inner = [a.value if isinstance(a, Dual) and a.level == level else a for a in arguments]
    result = value(inner)
    parts: dict[Key, Number] = {}
    for n, argument in enumerate(arguments):
        if not isinstance(argument, Dual) or argument.level != level:
            continue
        factor = _finite_slope(slope, n, inner, argument, result)
        if is_exact_zero(factor):
            continue
        is_one = type(factor) is int and factor == 1
        for key, part in argument.parts.items():
            term = part if is_one else multiply(factor, part)
            parts[key] = add(parts[key], term) if key in parts else term
    return Dual(result, parts, level) if parts else result


def _finite_slope(
    slope: Callable[[int, Sequence[Number]], Number], n: int, inner: Sequence[Number], argument: Dual, result: Number
) -> Number:
    """Return the partial derivative ``slope(n, inner)`` of a function with respect to argument ``n`` at the values
    ``inner``; if it is infinite, but does not matter, return 0.

    It does not matter if the dual number ``argument`` has no derivatives and the function's value ``result`` is finite.
    """
    try:
        factor = slope(n, inner)
    except ZeroDivisionError:
        if not _is_infinite(result) and _is_flat(argument):
            return 0
        raise
    return 0 if _is_infinite(factor) and not _is_infinite(result) and _is_flat(argument) else factor


def _is_infinite(number: Number) -> bool:
    """Return whether the value of ``number`` is infinite."""
    number = primal(number)
    return type(number) is CONTEXT.mpf and bool(CONTEXT.isinf(number))


def _is_flat(number: Number) -> bool:
    """Return whether all first derivatives of `number` are 0."""
    while isinstance(number, Dual):
        if any(primal(part) != 0 for part in number.parts.values()):
            return False
        number = number.value
    return True


def add(left: Number, right: Number) -> Number:
    """Return the sum of the numbers ``left`` and ``right``, which may be dual numbers (numbers with derivatives)."""
    if type(left) in _EXACT_TYPES and type(right) in _EXACT_TYPES:
        return left + right
    if isinstance(left, Dual) or isinstance(right, Dual):
        return apply_chain_rule((left, right), lambda x: add(*x), lambda n, x: 1)
    return to_float(left) + to_float(right)


def multiply(left: Number, right: Number) -> Number:
    """Return the product of the numbers ``left`` and ``right``, which may be dual numbers (numbers with derivatives);
    an exact 0 if a factor is an exact 0.
    """
    left_is_exact, right_is_exact = type(left) in _EXACT_TYPES, type(right) in _EXACT_TYPES
    if (left_is_exact and not left) or (right_is_exact and not right):
        return 0
    if left_is_exact and right_is_exact:
        return left * right
    if isinstance(left, Dual) or isinstance(right, Dual):
        return apply_chain_rule((left, right), lambda x: multiply(*x), lambda n, x: x[1 - n])
    return to_float(left) * to_float(right)


def power(base: Number, exponent: Number) -> Number:
    """Return ``base**exponent``, exact for rational bases and integer exponents; ``0**0`` is 1."""
    if isinstance(base, Dual) or isinstance(exponent, Dual):
        return apply_chain_rule((base, exponent), lambda x: power(*x), _power_slope)
    if isinstance(exponent, EXACT) and exponent.denominator == 1:
        exponent = int(exponent)
        return Fraction(base) ** exponent if isinstance(base, EXACT) else base**exponent
    return to_float(CONTEXT.power(to_float(base), to_float(exponent)))


def _power_slope(n: int, arguments: Sequence[Number]) -> Number:
    """Return the partial derivative of ``base**exponent`` with respect to the base (``n`` 0) or the exponent (1);
    ``arguments`` are the base and the exponent.
    """
    base, exponent = arguments
    if n == 0:
        return 0 if is_exact_zero(exponent) else multiply(exponent, power(base, add(exponent, -1)))
    if compare(base, 0) == 0 and compare(exponent, 0) == 1:
        return 0  # the limit, where log(0) is infinite
    return multiply(power(base, exponent), logarithm(base))


_Function: TypeAlias = Callable[[Number], Number]


def _unary_function(compute: _Function, slope: _Function) -> _Function:
    """Return a scalar function for plain and dual numbers: ``compute`` gives its value at a plain number, ``slope`` its
    derivative.
    """

    def function(number: Number) -> Number:
        """Return the value at ``number`` of a scalar function whose derivative is known. For a `Dual`, a number with
        derivatives, the result is a `Dual` too: the value with its derivatives, by the chain rule.
        """
        if isinstance(number, Dual):
            return apply_chain_rule((number,), lambda x: function(x[0]), lambda n, x: slope(x[0]))
        return compute(number)

    return function


logarithm: _Function = _unary_function(lambda x: to_float(CONTEXT.log(to_float(x))), lambda x: power(x, -1))
exponential: _Function = _unary_function(lambda x: to_float(CONTEXT.exp(to_float(x))), lambda x: exponential(x))
absolute: _Function = _unary_function(abs, lambda x: sign(x))
"""The absolute value, with derivative 0 at 0."""


def sign(number: Number) -> Number:
    """Return the sign -1, 0 or 1, with derivative 0."""
    return compare(number, 0)


def floor(number: Number) -> Number:
    """Return the largest integer not greater than ``number``, with derivative 0."""
    number = primal(number)
    return number.__floor__() if isinstance(number, EXACT) else int(CONTEXT.floor(number))


def modulo(left: Number, right: Number) -> Number:
    """Return ``left - right*floor(left/right)``, the remainder with the sign of ``right``."""
    quotient = floor(multiply(primal(left), power(primal(right), -1)))
    return add(left, multiply(-quotient, right))


def heaviside(number: Number, at_zero: Number) -> Number:
    """Return the step function of ``number``: 0 below 0, 1 above, `at_zero` at 0; its derivative is 0."""
    return {-1: 0, 0: primal(at_zero), 1: 1}[compare(number, 0)]


def extremum(arguments: Sequence[Number], literal: Sequence[bool], direction: int) -> Number:
    """Return the largest argument (``direction`` 1) or the smallest (-1). Arguments that are tied share the derivative,
    unless one of them is a `literal` number: then the derivative is 0.

    Arguments that are written as numbers (true in `literal`) win a tie, with derivative 0.
    """
    best = arguments[0]
    for argument in arguments[1:]:
        if compare(argument, best) == direction:
            best = argument
    tied_arguments = [n for n, argument in enumerate(arguments) if compare(argument, best) == 0]
    if len(tied_arguments) == 1:
        return best
    for n in tied_arguments:
        if literal[n]:
            return arguments[n]
    if not any(isinstance(arguments[n], Dual) for n in tied_arguments):
        return best
    total: Number = 0
    for n in tied_arguments:  # average the differences, not the values: a rounded mean would differ from all of them
        total = add(total, add(arguments[n], multiply(best, -1)))
    return add(best, multiply(total, Fraction(1, len(tied_arguments))))
